#include "inner/data/order.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "base/check.hpp"
#include "base/random.hpp"

namespace isthmus::inner {
namespace {

// Three rounds make a pseudo-random permutation of a Feistel network (Luby and Rackoff), four a
// strong one; that proof needs wide halves. Two more rounds are cheap and cover the narrow ones.
constexpr std::size_t kRounds = 6;

// A domain of 2 or 4 values has few Feistel permutations; from 256 values on a walk reaches every
// order of a handful of windows, for a few microseconds a sample.
constexpr int kMinHalfBits = 4;

using RoundKeys = std::array<std::uint64_t, kRounds>;

RoundKeys round_keys(std::uint64_t key) {
    RoundKeys keys;
    for (std::size_t round = 0; round < keys.size(); ++round) keys[round] = random_bits(key, round);
    return keys;
}

std::uint64_t permute(std::uint64_t x, const RoundKeys& keys, int half_bits) {
    const std::uint64_t mask = (std::uint64_t{1} << half_bits) - 1;
    std::uint64_t left = x >> half_bits;
    std::uint64_t right = x & mask;
    for (const std::uint64_t key : keys) {
        const std::uint64_t mixed = mix64(key ^ right) >> (64 - half_bits);
        const std::uint64_t next = left ^ mixed;
        left = right;
        right = next;
    }
    return (left << half_bits) | right;
}

}  // namespace

DataOrder::DataOrder(std::uint64_t windows, std::uint64_t seed) : windows_(windows), seed_(seed) {
    CHECK(windows > 0, "a data order needs at least one window");
    half_bits_ = std::max(kMinHalfBits, (static_cast<int>(std::bit_width(windows - 1)) + 1) / 2);
}

DataOrder::Place DataOrder::at(SampleNumber sample) const {
    const std::uint64_t epoch = sample.value / windows_;
    const RoundKeys keys = round_keys(random_bits(seed_, epoch));
    // Walking the permutation's cycle from a value inside comes back inside, so this ends; the
    // domain is less than four times the windows (but for a handful of windows), so it takes four
    // steps at most on average.
    std::uint64_t window = sample.value % windows_;
    do {
        window = permute(window, keys, half_bits_);
    } while (window >= windows_);
    return {epoch, window};
}

}  // namespace isthmus::inner
