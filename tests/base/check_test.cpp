#include "base/check.hpp"

#include <gtest/gtest.h>

#include "base/result.hpp"

namespace isthmus {
namespace {

TEST(CheckDeathTest, AbortsWithTextPlaceAndMessage) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    CHECK(1 + 1 == 2);
    EXPECT_DEATH(CHECK(1 == 2, "round {}", 7),
                 "CHECK failed: 1 == 2: round 7 \\(.*check_test\\.cpp:[0-9]+\\)");
}

TEST(CheckDeathTest, ValueOfAFailedResultIsABug) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    Result<int> lost = Error{"a.bin: lost"};
    EXPECT_DEATH((void)lost.value(), "a.bin: lost");
}

TEST(Result, HoldsEither) {
    Result<std::string> good = std::string("x");
    ASSERT_TRUE(good);
    EXPECT_EQ(*good, "x");
    EXPECT_EQ(good->size(), 1u);
    const Status bad = Error{"why"};
    EXPECT_FALSE(bad);
    EXPECT_EQ(bad.error().message, "why");
    EXPECT_TRUE(Status(Done{}));
}

}  // namespace
}  // namespace isthmus
