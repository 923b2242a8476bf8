#include "outer/samples.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace isthmus::outer {

namespace {

/// Behind the others; a range that goes on where the last one ends becomes part of it.
void push(std::vector<SampleRange>& ranges, SampleRange range) {
    if (range.count == 0) return;
    if (!ranges.empty() && ranges.back().end() == range.first) {
        ranges.back().count += range.count;
    } else {
        ranges.push_back(range);
    }
}

}  // namespace

void SampleCursor::grant(const std::vector<SampleRange>& samples) {
    for (const SampleRange& range : samples) push(leases_, range);
}

void SampleCursor::next(std::span<SampleNumber> out) {
    CHECK(out.size() <= left(), "{} samples are asked for, {} are leased", out.size(), left());
    for (SampleNumber& sample : out) {
        SampleRange& first = leases_.front();
        sample = SampleNumber(first.first);
        push(trained_, {first.first, 1});
        ++first.first;
        if (--first.count == 0) leases_.erase(leases_.begin());
    }
}

std::uint64_t SampleCursor::left() const {
    std::uint64_t count = 0;
    for (const SampleRange& range : leases_) count += range.count;
    return count;
}

std::vector<SampleRange> SampleCursor::trained() const {
    return trained_;
}
std::vector<SampleRange> SampleCursor::skipped() const {
    return skipped_;
}

void SampleCursor::mark_skipped(std::uint64_t count) {
    std::vector<SampleRange> last;
    while (count > 0) {
        CHECK(!trained_.empty(), "more samples are skipped than were taken");
        SampleRange& range = trained_.back();
        const std::uint64_t taken = std::min(count, range.count);
        range.count -= taken;
        last.push_back({range.first + range.count, taken});
        if (range.count == 0) trained_.pop_back();
        count -= taken;
    }
    for (auto it = last.rbegin(); it != last.rend(); ++it) push(skipped_, *it);
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
