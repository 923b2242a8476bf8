// The order of the data: a pure function. A position in the data is one 64-bit integer, for any
// number of ranks and sites.
//
// Sample number i of a run lies in epoch i / windows, and its window in that epoch is perm(i %
// windows), a keyed permutation in O(1) memory: a balanced Feistel network over the next even power
// of two (Luby and Rackoff 1988), walked until it falls inside (Black and Rogaway 2002, cycle
// walking).
#pragma once

#include <cstdint>

#include "base/ids.hpp"

namespace isthmus::inner {

class DataOrder {
  public:
    /// REQUIRES windows > 0.
    DataOrder(std::uint64_t windows, std::uint64_t seed);
    struct Place {
        std::uint64_t epoch = 0;
        std::uint64_t window = 0;
    };
    Place at(SampleNumber) const;
    std::uint64_t windows() const { return windows_; }

  private:
    std::uint64_t windows_;
    std::uint64_t seed_;
    int half_bits_;
};

}  // namespace isthmus::inner
