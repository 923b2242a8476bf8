// Counter-based random numbers: a pure function of (key, counter), so that any element can be drawn
// alone.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace isthmus {

/// splitmix64's finalizer (Steele, Lea, Flood 2014): a bijection with good avalanche.
constexpr std::uint64_t mix64(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

/// 64 random bits for (key, counter).
constexpr std::uint64_t random_bits(std::uint64_t key, std::uint64_t counter) {
    return mix64(mix64(key) ^ mix64(counter * 0xd1342543de82ef95ull + 1));
}

/// Uniform in [0, 1), 53 bits.
constexpr double random_uniform(std::uint64_t key, std::uint64_t counter) {
    return static_cast<double>(random_bits(key, counter) >> 11) * 0x1p-53;
}

/// Standard normal by Box-Muller on two draws of the counter.
inline double random_normal(std::uint64_t key, std::uint64_t counter) {
    const double u = 1.0 - random_uniform(key, 2 * counter);
    const double v = random_uniform(key, 2 * counter + 1);
    return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

}  // namespace isthmus
