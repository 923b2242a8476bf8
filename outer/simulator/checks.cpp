#include "outer/simulator/checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.hpp"
#include "base/random.hpp"

namespace isthmus::outer::simulator {

namespace {

/// Cuts of one site that an open attempt may still name.
constexpr std::size_t kCutsKept = 4;

std::uint64_t first_word(const StateHash& hash) {
    std::uint64_t word = 0;
    std::memcpy(&word, hash.data(), sizeof word);
    return word;
}

std::uint64_t bits_of(float value) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
    return mix64(a ^ mix64(b));
}

std::string text_of(const std::vector<SampleRange>& ranges) {
    std::string out;
    for (const SampleRange& r : ranges) out += fmt::format(" {}+{}", r.first, r.count);
    return out.empty() ? " none" : out;
}

/// Neighbours merged: how a list is cut into ranges means nothing.
std::vector<SampleRange> merged(const std::vector<SampleRange>& ranges) {
    SampleSet set;
    for (const SampleRange& r : ranges) set.add(r);
    return set.ranges();
}

bool same_samples(const std::vector<SampleRange>& a, const std::vector<SampleRange>& b) {
    return a == b || merged(a) == merged(b);
}

}  // namespace

MeanHash::MeanHash(const StateHash& from, const OuterOptimizer& optimizer)
    : value_(mixed(first_word(from), (bits_of(optimizer.lr) << 32) | bits_of(optimizer.momentum))) {
}

void MeanHash::add(const CutId& cut, float weight) {
    value_ = mixed(value_, cut.site.value);
    value_ = mixed(value_, (cut.incarnation << 32) ^ cut.counter);
    value_ = mixed(value_, bits_of(weight));
}

StateHash MeanHash::result() const {
    StateHash hash{};
    for (std::uint64_t i = 0; i < 2; ++i) {
        const std::uint64_t word = mixed(value_, i);
        std::memcpy(hash.data() + 8 * i, &word, sizeof word);
    }
    return hash;
}

Status Checks::durable(const JournalRecord& record) {
    if (const Status status = ledger_.apply(record); !status) return status;
    if (ended_ && !std::holds_alternative<CoordinatorRecord>(record) &&
        !std::holds_alternative<LeaveRecord>(record) &&
        !std::holds_alternative<JoinRecord>(record)) {
        return Error{"a record after the end of the run"};
    }
    if (const auto* run = std::get_if<RunRecord>(&record)) names_ = run->sites;
    if (const auto* join = std::get_if<JoinRecord>(&record)) {
        if (join->site.value >= names_.size()) names_.resize(join->site.value + 1);
        if (!names_[join->site.value].empty() && names_[join->site.value] != join->name)
            return Error{fmt::format("site id {} has two names", join->site.value)};
        names_[join->site.value] = join->name;
    }
    if (const auto* start = std::get_if<StartRecord>(&record)) {
        if (started_) return Error{"the run starts twice"};
        started_ = true;
        newest_ = start->state;
        states_[newest_.round.value] = newest_.hash;
    }
    if (const auto* grant = std::get_if<GrantRecord>(&record)) {
        if (grant->meeting != meeting_)
            return Error{fmt::format("a grant for meeting {} while {} is open",
                                     grant->meeting.value, meeting_.value)};
    }
    if (const auto* abandon = std::get_if<AbandonRecord>(&record)) {
        if (abandon->meeting != meeting_) return Error{"a meeting that is not open is abandoned"};
        meeting_ = Meeting(meeting_.value + 1);
        ++abandoned_;
    }
    if (const auto* commit = std::get_if<CommitRecord>(&record)) return on(*commit);
    if (const auto* end = std::get_if<EndRecord>(&record)) {
        if (!(end->state == newest_)) return Error{"the run ends with another state than its last"};
        ended_ = true;
    }
    return Done{};
}

Status Checks::on(const CommitRecord& commit) {
    if (!started_ || !(commit.from == newest_) || commit.to.lineage != newest_.lineage ||
        commit.to.round.value != newest_.round.value + 1) {
        return Error{
            fmt::format("the commit of round {} forks the lineage", commit.from.round.value)};
    }
    if (commit.meeting != meeting_) return Error{"a commit at a meeting that is not open"};
    MeanHash mean(commit.from.hash, commit.optimizer);
    float divisor = 0;
    const Contribution* before = nullptr;
    for (const Contribution& c : commit.contributors) {
        if (before && !(before->site < c.site)) return Error{"contributors are not in order"};
        before = &c;
        if (!(c.weight > 0)) return Error{"a contributor without weight"};
        if (c.cut.site != c.site || c.cut.incarnation != c.incarnation.number)
            return Error{fmt::format("site {} contributes another one's cut", c.site.value)};
        const Registered* cut = find(c.cut);
        if (cut == nullptr || !(cut->from == commit.from)) {
            return Error{fmt::format("the cut of site {} was not taken from the state of round {}",
                                     c.site.value, commit.from.round.value)};
        }
        if (!same_samples(cut->trained, c.trained) || !same_samples(cut->skipped, c.skipped)) {
            return Error{
                fmt::format("site {} trained{} and skipped{} for its cut; the commit lists{} and{}",
                            c.site.value, text_of(cut->trained), text_of(cut->skipped),
                            text_of(c.trained), text_of(c.skipped))};
        }
        for (const auto* samples : {&c.trained, &c.skipped}) {
            if (const Status status = take_samples(c, *samples); !status) return status;
        }
        divisor += c.weight;
        mean.add(c.cut, c.weight);
    }
    if (commit.contributors.empty()) return Error{"a commit without contributors"};
    if (bits_of(divisor) != bits_of(commit.divisor))
        return Error{fmt::format("divisor {} for contributors whose weights add up to {}",
                                 commit.divisor, divisor)};
    if (mean.result() != commit.to.hash) {
        return Error{fmt::format("the state of round {} is not the mean of its contributors",
                                 commit.to.round.value)};
    }
    newest_ = commit.to;
    states_[newest_.round.value] = newest_.hash;
    meeting_ = Meeting(meeting_.value + 1);
    ++rounds_;
    commits_.push_back(commit);
    return Done{};
}

