#include "outer/coordinator.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "outer/coordinator_step.hpp"

namespace isthmus::outer {

namespace {

using State = CoordinatorState;
using Standing = State::Standing;

/// Builds the state that a journal leaves behind.
class Replay {
  public:
    explicit Replay(State& state) : s_(state) {}

    Status take(const JournalRecord& record) {
        if (const Status status = s_.ledger.apply(record); !status) return status;
        return std::visit([&](const auto& r) { return on(r); }, record);
    }
    std::uint64_t last_incarnation() const { return last_incarnation_; }

  private:
    Status on(const RunRecord& r) {
        if (r.run != s_.options.run) {
            return Error{fmt::format(
                "the journal is of run {:016x}, this is run {:016x}: choose another run folder",
                r.run, s_.options.run)};
        }
        for (const std::string& name : r.sites) add_site(name);
        return Done{};
    }
    Status on(const CoordinatorRecord& r) {
        last_incarnation_ = std::max(last_incarnation_, r.incarnation.number);
        return Done{};
    }
    Status on(const JoinRecord& r) {
        if (r.site.value > s_.sites.size())
            return Error{fmt::format("site {} joins before it has a number", r.name)};
        if (r.site.value == s_.sites.size()) add_site(r.name);
        State::Site& site = s_.sites[r.site.value];
        site.incarnation = r.incarnation;
        site.standing = Standing::kAbsent;
        site.assignment.reset();
        return Done{};
    }
    Status on(const StartRecord& r) {
        s_.started = true;
        s_.newest = r.state;
        s_.data = r.data;
        return Done{};
    }
    Status on(const GrantRecord& r) {
        if (r.site.value >= s_.sites.size() || r.meeting.value >= s_.options.meetings.size()) {
            return Error{
                fmt::format("a grant to site {} for meeting {}, which this run does not have",
                            r.site.value, r.meeting.value)};
        }
        State::Site& site = s_.sites[r.site.value];
        site.standing = Standing::kMember;
        site.assignment = assignment_for(s_.options, r.meeting, r.samples);
        return Done{};
    }
    Status on(const LeaveRecord& r) {
        State::Site& site = s_.sites[r.site.value];
        site.standing = Standing::kAbsent;
        site.assignment.reset();
        return Done{};
    }
    Status on(const CommitRecord& r) {
        if (!(r.from == s_.newest)) {
            return Error{fmt::format("the commit of round {} does not follow the one before it",
                                     r.from.round.value)};
        }
        s_.before_newest = r.from;
        s_.newest = r.to;
        s_.last_commit = r;
        next_meeting(r.meeting);
        return Done{};
    }
    Status on(const AbandonRecord& r) {
        next_meeting(r.meeting);
        return Done{};
    }
    Status on(const ReturnRecord&) { return Done{}; }
    Status on(const QuarantineRecord&) { return Done{}; }
    Status on(const EndRecord&) { return Done{}; }

    /// Whoever has no grant after this one is no member: the records that would have said so were
    /// not written.
    void next_meeting(Meeting met) {
        s_.meeting = Meeting(met.value + 1);
        for (State::Site& site : s_.sites) {
            site.standing = Standing::kAbsent;
            site.assignment.reset();
        }
    }
    void add_site(const std::string& name) {
        State::Site site;
        site.name = name;
        s_.sites.push_back(std::move(site));
    }

