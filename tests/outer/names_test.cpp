#include "outer/names.hpp"

#include <gtest/gtest.h>

namespace isthmus::outer {
namespace {

TEST(Names, HashesAreWrittenInHex) {
    StateHash hash{};
    hash[0] = std::byte{0x0f};
    hash[1] = std::byte{0xa0};
    hash[31] = std::byte{0xff};
    EXPECT_EQ(hex(hash), "0fa0" + std::string(58, '0') + "ff");
    EXPECT_EQ(short_hex(hash), "0fa000000000");
}

TEST(Names, ANewerIncarnationIsGreater) {
    EXPECT_LT((Incarnation{1, 9}), (Incarnation{2, 0}));
    EXPECT_NE((Incarnation{1, 9}), (Incarnation{1, 8}));
    EXPECT_FALSE((StateName{0, Round(1), {}}) == (StateName{1, Round(1), {}}));
}

}  // namespace
}  // namespace isthmus::outer
