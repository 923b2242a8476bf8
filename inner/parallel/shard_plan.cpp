#include "inner/parallel/shard_plan.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace isthmus::inner {

ShardPlan::ShardPlan(std::vector<std::int64_t> boundaries) : boundaries_(std::move(boundaries)) {
    CHECK(boundaries_.size() >= 2 && boundaries_.front() == 0);
    CHECK(std::is_sorted(boundaries_.begin(), boundaries_.end()));
}

ShardPlan ShardPlan::balanced(std::int64_t count, std::int64_t grain, std::int64_t ranks) {
    CHECK(count >= 0 && grain >= 1 && ranks >= 1, "count {}, grain {}, ranks {}", count, grain,
          ranks);
    std::vector<std::int64_t> boundaries{0};
    for (std::int64_t rank = 1; rank < ranks; ++rank) {
        const std::int64_t ideal =
            static_cast<std::int64_t>(static_cast<__int128>(count) * rank / ranks);
        const std::int64_t at = std::min(count, (ideal + grain / 2) / grain * grain);
        boundaries.push_back(std::max(at, boundaries.back()));
    }
    boundaries.push_back(count);
    return ShardPlan(std::move(boundaries));
}

Range ShardPlan::piece(Rank rank) const {
    CHECK(rank.value < ranks(), "rank {} of {}", rank.value, ranks());
    return {boundaries_[rank.value], boundaries_[rank.value + 1]};
}

std::vector<ViewRange> split_by_view(const Unit& unit, Range piece) {
    std::vector<ViewRange> parts;
    for (const View& view : unit.views) {
        const Range range{std::max(piece.begin, view.offset),
                          std::min(piece.end, view.offset + view.count())};
        if (range.count() > 0) parts.push_back({&view, range});
    }
    return parts;
}

}  // namespace isthmus::inner
