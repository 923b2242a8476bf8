// Which samples a site trains on: it takes them from its leases, in order, and remembers what it
// took.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.hpp"
#include "outer/names.hpp"

namespace isthmus::outer {

/// THREAD  one.
class SampleCursor {
  public:
    /// More leased samples, behind those that are left.
    void grant(const std::vector<SampleRange>&);
    /// The next ones. REQUIRES  as many are left.
    void next(std::span<SampleNumber> out);
    std::uint64_t left() const;
    /// What was handed out since the last call of taken_over(), except what was marked; ranges
    /// ascending in the order of taking.
    std::vector<SampleRange> trained() const;
    std::vector<SampleRange> skipped() const;
    /// The step that took the last `count` samples was skipped (gradients that are not finite).
    void mark_skipped(std::uint64_t count);
    /// A commit has counted them.
    void taken_over();
    /// Leases are void: forgets what is left and what was taken.
    void reset();

  private:
    std::vector<SampleRange> leases_;  ///< what is left
    std::vector<SampleRange> trained_, skipped_;
};

}  // namespace isthmus::outer
