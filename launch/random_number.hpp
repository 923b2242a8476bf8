// Numbers that no other process draws.
#pragma once

#include <chrono>
#include <cstdint>
#include <random>

namespace isthmus::launch {

/// 64 bits from the system's generator.
inline std::uint64_t random_number() {
    std::random_device device;
    return (static_cast<std::uint64_t>(device()) << 32) | device();
}

/// A later process of this machine has a higher one.
inline std::uint64_t nanoseconds_since_epoch() {
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                          std::chrono::system_clock::now().time_since_epoch())
                                          .count());
}

}  // namespace isthmus::launch
