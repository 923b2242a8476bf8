// The kernel tables and how the processor's instruction set is found.
#include "inner/cpu/kernels.hpp"

#include <atomic>

#include "inner/cpu/parallel.hpp"

namespace isthmus::inner {
namespace {

TEST(Kernels, InstructionSetsAreInOrderAndWidthsDouble) {
    const auto sets = available_instruction_sets();
    ASSERT_FALSE(sets.empty());
    EXPECT_EQ(sets.front(), InstructionSet::kBaseline);
    EXPECT_EQ(sets.back(), detect_cpu().best);
    EXPECT_EQ(kernels_of(InstructionSet::kBaseline).lanes, 4);
    EXPECT_EQ(kernels_of(InstructionSet::kAvx2).lanes, 8);
    EXPECT_EQ(kernels_of(InstructionSet::kAvx512).lanes, 16);
    EXPECT_EQ(to_string(InstructionSet::kAvx2), "avx2");
}

TEST(Kernels, DetectsCoresAndAName) {
    const CpuFeatures features = detect_cpu();
    EXPECT_GE(features.cores, 1);
    EXPECT_FALSE(features.model_name.empty());
    EXPECT_EQ(cpu_has_bf16(), features.avx512_bf16);
}

TEST(Parallel, BlocksCoverTheRangeOnceWithAlignedBounds) {
    for (const int threads : {1, 2, 3, 7}) {
        for (const std::int64_t n : {0, 1, 5, 64, 130, 1000}) {
            std::vector<std::atomic<int>> seen(static_cast<std::size_t>(n));
            parallel_blocks(
                threads, n,
                [&](int part, std::int64_t begin, std::int64_t end) {
                    EXPECT_LT(part, threads);
                    EXPECT_LT(begin, end);
                    EXPECT_EQ(begin % 64, 0);
                    for (std::int64_t i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
                },
                64);
            for (const auto& count : seen) EXPECT_EQ(count, 1);
        }
    }
}

TEST(Parallel, UnitsRunOnceOnAThreadInRange) {
    std::vector<std::atomic<int>> seen(37);
    parallel_units(3, 37, [&](int thread, std::int64_t unit) {
        EXPECT_GE(thread, 0);
        EXPECT_LT(thread, 3);
        ++seen[static_cast<std::size_t>(unit)];
    });
    for (const auto& count : seen) EXPECT_EQ(count, 1);
}

}  // namespace
}  // namespace isthmus::inner
