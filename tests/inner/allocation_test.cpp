// Buffers are planned: after the first step, training allocates nothing of 4 KiB or more, whoever
// asks, and where our own kernels do all the work, nothing at all.
#include <gtest/gtest.h>

#include "tests/inner/support/allocations.hpp"
#include "tests/inner/support/memory_tokens.hpp"
#include "tests/inner/support/models.hpp"

#include "inner/cpu/cpu_ops.hpp"
#include "inner/trainer.hpp"

namespace isthmus::inner {
namespace {

TEST(Allocation, TheCountersCount) {
    if (!test::can_count_allocations()) GTEST_SKIP() << "the sanitizer owns the allocator";
    test::start_counting_allocations();
    const std::vector<char> big(10000);
    const test::AllocationCount count = test::stop_counting_allocations();
    EXPECT_GE(count.large, 1) << big.size();
    EXPECT_GE(count.largest_bytes, 10000);
}

TEST(Allocation, NoneAfterTheFirstStep) {
    if (!test::can_count_allocations()) GTEST_SKIP() << "the sanitizer owns the allocator";
    for (const std::string dtype : {"fp32", "bf16"}) {
        for (const std::int64_t threads : {1, 2}) {
            for (const auto& [name, model] : testing::all_models()) {
                TrainConfig train;
                train.batch = 4;
                train.accumulate = 2;
                train.threads = threads;
                train.dtype = dtype;
                train.emulate_bf16 = true;
                auto data = testing::cycle_tokens(20000, 37, 9);
                const auto trainer = Trainer::create(model, train, {}, data);
                trainer->step();
                test::start_counting_allocations();
                for (int i = 0; i < 3; ++i) trainer->step();
                const test::AllocationCount count = test::stop_counting_allocations();
                EXPECT_EQ(count.large, 0)
                    << name << " " << dtype << ": " << count.largest_bytes << " bytes";
                // oneDNN, which fp32 uses with AVX-512, makes a few tiny ones.
                if (dtype == "fp32" && detect_cpu().best < InstructionSet::kAvx512) {
                    EXPECT_EQ(count.calls, 0) << name;
                }
            }
        }
    }
}

}  // namespace
}  // namespace isthmus::inner
