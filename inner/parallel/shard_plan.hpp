// Where a unit's flat buffer is cut: one contiguous piece a rank, boundaries between grains.
//
// A plan is ragged: pieces differ in size, and may be empty. Only the plan knows the number of
// ranks; grains, norms and digests are in unit coordinates, so that results do not depend on how
// the work was divided.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.hpp"
#include "inner/model/layout.hpp"

namespace isthmus::inner {

struct Range {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::int64_t count() const { return end - begin; }
    bool operator==(const Range&) const = default;
};

class ShardPlan {
  public:
    /// Pieces of nearly equal size: boundary r lies at the grain nearest to count * r / ranks.
    /// REQUIRES ranks >= 1, grain >= 1.
    static ShardPlan balanced(std::int64_t count, std::int64_t grain, std::int64_t ranks);
    /// REQUIRES ascending boundaries that start at 0.
    explicit ShardPlan(std::vector<std::int64_t> boundaries);

    std::int64_t ranks() const { return static_cast<std::int64_t>(boundaries_.size()) - 1; }
    std::int64_t count() const { return boundaries_.back(); }
    Range piece(Rank rank) const;

  private:
    std::vector<std::int64_t> boundaries_;
};

/// The parts of `piece` by view: what the optimizer runs on, since decay differs from view to view.
struct ViewRange {
    const View* view = nullptr;
    Range range;  ///< in unit coordinates
};
std::vector<ViewRange> split_by_view(const Unit&, Range piece);

}  // namespace isthmus::inner
