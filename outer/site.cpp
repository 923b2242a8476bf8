#include "outer/site.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.hpp"
#include "outer/site_step.hpp"

namespace isthmus::outer {

namespace {

double seconds(std::chrono::steady_clock::duration d) {
    return std::chrono::duration<double>(d).count();
}

}  // namespace

void SiteStep::on(const Heard& heard) {
    s_.heard = now_;
    s_.silent = false;
    std::visit([&](const auto& m) { hear(m); }, heard.message);
}

void SiteStep::on(const Cut& cut) {
    if (s_.phase != Phase::kTraining) return;  // told to hold meanwhile
    CHECK(s_.assignment);
    s_.phase = Phase::kReady;
    s_.waiting = now_;
    s_.hello.has_moments = true;
    s_.ready = Ready{
        .state = s_.state,
        .meeting = s_.assignment->meeting,
        .cut = {.site = s_.self, .incarnation = s_.hello.incarnation.number, .counter = ++s_.cuts},
        .trained = cut.trained,
        .skipped = cut.skipped,
        .tokens = cut.tokens,
        .full_digest = cut.full_digest,
        .figures = cut.figures};
    say_ready();
}

void SiteStep::on(const Exchanged& e) {
    if (s_.phase != Phase::kExchange || e.attempt != s_.begin->attempt) return;
    s_.phase = Phase::kVoted;
    s_.vote = Vote{.attempt = e.attempt, .result = e.result, .missing = {}, .inputs = e.inputs};
    say(*s_.vote);
}

void SiteStep::on(const ExchangeFailed& e) {
    if (s_.phase != Phase::kExchange || e.attempt != s_.begin->attempt) return;
    if (!e.why.empty()) report("the exchange fails: " + e.why);
    s_.vote = Vote{.attempt = e.attempt, .result = {}, .missing = e.missing, .inputs = e.inputs};
    say(*s_.vote);
}

void SiteStep::on(const Finish&) {
    s_.phase = Phase::kLeaving;
    s_.waiting = now_;
    say(Leave{});
}

void SiteStep::on(const Quit& quit) {
    say(Leave{quit.reason.empty() ? "it ended" : quit.reason});
    end(false, quit.reason);
}

void SiteStep::on(const SiteTick& tick) {
    s_.tick = tick;
    if (tick.judge) judge();
    if (s_.phase == Phase::kEnded || now_ < s_.next_beat) return;
    s_.next_beat = now_ + s_.budget.beat();
    if (!s_.welcomed) say_hello();
    say(SiteBeat{.progress = tick.progress,
                 .step = tick.step,
                 .state = s_.state,
                 .training = training(),
                 .attempt = s_.begin ? std::optional(s_.begin->attempt) : std::nullopt,
                 .has_moments = s_.hello.has_moments,
                 .tokens_per_s = tick.tokens_per_s,
                 .loss = tick.loss});
    say_again();
}

void SiteStep::hear(const Identify& i) {
    if (older(i.coordinator)) return;
    say_hello();
}

void SiteStep::hear(const Welcome& w) {
    if (older(w.coordinator) || s_.welcomed || w.answers != s_.hello.count) return;
    if (!same_journal(w.journal)) return;
    const bool first = s_.phase == Phase::kHello;
    s_.coordinator = w.coordinator;
    s_.journal = w.journal;
    s_.self = w.you;
    s_.newest = w.newest;
    s_.welcomed = true;
    actions_.push_back(Connect{w.peers});
    if (first) {
        s_.phase = Phase::kFollowing;
        s_.waiting = now_;
    }
    if (w.member) return say_again();
    // A lease that a commit brought, not begun because its result is still being fetched.
    if (s_.pending) s_.pending->next.reset();
    if (!first && s_.phase != Phase::kFollowing && s_.phase != Phase::kLeaving) void_all();
    follow();
}

void SiteStep::hear(const Peers& p) {
    actions_.push_back(Connect{p.peers});
}

void SiteStep::hear(const CoordinatorBeat& b) {
    if (older(b.coordinator)) return;
    if (!(b.coordinator == s_.coordinator) && s_.coordinator.number != 0) {
        s_.coordinator = b.coordinator;
        return say_hello();
    }
    if (s_.phase != Phase::kFollowing) return;
    if (b.newest.lineage > s_.newest.lineage || b.newest.round >= s_.newest.round)
        s_.newest = b.newest;
    s_.holders = b.holders;
    follow();
}

void SiteStep::hear(const Assign& a) {
    if (s_.phase != Phase::kFollowing || !(a.state == s_.state) || s_.fetching) return;
    train(a.assignment, true);
}

void SiteStep::hear(const Begin& b) {
    const bool cut =
        s_.phase == Phase::kReady || s_.phase == Phase::kExchange || s_.phase == Phase::kVoted;
    if (!cut || !(b.from == s_.state) || b.meeting != s_.ready->meeting) return;
    if (s_.begin && s_.begin->attempt == b.attempt) {
        if (s_.vote) say(*s_.vote);
        return;
    }
    if (s_.begin && b.attempt < s_.begin->attempt) return;
    if (const std::string wrong = unfit(b); !wrong.empty()) {
        return report(fmt::format("a BEGIN of round {} is ignored: {}", b.from.round.value, wrong));
    }
    s_.begin = b;
    s_.vote.reset();
    s_.phase = Phase::kExchange;
    actions_.push_back(Exchange{b});
}

void SiteStep::hear(const Commit& c) {
    if (!same_journal(c.journal)) return;
    const bool voted =
        s_.phase == Phase::kVoted && s_.begin->attempt == c.attempt && c.from == s_.state;
    if (voted && *s_.vote->result == c.to.hash) {
        s_.journal = c.journal;
        actions_.push_back(Apply{c});
        arrive(c);
        return;
    }
    if (s_.phase != Phase::kFollowing) return;
    s_.journal = c.journal;
    if (c.to.lineage > s_.newest.lineage || c.to.round >= s_.newest.round) s_.newest = c.to;
    if (!(c.to == s_.newest)) return;
    s_.holders = c.holders;
    s_.pending = c;
    follow();
}

void SiteStep::hear(const Abandon& a) {
    const bool cut =
        s_.phase == Phase::kReady || s_.phase == Phase::kExchange || s_.phase == Phase::kVoted;
    if (!cut || s_.ready->meeting != a.meeting) return;
    actions_.push_back(Discard{.reset = false});
    train(a.next, false);
}

void SiteStep::hear(const Farewell&) {
    if (s_.phase == Phase::kLeaving) end(true, {});
}

void SiteStep::hear(const Stop& stop) {
    end(false, stop.reason);
}

/// The staged result of a commit, or a fetched one, is the state now.
void SiteStep::arrive(const Commit& c) {
    s_.state = s_.newest = c.to;
    s_.begin.reset();
    s_.vote.reset();
    s_.ready.reset();
    s_.assignment.reset();
    s_.phase = Phase::kFollowing;
    s_.waiting = now_;
    go_on(c);
}

void SiteStep::go_on(const Commit& c) {
    if (c.next) return train(*c.next, true);
    if (c.last || c.drained) {
        s_.last = c.last;
        s_.drained = c.drained;
        actions_.push_back(Complete{c.drained});
        s_.pending.reset();
    }
}

void SiteStep::train(const Assignment& assignment, bool from_state) {
    s_.assignment = assignment;
    s_.pending.reset();
    s_.ready.reset();
    s_.begin.reset();
    s_.vote.reset();
    s_.copied = false;
    s_.phase = Phase::kTraining;
    actions_.push_back(Train{assignment, from_state});
}

/// This site was taken for lost: its samples are others' now. If it voted for what became the
/// run's state it holds that.
void SiteStep::void_all() {
    const bool holds = s_.phase == Phase::kVoted && *s_.vote->result == s_.newest.hash &&
                       s_.begin->from == s_.state;
    actions_.push_back(Hold{});
    if (holds) {
        Commit c;
        c.attempt = s_.begin->attempt;
        c.from = s_.state;
        c.to = s_.newest;
        c.journal = s_.journal;
        for (const Participant& p : s_.begin->participants) {
            if (p.weight > 0) c.contributors.push_back(p.peer.site);
        }
        actions_.push_back(Apply{c});
        s_.state = s_.newest;
    } else {
        actions_.push_back(Discard{.reset = true});
    }
    s_.assignment.reset();
    s_.ready.reset();
    s_.begin.reset();
    s_.vote.reset();
    s_.phase = Phase::kFollowing;
    s_.waiting = now_;
    report("taken for lost: this site goes back to the run's newest state");
}

/// The exchange that this asks for can be done: this site's own cut, ascending ids, weights
/// that can divide.
std::string SiteStep::unfit(const Begin& b) const {
    float total = 0;
    bool own = false;
    for (std::size_t i = 0; i < b.participants.size(); ++i) {
        const Participant& p = b.participants[i];
        if (!std::isfinite(p.weight) || p.weight < 0) return "a weight is not a number";
        if (!std::isfinite(p.share) || p.share < 0) return "a share is not a number";
        if (i > 0 && p.peer.site <= b.participants[i - 1].peer.site)
            return "its sites are not in order";
        total += p.weight;
        if (p.peer.site == s_.self) own = p.cut == s_.ready->cut;
    }
    if (!own) return "it does not name this site's cut";
    if (!(total > 0)) return "its weights add up to nothing";
    return {};
}

bool SiteStep::older(const Incarnation& coordinator) {
    if (coordinator.number == s_.coordinator.number && coordinator.nonce != s_.coordinator.nonce &&
        s_.coordinator.number != 0) {
        end(false, fmt::format("two coordinators call themselves number {}: one journal must "
                               "not be served twice",
                               coordinator.number));
        return true;
    }
    return coordinator.number < s_.coordinator.number;
}

/// A coordinator with another journal, or one that has forgotten what this site knows, is not
/// obeyed.
bool SiteStep::same_journal(const LogHead& head) {
    if (s_.journal.id == 0 || (head.id == s_.journal.id && head.count >= s_.journal.count))
        return true;
    if (head.id != s_.journal.id) {
        end(false, "the coordinator has another journal than the one this run began with");
    }
    return false;  // an echo
}

std::optional<Meeting> SiteStep::training() const {
    if (s_.assignment) return s_.assignment->meeting;
    return std::nullopt;
}

void SiteStep::say_hello() {
    s_.welcomed = false;
    ++s_.hello.count;
    s_.hello.state = s_.state;
    s_.hello.staged.reset();
    if (s_.phase == Phase::kVoted) s_.hello.staged = s_.begin->attempt;
    s_.hello.training = training();
    s_.hello.leaving = s_.phase == Phase::kLeaving;
    s_.hello.journal = s_.journal;
    say(s_.hello);
}

/// Not between HELLO and its answer, which may void the cut.
void SiteStep::say_ready() {
    if (!s_.welcomed) return;
    s_.ready->welcome = s_.hello.count;
    say(*s_.ready);
}

void SiteStep::say_again() {
    if (!s_.welcomed) return;
    // READY goes with every vote: a coordinator that was started again, or that has taken this
    // site for lost meanwhile, knows nothing of the attempt, and can judge only by the cut.
    const bool orphan =
        s_.phase == Phase::kExchange && s_.begin->attempt.coordinator != s_.coordinator.number;
    if (s_.phase == Phase::kReady || s_.vote || orphan) say_ready();
    if (s_.vote) say(*s_.vote);
    if (s_.pinned) say(*s_.pinned);
    if (s_.phase == Phase::kLeaving) say(Leave{});
}

/// A silent coordinator is waited for as long as a run may take to begin; who trains does not
/// wait for it.
void SiteStep::judge() {
    const auto silent = now_ - s_.heard;
    // Before the end of the run others may need what this site holds.
    const auto patience = s_.last ? s_.budget.round : s_.budget.join;
    if (s_.phase == Phase::kLeaving && silent > patience) return end(true, {});
    if (silent > s_.budget.silence() && !s_.silent && s_.welcomed) {
        s_.silent = true;
        report(
            fmt::format("nothing heard of the coordinator for {:.1f} s; this site trains to "
                        "its next meeting and waits there",
                        seconds(silent)));
    }
    if (s_.phase == Phase::kTraining) return;
    const auto waited = now_ - std::max(s_.heard, s_.waiting);
    if (waited <= s_.budget.join) return;
    end(false, s_.phase == Phase::kHello
                   ? fmt::format("no coordinator answered within {:.1f} s", seconds(waited))
                   : fmt::format("the coordinator is lost: nothing heard of it for {:.1f} s",
                                 seconds(waited)));
}

void SiteStep::say(Message message) {
    actions_.push_back(Say{std::move(message)});
}

void SiteStep::report(std::string line) {
    actions_.push_back(Report{std::move(line), true});
}

void SiteStep::end(bool good, const std::string& reason) {
    if (s_.phase == Phase::kEnded) return;
    s_.phase = Phase::kEnded;
    actions_.push_back(End{.good = good, .reason = reason});
}

SiteState make_site(const Budget& budget, Hello hello, TimePoint now) {
    SiteState state;
    state.budget = budget;
    state.state = hello.state;
    state.hello = std::move(hello);
    state.heard = state.waiting = state.next_beat = now;
    return state;
}

SiteActions step(SiteState& state, const SiteEvent& event, TimePoint now) {
    if (state.phase == SiteState::Phase::kEnded) return {};
    SiteStep step(state, now);
    std::visit([&](const auto& e) { step.on(e); }, event);
    return step.take();
}

}  // namespace isthmus::outer
