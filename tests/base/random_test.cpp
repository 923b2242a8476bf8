#include "base/random.hpp"

#include <gtest/gtest.h>

#include "base/bf16.hpp"

namespace isthmus {
namespace {

TEST(Random, SameNumbersForEver) {
    // A checkpoint's data order and initial weights hang on these: they may never change.
    EXPECT_EQ(mix64(0), 0xe220a8397b1dcdafull);  // splitmix64's first output for seed 0
    EXPECT_EQ(mix64(0x9e3779b97f4a7c15ull), 0x6e789e6aa1b965f4ull);  // its second
}

TEST(Random, UniformHasMeanAndVariance) {
    constexpr int kDraws = 100000;
    double sum = 0, squares = 0;
    for (int i = 0; i < kDraws; ++i) {
        const double u = random_uniform(3, static_cast<std::uint64_t>(i));
        ASSERT_GE(u, 0.0);
        ASSERT_LT(u, 1.0);
        sum += u;
        squares += u * u;
    }
    EXPECT_NEAR(sum / kDraws, 0.5, 0.005);  // five standard errors
    EXPECT_NEAR(squares / kDraws, 1.0 / 3, 0.005);
}

TEST(Random, NormalHasMeanAndVariance) {
    constexpr int kDraws = 100000;
    double sum = 0, squares = 0;
    for (int i = 0; i < kDraws; ++i) {
        const double z = random_normal(4, static_cast<std::uint64_t>(i));
        ASSERT_TRUE(std::isfinite(z));
        sum += z;
        squares += z * z;
    }
    EXPECT_NEAR(sum / kDraws, 0.0, 0.016);  // five standard errors
    EXPECT_NEAR(squares / kDraws, 1.0, 0.023);
}

TEST(Random, KeysAndCountersDiffer) {
    EXPECT_NE(random_bits(1, 0), random_bits(0, 1));
    EXPECT_NE(random_bits(1, 0), random_bits(2, 0));
}

TEST(Bf16, RoundsToNearestTiesToEven) {
    const auto round_trip = [](float x) { return to_float(to_bf16(x)); };
    EXPECT_EQ(round_trip(1.0f), 1.0f);
    EXPECT_EQ(round_trip(1.0f + 0x1p-8f), 1.0f);                      // a tie, down to even
    EXPECT_EQ(round_trip(1.0f + 0x1p-7f + 0x1p-8f), 1.0f + 0x1p-6f);  // a tie, up to even
    EXPECT_EQ(round_trip(1.0f + 0x1p-8f + 0x1p-20f), 1.0f + 0x1p-7f);
    EXPECT_EQ(round_trip(-0.0f), -0.0f);
    EXPECT_TRUE(std::isinf(round_trip(3.4e38f)));
    EXPECT_TRUE(std::isnan(round_trip(std::bit_cast<float>(0x7f800001u))));
}

}  // namespace
}  // namespace isthmus
