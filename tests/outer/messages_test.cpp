#include "outer/messages.hpp"

#include "net/bytes.hpp"

namespace isthmus::outer {
namespace {

StateHash hash(int seed) {
    StateHash h{};
    for (std::size_t i = 0; i < h.size(); ++i) h[i] = static_cast<std::byte>(seed + i);
    return h;
}

std::vector<Message> one_of_each() {
    return {
        Hello{.incarnation = 1,
              .config_hash = 2,
              .elements = 3,
              .state = hash(4),
              .listens = {"", "tcp://127.0.0.1:5"}},
        Start{{"a", "", "ccc"}},
        Ready{.round = Round(6), .anchor = hash(7), .samples = 8},
        Begin{.round = Round(9), .contributors = {SiteId(0), SiteId(10)}, .weights = {1.0f, 0.25f}},
        Vote{.round = Round(11), .result = hash(12)},
        Commit{.round = Round(13), .result = hash(14)},
        Leave{"disk full"},
        Farewell{},
        Stop{"site 1 is lost"},
        Beat{15}};
}

TEST(Messages, ComeBackAsTheyWent) {
    const auto messages = one_of_each();
    ASSERT_EQ(messages.size(), std::variant_size_v<Message>);
    for (std::size_t i = 0; i < messages.size(); ++i) {
        const auto bytes = encode(messages[i]);
        const auto back = decode(kind_of(messages[i]), bytes);
        ASSERT_TRUE(back) << i;
        EXPECT_EQ(back->index(), i);
        EXPECT_EQ(encode(*back), bytes) << i;
    }
    const auto begin = decode(3, encode(messages[3]));
    EXPECT_EQ(std::get<Begin>(*begin).contributors[1], SiteId(10));
    EXPECT_EQ(std::get<Begin>(*begin).weights[1], 0.25f);
    EXPECT_EQ(std::get<Begin>(*begin).round, Round(9));
}

TEST(Messages, CutOrLongerOnesAreRefused) {
    for (const Message& message : one_of_each()) {
        auto bytes = encode(message);
        for (std::size_t n = 0; n < bytes.size(); ++n) {
            EXPECT_FALSE(decode(kind_of(message), std::span(bytes).first(n)));
        }
        bytes.push_back({});
        EXPECT_FALSE(decode(kind_of(message), bytes));
    }
    EXPECT_FALSE(decode(kDataKind, {}));
}

TEST(Messages, ALyingLengthIsRefused) {
    net::ByteWriter writer;
    writer.u32(0x40000000);  // endpoints; 4 GiB of strings
    EXPECT_EQ(decode(1, writer.data()).error().message,
              "message refused: 4 bytes do not make kind 1");
}

}  // namespace
}  // namespace isthmus::outer
