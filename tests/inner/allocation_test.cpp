// Buffers are planned: after the first step, training allocates nothing of 4 KiB or more, whoever
// asks, and where our own kernels do all the work, nothing at all.
//
// Counted by taking malloc's place in this program; the sanitizers do the same, so under them it is
// absent.
#include <gtest/gtest.h>

#include "tests/inner/support/memory_tokens.hpp"
#include "tests/inner/support/models.hpp"

#include "inner/trainer.hpp"

#ifndef ISTHMUS_SANITIZED

#include <errno.h>

#include <atomic>
#include <cstddef>

namespace {

std::atomic<bool> counting{false};
std::atomic<long> num_allocations{0}, num_large{0};

void count(std::size_t bytes) {
    if (!counting) return;
    ++num_allocations;
    if (bytes >= 4096) ++num_large;
}

}  // namespace

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t bytes) {
    count(bytes);
    return __libc_malloc(bytes);
}
void* calloc(std::size_t n, std::size_t bytes) {
    count(n * bytes);
    return __libc_calloc(n, bytes);
}
void* realloc(void* old, std::size_t bytes) {
    count(bytes);
    return __libc_realloc(old, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) {
    count(bytes);
    return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
    return memalign(alignment, bytes);
}
int posix_memalign(void** out, std::size_t alignment, std::size_t bytes) {
    *out = memalign(alignment, bytes);
    return *out == nullptr ? ENOMEM : 0;
}
}

namespace isthmus::inner {
namespace {

TEST(Allocation, TheCountersCount) {
    counting = true;
    const std::vector<char> big(10000);
    counting = false;
    EXPECT_GE(num_large.load(), 1) << big.size();
}

TEST(Allocation, NoneAfterTheFirstStep) {
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
                num_allocations = num_large = 0;
                counting = true;
                for (int i = 0; i < 3; ++i) trainer->step();
                counting = false;
                EXPECT_EQ(num_large.load(), 0) << name << " " << dtype;
                if (dtype == "fp32") {
                    EXPECT_EQ(num_allocations.load(), 0) << name;
                }
            }
        }
    }
}

}  // namespace
}  // namespace isthmus::inner

#endif
