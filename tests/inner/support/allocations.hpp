// Counts what this process asks of the allocator, whoever asks: our code, oneDNN, OpenMP.
#pragma once

#include <cstdint>

namespace isthmus::inner::test {

struct AllocationCount {
    std::int64_t calls = 0;
    std::int64_t large = 0;  ///< of kLargeAllocation bytes or more
    std::int64_t largest_bytes = 0;
};
inline constexpr std::int64_t kLargeAllocation = 4096;

/// False under sanitizers: the allocator is theirs.
bool can_count_allocations();
/// Starts at zero; counts calls on all threads until stop_counting_allocations().
void start_counting_allocations();
AllocationCount stop_counting_allocations();

}  // namespace isthmus::inner::test
