#include "outer/site.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.hpp"

namespace isthmus::outer {

namespace {

using State = SiteState;
using Phase = State::Phase;

double seconds(std::chrono::steady_clock::duration d) {
    return std::chrono::duration<double>(d).count();
}

/// One event's worth of deciding.
class Step {
  public:
    Step(State& state, TimePoint now) : s_(state), now_(now) {}
    SiteActions take() { return std::move(actions_); }

    void on(const Heard& heard) {
        s_.heard = now_;
        s_.silent = false;
        std::visit([&](const auto& m) { hear(m); }, heard.message);
    }

    void on(const Cut& cut) {
        if (s_.phase != Phase::kTraining) return;  // told to hold meanwhile
        CHECK(s_.assignment);
        s_.phase = Phase::kReady;
        s_.waiting = now_;
        s_.hello.has_moments = true;
        s_.ready = Ready{.state = s_.state,
                         .meeting = s_.assignment->meeting,
                         .cut = {.site = s_.self,
                                 .incarnation = s_.hello.incarnation.number,
                                 .counter = ++s_.cuts},
                         .trained = cut.trained,
                         .skipped = cut.skipped,
                         .tokens = cut.tokens,
                         .full_digest = cut.full_digest,
                         .figures = cut.figures};
        say(*s_.ready);
    }

    void on(const Exchanged& e) {
        if (s_.phase != Phase::kExchange || e.attempt != s_.begin->attempt) return;
        s_.phase = Phase::kVoted;
        s_.vote = Vote{.attempt = e.attempt, .result = e.result, .missing = {}, .inputs = e.inputs};
        say(*s_.vote);
    }

    void on(const ExchangeFailed& e) {
        if (s_.phase != Phase::kExchange || e.attempt != s_.begin->attempt) return;
        if (!e.why.empty()) report("the exchange fails: " + e.why);
        s_.vote =
            Vote{.attempt = e.attempt, .result = {}, .missing = e.missing, .inputs = e.inputs};
        say(*s_.vote);
    }

    void on(const Snapshotted& made) {
        if (!s_.pinning) return;
        s_.pinning = false;
        s_.pinned = Pinned{made.state, made.step};
        say(*s_.pinned);
    }

    void on(const Fetched& f) {
        if (!s_.fetching) return;
        s_.fetching = false;
        if (s_.restore) s_.copied = true;
        s_.restore.reset();
        s_.state = f.state;
        if (f.moments) s_.hello.has_moments = true;
        follow();
    }

    void on(const FetchFailed& f) {
        if (!s_.fetching) return;
        s_.fetching = false;
        s_.restore.reset();
        s_.holders.clear();
        report(fmt::format("fetching the run's state failed: {}; asking again", f.reason));
        say_hello();
    }

    void on(const Finish&) {
        s_.phase = Phase::kLeaving;
        s_.waiting = now_;
        say(Leave{});
    }

    void on(const Quit& quit) {
        say(Leave{quit.reason.empty() ? "it ended" : quit.reason});
        end(false, quit.reason);
    }

