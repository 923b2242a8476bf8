#include "outer/samples.hpp"

#include <gtest/gtest.h>

namespace isthmus::outer {
namespace {

using Ranges = std::vector<SampleRange>;

std::vector<std::uint64_t> take(SampleCursor& cursor, std::size_t count) {
    std::vector<SampleNumber> numbers(count);
    cursor.next(numbers);
    std::vector<std::uint64_t> values;
    for (const SampleNumber number : numbers) values.push_back(number.value);
    return values;
}

TEST(SampleCursor, TakesLeasesInOrder) {
    SampleCursor cursor;
    cursor.grant({{100, 3}, {7, 0}, {20, 2}});
    cursor.grant({{22, 2}, {5, 1}});
    EXPECT_EQ(cursor.left(), 8u);
    EXPECT_EQ(take(cursor, 2), (std::vector<std::uint64_t>{100, 101}));
    EXPECT_EQ(take(cursor, 0), std::vector<std::uint64_t>{});
    EXPECT_EQ(take(cursor, 4), (std::vector<std::uint64_t>{102, 20, 21, 22}));
    EXPECT_EQ(cursor.left(), 2u);
    EXPECT_EQ(cursor.trained(), (Ranges{{100, 3}, {20, 3}}));
    EXPECT_EQ(take(cursor, 2), (std::vector<std::uint64_t>{23, 5}));
    EXPECT_EQ(cursor.trained(), (Ranges{{100, 3}, {20, 4}, {5, 1}}));
    EXPECT_TRUE(cursor.skipped().empty());
}

TEST(SampleCursor, ASkippedStepIsListedApart) {
    SampleCursor cursor;
    cursor.grant({{0, 3}, {10, 10}});
    take(cursor, 2);
    take(cursor, 2);  // 2, 10
    cursor.mark_skipped(2);
    take(cursor, 2);  // 11, 12
    EXPECT_EQ(cursor.trained(), (Ranges{{0, 2}, {11, 2}}));
    EXPECT_EQ(cursor.skipped(), (Ranges{{2, 1}, {10, 1}}));
    cursor.mark_skipped(2);
    EXPECT_EQ(cursor.trained(), (Ranges{{0, 2}}));
    EXPECT_EQ(cursor.skipped(), (Ranges{{2, 1}, {10, 3}}));
    take(cursor, 1);
    cursor.taken_over();
    EXPECT_TRUE(cursor.trained().empty());
    EXPECT_TRUE(cursor.skipped().empty());
    EXPECT_EQ(cursor.left(), 6u);
    EXPECT_EQ(take(cursor, 1), (std::vector<std::uint64_t>{14}));
    cursor.reset();
    EXPECT_EQ(cursor.left(), 0u);
    EXPECT_TRUE(cursor.trained().empty());
}

// Whatever the sizes of steps and leases: every sample once, trained or skipped.
TEST(SampleCursor, LosesNothing) {
    SampleCursor cursor;
    for (std::uint64_t i = 0; i < 50; ++i) cursor.grant({{i * 10, 7}});
    std::uint64_t step = 0;
    for (std::size_t size = 1; cursor.left() >= size; size = size % 13 + 1) {
        take(cursor, size);
        if (++step % 3 == 0) cursor.mark_skipped(size);
    }
    take(cursor, cursor.left());
    std::vector<int> seen(500, 0);
    for (const auto& ranges : {cursor.trained(), cursor.skipped()}) {
        for (const SampleRange& range : ranges)
            for (std::uint64_t i = range.first; i < range.end(); ++i) ++seen[i];
    }
    for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], i % 10 < 7 ? 1 : 0) << i;
}

TEST(SampleCursorDeathTest, TakesNoMoreThanIsLeased) {
    SampleCursor cursor;
    cursor.grant({{0, 3}});
    EXPECT_DEATH(take(cursor, 4), "4 samples wanted, 3 are leased");
    EXPECT_DEATH(cursor.mark_skipped(1), "1 samples skipped, 0 taken");
}

}  // namespace
}  // namespace isthmus::outer