Status Checks::take_samples(const Contribution& c, const std::vector<SampleRange>& samples) {
    for (const SampleRange& range : samples) {
        if (taken_.size() < range.end()) taken_.resize(range.end());
        for (std::uint64_t n = range.first; n < range.end(); ++n) {
            if (taken_[n])
                return Error{
                    fmt::format("sample {} of site {} is in two commits", n, c.site.value)};
            taken_[n] = true;
        }
    }
    return Done{};
}

const Checks::Registered* Checks::find(const CutId& id) const {
    const auto of_site = cuts_.find(id.site);
    if (of_site == cuts_.end()) return nullptr;
    for (const Registered& r : of_site->second) {
        if (r.id == id) return &r;
    }
    return nullptr;
}

void Checks::cut(const CutId& id, const StateName& from, std::vector<SampleRange> trained,
                 std::vector<SampleRange> skipped) {
    auto& of_site = cuts_[id.site];
    of_site.push_back({id, from, std::move(trained), std::move(skipped)});
    if (of_site.size() > kCutsKept) of_site.pop_front();
}

Status Checks::holds(const StateName& state) const {
    const auto known = states_.find(state.round.value);
    if (state.lineage == 0 && known != states_.end() && known->second == state.hash) return Done{};
    return Error{fmt::format("{} under the name of round {} was never committed",
                             short_hex(state.hash), state.round.value)};
}

Status Checks::counted(Round after, SiteId site, const std::vector<SampleRange>& trained,
                       const std::vector<SampleRange>& skipped) const {
    CHECK(after.value > 0 && after.value <= commits_.size());
    for (const Contribution& c : commits_[after.value - 1].contributors) {
        if (c.site == site && same_samples(c.trained, trained) && same_samples(c.skipped, skipped))
            return Done{};
    }
    return Error{fmt::format("it counts samples{} and skipped{} that the commit does not list",
                             text_of(trained), text_of(skipped))};
}

Status Checks::believed(const CoordinatorState& s) const {
    if (s.started != started_ || (started_ && !(s.newest == newest_)))
        return Error{"the coordinator believes in another newest state than its journal"};
    if (s.meeting != meeting_) return Error{"the coordinator is at another meeting"};
    if (const Status status = s.ledger.prove(); !status) return status;
    if (s.ledger.granted_up_to() != ledger_.granted_up_to() ||
        s.ledger.rounds() != ledger_.rounds() ||
        s.ledger.committed().size() != ledger_.committed().size() ||
        s.ledger.skipped().size() != ledger_.skipped().size() ||
        s.ledger.returned().ranges() != ledger_.returned().ranges())
        return Error{"the coordinator's ledger is not that of its journal"};
    for (std::uint32_t i = 0; i < s.sites.size(); ++i) {
        if (s.ledger.leases_of(SiteId(i)) != ledger_.leases_of(SiteId(i)))
            return Error{fmt::format("the leases of site {} are not those of the journal", i)};
        const auto& assignment = s.sites[i].assignment;
        const bool member = s.sites[i].standing == CoordinatorState::Standing::kMember;
        if (!ended_ && member != assignment.has_value())
            return Error{
                fmt::format("site {} is a member without work, or has work and is none", i)};
        if (assignment && assignment->meeting != s.meeting)
            return Error{fmt::format("site {} works for a meeting that is not open", i)};
    }
    return Done{};
}

Status Checks::replays(const std::vector<JournalRecord>& records, const CoordinatorState& live,
                       TimePoint now) {
    const auto made = make_coordinator(live.options, records, live.journal, now);
    if (!made) return made.error();
    const CoordinatorState& again = made->first;
    if (again.started != live.started || (live.started && !(again.newest == live.newest)) ||
        again.meeting != live.meeting)
        return Error{"the journal replays to another newest state or meeting"};
    // Nobody has work after the last meeting.
    if (live.meeting.value >= live.options.meetings.size()) return Done{};
    if (again.sites.size() != live.sites.size())
        return Error{"the journal replays to another number of sites"};
    for (std::size_t i = 0; i < again.sites.size(); ++i) {
        const auto& a = again.sites[i];
        const auto& b = live.sites[i];
        const auto member = CoordinatorState::Standing::kMember;
        if (a.name != b.name || (a.standing == member) != (b.standing == member))
            return Error{fmt::format("the journal replays to another standing of site {}", b.name)};
        if (a.standing != member) continue;
        if (!(a.incarnation == b.incarnation) || a.assignment->meeting != b.assignment->meeting ||
            a.assignment->samples != b.assignment->samples)
            return Error{fmt::format("the journal replays to other work of site {}", b.name)};
    }
    return Done{};
}

}  // namespace isthmus::outer::simulator