    State& s_;
    std::uint64_t last_incarnation_ = 0;
};

}  // namespace

Assignment assignment_for(const CoordinatorOptions& options, Meeting meeting,
                          std::vector<SampleRange> samples) {
    const auto index = static_cast<std::size_t>(meeting.value);
    CHECK(index < options.meetings.size());
    std::uint64_t count = 0;
    for (const SampleRange& range : samples) count += range.count;
    return {.meeting = meeting,
            .from_step = index == 0 ? 0 : options.meetings[index - 1],
            .num_steps = static_cast<std::int64_t>(count) / options.samples_per_step,
            .to_step = options.meetings[index],
            .samples = std::move(samples),
            .last = index + 1 == options.meetings.size()};
}

Result<std::pair<CoordinatorState, CoordinatorActions>> make_coordinator(
    const CoordinatorOptions& options, const std::vector<JournalRecord>& records,
    const LogHead& head, TimePoint now) {
    CHECK(!options.sites.empty() && !options.meetings.empty() && options.samples_per_step > 0);
    State state;
    state.options = options;
    state.journal = head;
    state.waiting_since = now;
    state.next_beat = now;
    Replay replay(state);
    for (std::size_t i = 0; i < records.size(); ++i) {
        if (const Status status = replay.take(records[i]); !status) {
            return Error{fmt::format("journal record {}: {}", i, status.error().message)};
        }
    }
    Append first;
    if (records.empty()) {
        first.records.push_back(
            RunRecord{.run = options.run, .sites = options.sites, .config = options.config});
        CHECK(replay.take(first.records.front()));
    }
    // Sites that the configuration names since the journal began get numbers when they come.
    for (State::Site& site : state.sites) {
        site.heard = site.moved = now;
        if (site.assignment) site.state = state.newest;
    }
    state.options.self.number = replay.last_incarnation() + 1;
    first.records.push_back(CoordinatorRecord{state.options.self});
    return std::pair(std::move(state), CoordinatorActions{std::move(first)});
}

void CoordinatorStep::append(std::vector<JournalRecord> records) {
    for (const JournalRecord& record : records) {
        const Status status = s_.ledger.apply(record);
        CHECK(status, "{}", status.error().message);
    }
    actions_.push_back(Append{std::move(records)});
}

std::optional<SiteId> CoordinatorStep::find(const std::string& name) const {
    for (std::uint32_t i = 0; i < s_.sites.size(); ++i) {
        if (s_.sites[i].name == name) return SiteId(i);
    }
    return std::nullopt;
}

void CoordinatorStep::hear(const HeardFrom& heard) {
    if (s_.phase == Phase::kEnded) {
        if (std::holds_alternative<Leave>(heard.message)) {
            actions_.push_back(SayTo{heard.name, Farewell{}});
        } else {
            actions_.push_back(SayTo{heard.name, Stop{s_.stop_reason}});
        }
        return;
    }
    if (const auto* said = std::get_if<Hello>(&heard.message)) return hello(heard.name, *said);
    const auto id = find(heard.name);
    if (!id || !at(*id).identified) {
        // Also of one that leaves: others may need what it holds.
        actions_.push_back(SayTo{heard.name, Identify{s_.options.self}});
        return;
    }
    at(*id).heard = now_;
    at(*id).disconnected = false;
    std::visit([&](const auto& m) { on(*id, m); }, heard.message);
}

void CoordinatorStep::disconnected(const std::string& name) {
    if (const auto id = find(name)) at(*id).disconnected = true;
}

void CoordinatorStep::tick(const Tick& t) {
    if (s_.phase == Phase::kEnded) return;
    if (t.judge) judge();
    if (s_.phase == Phase::kEnded) return;
    end_if_over();
    if (s_.phase == Phase::kEnded || now_ < s_.next_beat) return;
    s_.next_beat = now_ + s_.options.budget.beat();
    tell_peers();
    plan_restoring();
    enroll();
    try_begin();
    const std::vector<SiteId> from = holders();
    for (SiteId id : which([](const Site& s) { return s.identified; })) {
        CoordinatorBeat beat{.coordinator = s_.options.self, .newest = s_.newest, .holders = {}};
        if (at(id).standing == Standing::kFollower) beat.holders = from;
        say(id, std::move(beat));
    }
    tell_joiner();
}

void CoordinatorStep::operate(const Operate& o) {
    if (s_.phase == Phase::kEnded) return;
    if (o.what == Operate::What::kPause || o.what == Operate::What::kResume) {
        s_.paused = o.what == Operate::What::kPause;
        report(s_.paused ? "paused by an operator: sites wait at the next meeting"
                         : "resumed by an operator",
               true);
        s_.waiting_since = now_;
        if (!s_.paused) {
            enroll();
            try_begin();
        }
        return;
    }
    const auto id = find(o.site);
    if (!id) return report(fmt::format("no site is called {}", o.site), true);
    Site& site = at(*id);
    if (o.what == Operate::What::kDrain && site.standing == Standing::kMember) {
        site.draining = true;
        return report(
            fmt::format("site {} leaves after the next commit, as an operator asked", site.name),
            true);
    }
    const bool drain = o.what == Operate::What::kDrain;
    const std::string why = drain                              ? "drained by an operator"
                            : o.what == Operate::What::kRevoke ? "its key was revoked"
                                                               : "dropped by an operator";
    site.barred = !drain;
    site.stopped = site.incarnation;
    if (site.identified) say(*id, Stop{fmt::format("site {} was {}", site.name, why)});
    lose(*id, why);
}

void CoordinatorStep::stop(const std::string& reason) {
    if (s_.phase == Phase::kEnded) return;
    s_.phase = Phase::kEnded;
    s_.stop_reason = reason;
    for (SiteId id : which([](const Site& s) { return s.identified; })) say(id, Stop{reason});
    actions_.push_back(End{.good = false, .reason = reason});
}

CoordinatorActions step(CoordinatorState& state, const CoordinatorEvent& event, TimePoint now) {
    CoordinatorStep step(state, now);
    if (const auto* heard = std::get_if<HeardFrom>(&event)) step.hear(*heard);
    if (const auto* gone = std::get_if<Disconnected>(&event)) step.disconnected(gone->name);
    if (const auto* tick = std::get_if<Tick>(&event)) step.tick(*tick);
    if (const auto* operate = std::get_if<Operate>(&event)) step.operate(*operate);
    if (const auto* quit = std::get_if<Quit>(&event)) step.stop(quit->reason);
    return step.take();
}

std::string_view name_of(CoordinatorState::Standing standing) {
    switch (standing) {
        case Standing::kAbsent:
            return "absent";
        case Standing::kFollower:
            return "follower";
        case Standing::kMember:
            return "member";
    }
    CHECK(false);
}

std::string_view name_of(CoordinatorState::Phase phase) {
    switch (phase) {
        case State::Phase::kTraining:
            return "training";
        case State::Phase::kBarrier:
            return "barrier";
        case State::Phase::kExchange:
            return "exchange";
        case State::Phase::kEnded:
            return "ended";
    }
    CHECK(false);
}

}  // namespace isthmus::outer
