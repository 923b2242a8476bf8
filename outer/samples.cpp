#include "outer/samples.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace isthmus::outer {
namespace {

std::uint64_t total(const std::vector<SampleRange>& ranges) {
    std::uint64_t count = 0;
    for (const SampleRange& range : ranges) count += range.count;
    return count;
}

/// Behind the last range, or as its continuation.
void append(std::vector<SampleRange>& ranges, const SampleRange& range) {
    if (range.count == 0) return;
    if (!ranges.empty() && ranges.back().end() == range.first) {
        ranges.back().count += range.count;
    } else {
        ranges.push_back(range);
    }
}

}  // namespace

void SampleCursor::grant(const std::vector<SampleRange>& ranges) {
    for (const SampleRange& range : ranges) append(leases_, range);
}

void SampleCursor::next(std::span<SampleNumber> out) {
    CHECK(out.size() <= left(), "{} samples wanted, {} are leased", out.size(), left());
    std::size_t used_up = 0;
    for (std::size_t i = 0; i < out.size();) {
        SampleRange& lease = leases_[used_up];
        const std::uint64_t count = std::min<std::uint64_t>(lease.count, out.size() - i);
        append(trained_, {lease.first, count});
        for (std::uint64_t k = 0; k < count; ++k) out[i++] = SampleNumber(lease.first + k);
        lease.first += count;
        lease.count -= count;
        if (lease.count == 0) ++used_up;
    }
    leases_.erase(leases_.begin(), leases_.begin() + static_cast<std::ptrdiff_t>(used_up));
}

std::uint64_t SampleCursor::left() const {
    return total(leases_);
}

std::vector<SampleRange> SampleCursor::trained() const {
    return trained_;
}

std::vector<SampleRange> SampleCursor::skipped() const {
    return skipped_;
}

void SampleCursor::mark_skipped(std::uint64_t count) {
    CHECK(count <= total(trained_), "{} samples skipped, {} taken", count, total(trained_));
    std::vector<SampleRange> last;  // from the last to the first
    while (count > 0) {
        SampleRange& range = trained_.back();
        const std::uint64_t cut = std::min(count, range.count);
        range.count -= cut;
        last.push_back({range.end(), cut});
        if (range.count == 0) trained_.pop_back();
        count -= cut;
    }
    for (auto range = last.rbegin(); range != last.rend(); ++range) append(skipped_, *range);
}

void SampleCursor::taken_over() {
    trained_.clear();
    skipped_.clear();
}

void SampleCursor::reset() {
    leases_.clear();
    taken_over();
}

}  // namespace isthmus::outer
