#include "outer/messages.hpp"

#include <gtest/gtest.h>

#include <set>

#include "base/record.hpp"
#include "tests/outer/support/sample_messages.hpp"

namespace isthmus::outer {
namespace {

std::string refusal(std::uint16_t kind, std::span<const std::byte> payload) {
    const auto message = decode(kind, payload);
    return message ? "taken" : message.error().message;
}

TEST(Messages, EachComesBackWithEveryField) {
    const auto messages = test::sample_messages();
    ASSERT_EQ(messages.size(), kNumMessageKinds);
    std::set<std::string_view> names;
    for (std::uint16_t kind = 0; kind < messages.size(); ++kind) {
        SCOPED_TRACE(name_of(messages[kind]));
        EXPECT_EQ(kind_of(messages[kind]), kind);
        names.insert(name_of(messages[kind]));
        const auto payload = encode(messages[kind]);
        const auto back = decode(kind, payload);
        ASSERT_TRUE(back) << back.error().message;
        EXPECT_EQ(back->index(), kind);
        // Bytes are equal only if all fields are: the samples fill every field.
        EXPECT_EQ(encode(*back), payload);
        EXPECT_LE(payload.size(), kMaxMessageBytes);
    }
    EXPECT_EQ(names.size(), kNumMessageKinds);
    const auto hello = std::get<Hello>(*decode(0, encode(messages[0])));
    EXPECT_EQ(hello.count, 7u);
    EXPECT_EQ(hello.config[1].second, "int8");
    EXPECT_TRUE(hello.journal == (LogHead{11, 22, 33}));
    EXPECT_EQ(hello.staged->counter, 5u);
}

TEST(Messages, NoneIsTakenShortOrLong) {
    for (const Message& message : test::sample_messages()) {
        SCOPED_TRACE(name_of(message));
        auto payload = encode(message);
        for (std::size_t n = 0; n < payload.size(); ++n)
            EXPECT_FALSE(decode(kind_of(message), std::span(payload).first(n))) << n;
        payload.push_back(std::byte{0});
        const std::string why = refusal(kind_of(message), payload);
        EXPECT_EQ(why.substr(0, name_of(message).size()), name_of(message));
        EXPECT_NE(why.find("left over"), std::string::npos);
    }
}

TEST(Messages, UnknownKindsAndValuesAreRefused) {
    EXPECT_EQ(refusal(kNumMessageKinds, {}), "unknown kind of message 19");
    EXPECT_EQ(refusal(0xffff, {}), "unknown kind of message 65535");
    Begin begin = std::get<Begin>(test::sample_messages()[10]);
    EXPECT_EQ(refusal(10, encode(begin)), "taken");
    begin.codec = static_cast<Codec>(3);
    EXPECT_NE(refusal(10, encode(begin)).find("none of the known values"), std::string::npos);
    begin.codec = Codec::kInt8;
    begin.method = static_cast<Method>(3);
    EXPECT_NE(refusal(10, encode(begin)).find("none of the known values"), std::string::npos);
}

TEST(Messages, AThousandSitesFitIntoOne) {
    Begin begin = std::get<Begin>(test::sample_messages()[10]);
    begin.participants.resize(1000, begin.participants.front());
    EXPECT_LE(encode(begin).size(), kMaxMessageBytes);
}

}  // namespace
}  // namespace isthmus::outer
