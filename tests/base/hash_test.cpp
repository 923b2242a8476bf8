#include "base/hash.hpp"

#include <gtest/gtest.h>

namespace isthmus {
namespace {

TEST(Hash, IsXxh3) {
    EXPECT_EQ(hex(hash64("")), "2d06800538d394c2");  // XXH3_64bits of nothing, from xxHash's tests
    EXPECT_NE(hash64("a"), hash64("b"));
}

TEST(Hash, StreamEqualsWhole) {
    std::string text;
    for (int i = 0; i < 5000; ++i) text += static_cast<char>(i * 7);
    const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
    Hasher hasher;
    for (std::size_t at = 0, piece = 1; at < bytes.size(); at += piece++)
        hasher.update(bytes.subspan(at, std::min(piece, bytes.size() - at)));
    EXPECT_EQ(hasher.digest(), hash64(bytes));
    EXPECT_EQ(hash64(bytes), hash64(text));
    hasher.update(bytes.first(1));  // a digest does not end the stream
    EXPECT_NE(hasher.digest(), hash64(bytes));
}

TEST(Hash, Hex) {
    EXPECT_EQ(hex(0), "0000000000000000");
    EXPECT_EQ(hex(0xABCDEF0123456789ull), "abcdef0123456789");
}

}  // namespace
}  // namespace isthmus
