#include "inner/ops/buffer_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "base/error.hpp"
#include "base/random.hpp"

namespace isthmus::inner {
namespace {

struct Wanted {
    BufferId id;
    std::int64_t bytes;
    Lifetime life;
};

std::int64_t draw(std::uint64_t seed, std::uint64_t counter, std::int64_t limit) {
    return static_cast<std::int64_t>(random_bits(seed, counter) %
                                     static_cast<std::uint64_t>(limit));
}

TEST(BufferPlan, RandomPlansNeverOverlapAndStayNearTheLowerBound) {
    double worst = 0, sum = 0;
    const int plans = 200;
    for (std::uint64_t seed = 1; seed <= plans; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        BufferPlan plan;
        std::vector<Wanted> wanted;
        const auto count = 2 + draw(seed, 0, 60);
        for (std::int64_t i = 0; i < count; ++i) {
            const auto at = static_cast<std::uint64_t>(i) * 8;
            const auto bytes = draw(seed, at + 1, 1 << (4 + draw(seed, at + 2, 14)));
            const int first = static_cast<int>(draw(seed, at + 3, 20));
            Lifetime life{first, first + static_cast<int>(draw(seed, at + 4, 10))};
            if (draw(seed, at + 5, 10) == 0) life = kAlways;
            wanted.push_back(
                {plan.add("b" + std::to_string(i), i % 2 ? "odd" : "even", bytes, life), bytes,
                 life});
        }
        plan.assign();
        std::int64_t live_peak = 0;
        for (int phase = 0; phase < 40; ++phase) {
            std::int64_t live = 0;
            for (const Wanted& a : wanted) {
                if (a.life.first > phase || a.life.last < phase) continue;
                live += (a.bytes + 63) / 64 * 64;
                const auto a_at = plan.offset(a.id);
                EXPECT_EQ(a_at % 64, 0);
                EXPECT_LE(a_at + a.bytes, plan.total_bytes());
                EXPECT_EQ(plan.bytes(a.id), a.bytes);
                for (const Wanted& b : wanted) {
                    if (&a == &b || b.life.first > phase || b.life.last < phase) continue;
                    const auto b_at = plan.offset(b.id);
                    EXPECT_TRUE(a_at + a.bytes <= b_at || b_at + b.bytes <= a_at || a.bytes == 0 ||
                                b.bytes == 0);
                }
            }
            live_peak = std::max(live_peak, live);
        }
        EXPECT_EQ(plan.live_peak_bytes(), live_peak);
        EXPECT_GE(plan.total_bytes(), live_peak);
        std::int64_t groups = 0;
        for (const auto& [group, bytes] : plan.peak_by_group()) groups += bytes;
        EXPECT_EQ(groups, live_peak);
        const double ratio = static_cast<double>(plan.total_bytes()) /
                             static_cast<double>(std::max<std::int64_t>(live_peak, 1));
        worst = std::max(worst, ratio);
        sum += ratio;
    }
    RecordProperty("mean_ratio", std::to_string(sum / plans));
    RecordProperty("worst_ratio", std::to_string(worst));
    // Random lifetimes are harder than a training step's nested ones; measured 1.01 and 1.2.
    EXPECT_LT(sum / plans, 1.05);
    EXPECT_LT(worst, 1.35);
}

TEST(BufferPlan, NestedLifetimesOfATrainingStepMeetTheLowerBound) {
    // Saved activations of layer l live from its forward to its backward; scratch lives one phase.
    BufferPlan plan;
    const int layers = 12;
    plan.add("parameters", "parameters", 1 << 20, kAlways);
    for (int l = 0; l < layers; ++l) {
        plan.add("saved", "activations", 40000, {l, 2 * layers - 1 - l});
        plan.add("scratch forward", "scratch", 90000, {l, l});
        plan.add("scratch backward", "scratch", 130000, {2 * layers - 1 - l, 2 * layers - 1 - l});
    }
    plan.assign();
    EXPECT_EQ(plan.total_bytes(), plan.live_peak_bytes());
}

TEST(BufferPlan, DisjointLivesShareMemory) {
    BufferPlan plan;
    const auto a = plan.add("a", "g", 1000, {0, 1});
    const auto b = plan.add("b", "g", 1000, {2, 3});
    const auto c = plan.add("c", "g", 64, {1, 2});
    plan.assign();
    EXPECT_EQ(plan.offset(a), plan.offset(b));
    EXPECT_EQ(plan.offset(c), 1024);
    EXPECT_EQ(plan.total_bytes(), 1088);
}

TEST(Arena, IsAlignedZeroAndHoldsItsSize) {
    for (std::int64_t bytes : {0ll, 1ll, 4097ll, (4ll << 20) - 1, 4ll << 20, (6ll << 20) + 12345}) {
        Arena arena(bytes);
        EXPECT_EQ(arena.bytes(), bytes);
        if (bytes == 0) continue;
        const std::uintptr_t alignment = bytes >= 4 << 20 ? 2u << 20 : 64u;
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arena.at(0)) % alignment, 0u);
        for (std::int64_t at = 0; at < bytes; at += 4096) ASSERT_EQ(*arena.at(at), std::byte{0});
        *arena.at(bytes - 1) = std::byte{1};
    }
}

TEST(Arena, RefusalNamesTheFigure) {
    try {
        Arena arena(1ll << 50);
        FAIL() << "a petabyte was granted";
    } catch (const Fatal& error) {
        EXPECT_EQ(error.code(), ExitCode::kResources);
        EXPECT_NE(std::string(error.what()).find("1125899906842624"), std::string::npos);
    }
}

}  // namespace
}  // namespace isthmus::inner
