#include "outer/layout.hpp"

#include <gtest/gtest.h>

namespace isthmus::outer {
namespace {

TEST(Layout, PiecesBeginAtUnitsAndCoverEverythingOnce) {
    const FragmentLayout layout({0, 1, 256, 0, 1000, 512}, 512);
    std::int64_t end = 0;
    for (std::uint32_t p = 0; p < layout.num_pieces(); ++p) {
        EXPECT_EQ(layout.piece(p).offset, end);
        EXPECT_GT(layout.piece(p).count, 0);
        EXPECT_LE(layout.piece(p).count, 512);
        end += layout.piece(p).count;
    }
    EXPECT_EQ(end, 1769);
    EXPECT_EQ(layout.num_elements(), 1769);
    EXPECT_EQ(layout.num_pieces(), 5u);
    EXPECT_EQ(layout.piece(3).offset, 257 + 512);
    EXPECT_EQ(layout.piece(3).count, 488);
}

TEST(Layout, MayBeEmpty) {
    EXPECT_EQ(FragmentLayout({}).num_pieces(), 0u);
    EXPECT_EQ(FragmentLayout({0, 0}).num_elements(), 0);
}

TEST(LayoutDeathTest, NoPieceCutsABlock) {
    EXPECT_DEATH(FragmentLayout({1000}, 100), "pieces of 100 elements");
}

}  // namespace
}  // namespace isthmus::outer
