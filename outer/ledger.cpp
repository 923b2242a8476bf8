#include "outer/ledger.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <type_traits>

#include "base/check.hpp"

namespace isthmus::outer {

// ---- SampleSet --------------------------------------------------------------------------------

namespace {

/// The entry that holds `at`, or the first one behind it.
template <class Map>
auto find_from(Map& ranges, std::uint64_t at) {
    auto entry = ranges.upper_bound(at);
    if (entry != ranges.begin() && std::prev(entry)->second > at) --entry;
    return entry;
}

}  // namespace

void SampleSet::add(SampleRange range) {
    if (range.count == 0) return;
    std::uint64_t first = range.first, end = range.end();
    // Neighbours that only touch are merged too.
    auto entry = ranges_.upper_bound(first);
    if (entry != ranges_.begin() && std::prev(entry)->second >= first) --entry;
    while (entry != ranges_.end() && entry->first <= end) {
        first = std::min(first, entry->first);
        end = std::max(end, entry->second);
        size_ -= entry->second - entry->first;
        entry = ranges_.erase(entry);
    }
    ranges_.emplace_hint(entry, first, end);
    size_ += end - first;
}

void SampleSet::remove(SampleRange range) {
    if (range.count == 0) return;
    auto entry = find_from(ranges_, range.first);
    while (entry != ranges_.end() && entry->first < range.end()) {
        const auto [first, end] = *entry;
        size_ -= std::min(end, range.end()) - std::max(first, range.first);
        entry = ranges_.erase(entry);
        if (first < range.first) ranges_.emplace_hint(entry, first, range.first);
        if (end > range.end()) ranges_.emplace_hint(entry, range.end(), end);
    }
}

bool SampleSet::contains(SampleRange range) const {
    if (range.count == 0) return true;
    const auto entry = find_from(ranges_, range.first);
    return entry != ranges_.end() && entry->first <= range.first && entry->second >= range.end();
}

bool SampleSet::intersects(SampleRange range) const {
    if (range.count == 0) return false;
    const auto entry = find_from(ranges_, range.first);
    return entry != ranges_.end() && entry->first < range.end();
}

std::vector<SampleRange> SampleSet::ranges() const {
    std::vector<SampleRange> out;
    out.reserve(ranges_.size());
    for (const auto& [first, end] : ranges_) out.push_back({first, end - first});
    return out;
}

std::vector<SampleRange> SampleSet::within(SampleRange range) const {
    std::vector<SampleRange> out;
    if (range.count == 0) return out;
    for (auto entry = find_from(ranges_, range.first);
         entry != ranges_.end() && entry->first < range.end(); ++entry) {
        const std::uint64_t first = std::max(entry->first, range.first);
        out.push_back({first, std::min(entry->second, range.end()) - first});
    }
    return out;
}

std::vector<SampleRange> SampleSet::first(std::uint64_t count) const {
    std::vector<SampleRange> out;
    for (auto entry = ranges_.begin(); entry != ranges_.end() && count > 0; ++entry) {
        out.push_back({entry->first, std::min(count, entry->second - entry->first)});
        count -= out.back().count;
    }
    return out;
}

std::vector<SampleRange> SampleSet::take(std::uint64_t count) {
    std::vector<SampleRange> out = first(count);
    for (const SampleRange& range : out) remove(range);
    return out;
}

// ---- Ledger -----------------------------------------------------------------------------------

namespace {

std::string text(const SampleRange& range) {
    return fmt::format("samples {} to {}", range.first, range.first + (range.count - 1));
}

Error refusal(std::string_view doing, SiteId site, const SampleRange& range,
              std::string_view because) {
    return Error{fmt::format("{} site {}: {}: {}", doing, site.value, text(range), because)};
}

bool ends(const SampleRange& range) {
    return range.count <= ~std::uint64_t{0} - range.first;
}

/// The ranges as a set. ERRORS  the one that has no end, or lies in another one.
std::optional<SampleRange> add_all(SampleSet& set, const std::vector<SampleRange>& ranges) {
    for (const SampleRange& range : ranges) {
        if (!ends(range) || set.intersects(range)) return range;
        set.add(range);
    }
    return std::nullopt;
}

}  // namespace

Status Ledger::apply(const JournalRecord& record) {
    return std::visit(
        [this](const auto& r) -> Status {
            using Record = std::decay_t<decltype(r)>;
            if constexpr (std::is_same_v<Record, GrantRecord> ||
                          std::is_same_v<Record, ReturnRecord> ||
                          std::is_same_v<Record, LeaveRecord> ||
                          std::is_same_v<Record, JoinRecord> ||
                          std::is_same_v<Record, CommitRecord> ||
                          std::is_same_v<Record, QuarantineRecord>) {
                return apply_one(r);
            } else {
                return Done{};
            }
        },
        record);
}

const SampleSet* Ledger::held_by(SiteId site, const Incarnation& incarnation) const {
    const auto lease = leases_.find(site);
    if (lease == leases_.end() || lease->second.incarnation != incarnation) return nullptr;
    return &lease->second.samples;
}

Status Ledger::apply_one(const GrantRecord& grant) {
    constexpr std::string_view kDoing = "a grant to";
    SampleSet asked;
    if (const auto bad = add_all(asked, grant.samples))
        return refusal(kDoing, grant.site, *bad, "granted twice in one record");
    const auto lease = leases_.find(grant.site);
    if (lease != leases_.end() && !lease->second.samples.empty() &&
        lease->second.incarnation != grant.incarnation)
        return refusal(kDoing, grant.site, lease->second.samples.ranges().front(),
                       "another incarnation of it still holds leases");
    std::uint64_t fresh = next_fresh_;
    for (const SampleRange& range : asked.ranges()) {
        const std::uint64_t old_end = std::clamp(next_fresh_, range.first, range.end());
        if (!returned_.contains({range.first, old_end - range.first}))
            return refusal(kDoing, grant.site, range, "not all of them are free");
        if (old_end == range.end()) continue;
        if (old_end != fresh)
            return refusal(kDoing, grant.site, range, fmt::format("a gap after {}", fresh));
        fresh = range.end();
    }
    next_fresh_ = fresh;
    Lease& mine = leases_[grant.site];
    mine.incarnation = grant.incarnation;
    for (const SampleRange& range : grant.samples) {
        returned_.remove(range);
        mine.samples.add(range);
    }
    return Done{};
}

Status Ledger::apply_one(const ReturnRecord& record) {
    constexpr std::string_view kDoing = "a return by";
    SampleSet all;
    if (const auto bad = add_all(all, record.samples))
        return refusal(kDoing, record.site, *bad, "returned twice in one record");
    const auto lease = leases_.find(record.site);
    for (const SampleRange& range : record.samples) {
        if (range.count > 0 && (lease == leases_.end() || !lease->second.samples.contains(range)))
            return refusal(kDoing, record.site, range, "not leased to it");
    }
    for (const SampleRange& range : record.samples) {
        if (range.count == 0) continue;
        lease->second.samples.remove(range);
        returned_.add(range);
    }
    return Done{};
}

void Ledger::give_back(SiteId site, bool lost) {
    const auto lease = leases_.find(site);
    if (lease == leases_.end()) return;
    for (const SampleRange& range : lease->second.samples.ranges()) {
        returned_.add(range);
        if (lost) lost_once_.add(range);
    }
    leases_.erase(lease);
}

Status Ledger::apply_one(const LeaveRecord& record) {
    const auto lease = leases_.find(record.site);
    if (lease != leases_.end() && !lease->second.samples.empty() &&
        lease->second.incarnation != record.incarnation)
        return refusal("the leaving of", record.site, lease->second.samples.ranges().front(),
                       "leased to another incarnation of it");
    give_back(record.site, record.lost);
    return Done{};
}

Status Ledger::apply_one(const JoinRecord& record) {
    const auto lease = leases_.find(record.site);
    if (lease != leases_.end() && lease->second.incarnation != record.incarnation)
        give_back(record.site, true);
    return Done{};
}

/// Trained and skipped samples are disjoint and leased to this contributor.
Status Ledger::check(const Contribution& c) const {
    constexpr std::string_view kDoing = "a commit with";
    SampleSet all;
    auto twice = add_all(all, c.trained);
    if (!twice) twice = add_all(all, c.skipped);
    if (twice) return refusal(kDoing, c.site, *twice, "contributed twice in one record");
    const SampleSet* held = held_by(c.site, c.incarnation);
    for (const SampleRange& range : all.ranges()) {
        if (committed_.intersects(range)) return refusal(kDoing, c.site, range, "committed before");
        if (held == nullptr || !held->contains(range))
            return refusal(kDoing, c.site, range, "outside its live leases");
    }
    return Done{};
}

Status Ledger::apply_one(const CommitRecord& record) {
    std::vector<SiteId> sites;
    for (const Contribution& c : record.contributors) {
        if (const Status good = check(c); !good) return good;
        sites.push_back(c.site);
    }
    // Leases of different sites are disjoint, so one site's two contributions are all that can
    // clash.
    std::sort(sites.begin(), sites.end());
    if (const auto twice = std::adjacent_find(sites.begin(), sites.end()); twice != sites.end())
        return Error{fmt::format("a commit lists site {} twice", twice->value)};
    for (const Contribution& c : record.contributors) {
        SampleSet& lease = leases_[c.site].samples;
        for (const auto& [ranges, to] :
             {std::pair(&c.trained, &committed_), std::pair(&c.skipped, &skipped_)}) {
            for (const SampleRange& range : *ranges) {
                lease.remove(range);
                lost_once_.remove(range);
                to->add(range);
            }
        }
    }
    ++rounds_;
    return Done{};
}

Status Ledger::apply_one(const QuarantineRecord& record) {
    SampleSet all;
    const auto bad = [](const SampleRange& range, std::string_view why) {
        return Error{fmt::format("a quarantine: {}: {}", text(range), why)};
    };
    if (const auto twice = add_all(all, record.samples))
        return bad(*twice, "named twice in one record");
    std::vector<SampleSet*> sources{&returned_};
    for (auto& [site, lease] : leases_) sources.push_back(&lease.samples);
    for (const SampleRange& range : record.samples) {
        std::uint64_t found = 0;
        for (const SampleSet* source : sources) {
            for (const SampleRange& part : source->within(range)) found += part.count;
        }
        if (found != range.count) return bad(range, "not all of them are returned or leased");
    }
    for (const SampleRange& range : record.samples) {
        for (SampleSet* source : sources) source->remove(range);
        lost_once_.remove(range);
        skipped_.add(range);
    }
    return Done{};
}

std::vector<SampleRange> Ledger::plan_grant(std::uint64_t count) const {
    Ranges out = returned_.first(count);
    for (const SampleRange& range : out) count -= range.count;
    CHECK(ends({next_fresh_, count}), "sample numbers end");
    if (count > 0) out.push_back({next_fresh_, count});
    return out;
}

bool Ledger::leased(SiteId site, const Incarnation& incarnation, const Ranges& samples) const {
    SampleSet all;
    if (add_all(all, samples)) return false;
    const SampleSet* held = held_by(site, incarnation);
    return std::all_of(samples.begin(), samples.end(), [&](const SampleRange& range) {
        return range.count == 0 || (held != nullptr && held->contains(range));
    });
}

std::vector<SampleRange> Ledger::leases_of(SiteId site) const {
    const auto lease = leases_.find(site);
    return lease == leases_.end() ? Ranges{} : lease->second.samples.ranges();
}

std::uint64_t Ledger::leased_samples() const {
    std::uint64_t sum = 0;
    for (const auto& [site, lease] : leases_) sum += lease.samples.size();
    return sum;
}

std::vector<SampleRange> Ledger::lost_before(SiteId site) const {
    Ranges out;
    for (const SampleRange& range : leases_of(site)) {
        const Ranges parts = lost_once_.within(range);
        out.insert(out.end(), parts.begin(), parts.end());
    }
    return out;
}

Status Ledger::prove() const {
    struct Part {
        SampleRange range;
        std::string where;
    };
    std::vector<Part> parts;
    const auto gather = [&](const SampleSet& set, const std::string& where) {
        for (const SampleRange& range : set.ranges()) parts.push_back({range, where});
    };
    gather(committed_, "committed");
    gather(returned_, "returned");
    gather(skipped_, "skipped");
    for (const auto& [site, lease] : leases_)
        gather(lease.samples, fmt::format("leased to site {}", site.value));
    std::stable_sort(parts.begin(), parts.end(),
                     [](const Part& a, const Part& b) { return a.range.first < b.range.first; });
    std::uint64_t next = 0;
    const Part* last = nullptr;
    for (const Part& part : parts) {
        if (part.range.first < next) {
            return Error{
                fmt::format("sample {} is {} and {}", part.range.first, last->where, part.where)};
        }
        if (part.range.first > next) break;
        next = part.range.end();
        last = &part;
    }
    if (next < next_fresh_) return Error{fmt::format("sample {} was granted and is nowhere", next)};
    if (next > next_fresh_)
        return Error{
            fmt::format("sample {} is {} and was never granted", next_fresh_, last->where)};
    return Done{};
}

}  // namespace isthmus::outer
