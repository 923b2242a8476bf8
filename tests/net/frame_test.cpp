#include "net/frame.hpp"

#include "net/bytes.hpp"

namespace isthmus::net {
namespace {

const FrameRules kRules{.run = RunId(0x1122334455667788), .num_kinds = 9, .max_payload_bytes = 100};

std::vector<std::byte> some_payload() {
    std::vector<std::byte> payload;
    for (int i = 0; i < 37; ++i) payload.push_back(static_cast<std::byte>(i * 7));
    return payload;
}

std::vector<std::byte> good_frame() {
    const auto payload = some_payload();
    return make_frame(kRules.run, {.kind = 3, .sender = SiteId(2), .payload = payload});
}

std::string refusal(std::span<const std::byte> bytes, const FrameRules& rules = kRules) {
    const auto frame = parse_frame(bytes, rules);
    return frame ? "taken" : frame.error().message;
}

TEST(Frame, ComesBackAsItWent) {
    const auto bytes = good_frame();
    const auto frame = parse_frame(bytes, kRules);
    ASSERT_TRUE(frame);
    EXPECT_EQ(frame->kind, 3);
    EXPECT_EQ(frame->sender, SiteId(2));
    const auto payload = some_payload();
    EXPECT_TRUE(
        std::equal(payload.begin(), payload.end(), frame->payload.begin(), frame->payload.end()));
}

TEST(Frame, LayoutIsFixed) {
    const auto bytes = make_frame(RunId(1), {.kind = 0x0203, .sender = SiteId(4), .payload = {}});
    ASSERT_EQ(bytes.size(), kFrameHeaderBytes);
    const unsigned expected[] = {'I', 'S', 'T', 'H', 1, 0, 3, 2, 1, 0, 0, 0, 0, 0, 0, 0,
                                 4,   0,   0,   0,   0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    for (std::size_t i = 0; i < std::size(expected); ++i) {
        EXPECT_EQ(static_cast<unsigned>(bytes[i]), expected[i]) << "byte " << i;
    }
}

TEST(Frame, EveryFlippedBitIsRefused) {
    auto bytes = good_frame();
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        for (int bit = 0; bit < 8; ++bit) {
            bytes[i] ^= static_cast<std::byte>(1 << bit);
            EXPECT_NE(refusal(bytes), "taken") << "byte " << i << " bit " << bit;
            bytes[i] ^= static_cast<std::byte>(1 << bit);
        }
    }
    EXPECT_EQ(refusal(bytes), "taken");
}

TEST(Frame, EveryCutLengthIsRefused) {
    auto bytes = good_frame();
    for (std::size_t n = 0; n < bytes.size(); ++n) {
        EXPECT_NE(refusal(std::span(bytes).first(n)), "taken") << n;
    }
    bytes.push_back({});
    EXPECT_EQ(refusal(bytes), "frame refused: header says 37 bytes of payload, 38 came");
}

// Refusals name their reason. A frame that is otherwise right: its checksum is made to fit.
std::vector<std::byte> with_header(std::size_t offset, std::byte value) {
    auto bytes = good_frame();
    bytes[offset] = value;
    return bytes;
}

TEST(Frame, RefusalsSayWhatIsWrong) {
    EXPECT_EQ(refusal({}), "frame refused: 0 bytes are less than a header of 40");
    EXPECT_EQ(refusal(with_header(0, std::byte('X'))),
              "frame refused: not from isthmus (first bytes 48545358)");
    EXPECT_EQ(refusal(with_header(4, std::byte(2))),
              "frame refused: version 2, this build speaks 1; run the same build everywhere");
    EXPECT_EQ(refusal(with_header(6, std::byte(9))), "frame refused: unknown kind 9");
    EXPECT_EQ(refusal(with_header(20, std::byte(1))), "frame refused: reserved field is 1");
    EXPECT_EQ(refusal(good_frame(), {.run = RunId(5), .num_kinds = 9, .max_payload_bytes = 100}),
              "frame refused: of run 1122334455667788, this is run 0000000000000005");
    EXPECT_EQ(refusal(good_frame(), {.run = kRules.run, .num_kinds = 9, .max_payload_bytes = 36}),
              "frame refused: 37 bytes of payload, at most 36 are taken");
    // A length of 2^63: refused by comparison, nothing is allocated from it.
    EXPECT_EQ(refusal(with_header(31, std::byte(0x80))),
              "frame refused: 9223372036854775845 bytes of payload, at most 100 are taken");
    EXPECT_EQ(refusal(with_header(50, std::byte(0xee))),
              "frame refused: damaged on the way (checksum), kind 3 from 2");
    EXPECT_EQ(refusal(with_header(16, std::byte(1))),
              "frame refused: damaged on the way (checksum), kind 3 from 1");
}

TEST(ByteReader, LyingCountsAllocateNothing) {
    ByteWriter writer;
    writer.u32(0xffffffff);
    ByteReader counts(writer.data());
    EXPECT_EQ(counts.count(4), 0u);
    EXPECT_FALSE(counts.good());
    ByteReader texts(writer.data());
    EXPECT_EQ(texts.text(), "");
    EXPECT_FALSE(texts.good());
}

}  // namespace
}  // namespace isthmus::net