    void on(const SiteTick& tick) {
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

  private:
    // ---- what the coordinator says ----

    void hear(const Identify& i) {
        if (older(i.coordinator)) return;
        say_hello();
    }

    void hear(const Welcome& w) {
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

    void hear(const Peers& p) { actions_.push_back(Connect{p.peers}); }

    void hear(const CoordinatorBeat& b) {
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

    void hear(const Assign& a) {
        if (s_.phase != Phase::kFollowing || !(a.state == s_.state) || s_.fetching) return;
        train(a.assignment, true);
    }

    void hear(const Begin& b) {
        const bool cut =
            s_.phase == Phase::kReady || s_.phase == Phase::kExchange || s_.phase == Phase::kVoted;
        if (!cut || !(b.from == s_.state) || b.meeting != s_.ready->meeting) return;
        if (s_.begin && s_.begin->attempt == b.attempt) {
            if (s_.vote) say(*s_.vote);
            return;
        }
        if (s_.begin && b.attempt < s_.begin->attempt) return;
        if (const std::string wrong = unfit(b); !wrong.empty()) {
            return report(
                fmt::format("a BEGIN of round {} is ignored: {}", b.from.round.value, wrong));
        }
        s_.begin = b;
        s_.vote.reset();
        s_.phase = Phase::kExchange;
        actions_.push_back(Exchange{b});
    }

    void hear(const Commit& c) {
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

    void hear(const Abandon& a) {
        const bool cut =
            s_.phase == Phase::kReady || s_.phase == Phase::kExchange || s_.phase == Phase::kVoted;
        if (!cut || s_.ready->meeting != a.meeting) return;
        actions_.push_back(Discard{.reset = false});
        train(a.next, false);
    }

    void hear(const Pin& pin) {
        if (s_.pinned) return say(*s_.pinned);
        if (s_.pinning) return;
        s_.pinning = true;
        actions_.push_back(Snapshot{pin.moments});
    }

    void hear(const Unpin&) {
        if (!s_.pinned && !s_.pinning) return;
        s_.pinned.reset();
        s_.pinning = false;
        actions_.push_back(DropSnapshot{});
    }

    void hear(const Restore& r) {
        if (s_.phase != Phase::kFollowing || r.donors.empty()) return;
        const bool wanted = r.state.lineage > s_.state.lineage || r.state.round > s_.state.round ||
                            (r.state.round == s_.state.round && !(r.state == s_.state)) ||
                            (r.moments && !s_.hello.has_moments);
        if (!wanted) return;
        const bool same =
            s_.restore && s_.restore->state == r.state && s_.restore->donors == r.donors;
        if (s_.fetching && (same || !s_.restore)) return;
        s_.restore = r;
        s_.fetching = true;
        actions_.push_back(FetchCopy{r});
    }

    void hear(const Farewell&) {
        if (s_.phase == Phase::kLeaving) end(true, {});
    }
    void hear(const Stop& stop) { end(false, stop.reason); }

    // What only a site says is noise.
    template <class Other>
    void hear(const Other&) {}

    // ---- how it goes on ----

    /// The staged result of a commit, or a fetched one, is the state now.
    void arrive(const Commit& c) {
        s_.state = s_.newest = c.to;
        s_.begin.reset();
        s_.vote.reset();
        s_.ready.reset();
        s_.assignment.reset();
        s_.phase = Phase::kFollowing;
        s_.waiting = now_;
        go_on(c);
    }

    void go_on(const Commit& c) {
        if (c.next) return train(*c.next, true);
        if (c.last || c.drained) {
            s_.last = c.last;
            s_.drained = c.drained;
            actions_.push_back(Complete{c.drained});
            s_.pending.reset();
        }
    }

    /// Without work: gets nearer to the newest state, and takes what it was given there.
    void follow() {
        if (s_.phase != Phase::kFollowing || s_.fetching || s_.last || s_.drained) return;
        if (s_.pending && s_.pending->to == s_.state) {
            const Commit c = *s_.pending;
            s_.pending.reset();
            return go_on(c);
        }
        const bool one_behind =
            s_.state.lineage == s_.newest.lineage && s_.state.round < s_.newest.round;
        auto from = s_.holders;
        std::erase(from, s_.self);
        if (!one_behind || from.empty()) return;
        // Results older than the newest are only kept for whoever was given a copy.
        const bool newest_only = s_.state.round.value + 1 == s_.newest.round.value;
        if (!newest_only && !s_.copied) return;
        s_.fetching = true;
        actions_.push_back(FetchResult{s_.state, std::move(from)});
    }

    void train(const Assignment& assignment, bool from_state) {
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
    void void_all() {
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
    std::string unfit(const Begin& b) const {
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

    bool older(const Incarnation& coordinator) {
        if (coordinator.number == s_.coordinator.number &&
            coordinator.nonce != s_.coordinator.nonce && s_.coordinator.number != 0) {
            end(false, fmt::format("two coordinators call themselves number {}: one journal must "
                                   "not be served twice",
                                   coordinator.number));
            return true;
        }
        return coordinator.number < s_.coordinator.number;
    }

    /// A coordinator with another journal, or one that has forgotten what this site knows, is not
    /// obeyed.
    bool same_journal(const LogHead& head) {
        if (s_.journal.id == 0 || (head.id == s_.journal.id && head.count >= s_.journal.count))
            return true;
        if (head.id != s_.journal.id) {
            end(false, "the coordinator has another journal than the one this run began with");
        }
        return false;  // an echo
    }

    std::optional<Meeting> training() const {
        if (s_.assignment) return s_.assignment->meeting;
        return std::nullopt;
    }

    void say_hello() {
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

    void say_again() {
        if (!s_.welcomed) return;
        // READY goes with every vote: a coordinator that was started again, or that has taken this
        // site for lost meanwhile, knows nothing of the attempt, and can judge only by the cut.
        const bool orphan =
            s_.phase == Phase::kExchange && s_.begin->attempt.coordinator != s_.coordinator.number;
        if (s_.phase == Phase::kReady || s_.vote || orphan) say(*s_.ready);
        if (s_.vote) say(*s_.vote);
        if (s_.pinned) say(*s_.pinned);
        if (s_.phase == Phase::kLeaving) say(Leave{});
    }

    /// A silent coordinator is waited for as long as a run may take to begin; who trains does not
    /// wait for it.
    void judge() {
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

    void say(Message message) { actions_.push_back(Say{std::move(message)}); }
    void report(std::string line) { actions_.push_back(Report{std::move(line), true}); }
    void end(bool good, const std::string& reason) {
        if (s_.phase == Phase::kEnded) return;
        s_.phase = Phase::kEnded;
        actions_.push_back(End{.good = good, .reason = reason});
    }

    State& s_;
    TimePoint now_;
    SiteActions actions_;
};

}  // namespace

SiteState make_site(const Budget& budget, Hello hello, TimePoint now) {
    SiteState state;
    state.budget = budget;
    state.state = hello.state;
    state.hello = std::move(hello);
    state.heard = state.waiting = state.next_beat = now;
    return state;
}

SiteActions step(SiteState& state, const SiteEvent& event, TimePoint now) {
    if (state.phase == Phase::kEnded) return {};
    Step step(state, now);
    std::visit([&](const auto& e) { step.on(e); }, event);
    return step.take();
}

}  // namespace isthmus::outer
