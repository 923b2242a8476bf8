#include "tests/inner/support/allocations.hpp"

#include <atomic>
#include <cerrno>
#include <cstdlib>

namespace {

std::atomic<bool> counting{false};
std::atomic<std::int64_t> calls{0}, large{0}, largest{0};

[[maybe_unused]] void count(std::size_t bytes) {
    if (!counting.load(std::memory_order_relaxed)) return;
    const auto size = static_cast<std::int64_t>(bytes);
    calls.fetch_add(1);
    if (size >= isthmus::inner::test::kLargeAllocation) large.fetch_add(1);
    std::int64_t known = largest.load();
    while (size > known && !largest.compare_exchange_weak(known, size)) {
    }
}

}  // namespace

namespace isthmus::inner::test {

void start_counting_allocations() {
    calls = large = largest = 0;
    counting = true;
}

AllocationCount stop_counting_allocations() {
    counting = false;
    return {calls, large, largest};
}

#ifdef ISTHMUS_SANITIZED
bool can_count_allocations() {
    return false;
}
#else
bool can_count_allocations() {
    return true;
}
#endif

}  // namespace isthmus::inner::test

#ifndef ISTHMUS_SANITIZED
// The program's own definitions win over libc's for every library in the process.
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
    count(bytes);
    return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** out, std::size_t alignment, std::size_t bytes) {
    count(bytes);
    *out = __libc_memalign(alignment, bytes);
    return *out == nullptr ? ENOMEM : 0;
}
}
#endif
