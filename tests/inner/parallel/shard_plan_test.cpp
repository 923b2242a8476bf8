#include "inner/parallel/shard_plan.hpp"

#include <gtest/gtest.h>

namespace isthmus::inner {
namespace {

TEST(ShardPlan, CoversEveryElementOnceOnGrains) {
    for (const std::int64_t count : {0, 1, 4095, 4096, 4097, 100000, 1234567}) {
        for (const std::int64_t grain : {1, 64, 4096}) {
            for (const std::int64_t ranks : {1, 2, 3, 4, 7, 64}) {
                const ShardPlan plan = ShardPlan::balanced(count, grain, ranks);
                ASSERT_EQ(plan.ranks(), ranks);
                std::int64_t at = 0;
                for (std::uint32_t rank = 0; rank < ranks; ++rank) {
                    const Range piece = plan.piece(Rank(rank));
                    ASSERT_EQ(piece.begin, at);
                    ASSERT_GE(piece.end, piece.begin);
                    ASSERT_TRUE(piece.end % grain == 0 || piece.end == count);
                    ASSERT_LE(piece.count(), count / ranks + 2 * grain);
                    at = piece.end;
                }
                ASSERT_EQ(at, count);
            }
        }
    }
}

TEST(ShardPlan, RaggedBoundariesMayLeaveRanksEmpty) {
    const ShardPlan plan({0, 0, 1, 6, 8, 8, 8, 8, 8});  // pieces (0,1,5,2,0,0,0,0)
    EXPECT_EQ(plan.ranks(), 8);
    EXPECT_EQ(plan.piece(Rank(0)).count(), 0);
    EXPECT_EQ(plan.piece(Rank(2)), (Range{1, 6}));
    EXPECT_EQ(plan.piece(Rank(7)).count(), 0);
}

TEST(SplitByView, PartsTileThePieceAndNameTheirView) {
    ModelConfig config;
    config.preset = "tiny";
    config.resolve();
    const Layout layout = make_layout(config);
    const Unit& unit = layout[layout.block(1)];
    const Range piece{100, unit.count - 77};
    std::int64_t at = piece.begin;
    for (const ViewRange& part : split_by_view(unit, piece)) {
        ASSERT_EQ(part.range.begin, at);
        ASSERT_GE(part.range.begin, part.view->offset);
        ASSERT_LE(part.range.end, part.view->offset + part.view->count());
        at = part.range.end;
    }
    EXPECT_EQ(at, piece.end);
}

}  // namespace
}  // namespace isthmus::inner
