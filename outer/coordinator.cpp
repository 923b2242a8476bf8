#include "outer/coordinator.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace isthmus::outer {

namespace {

using State = CoordinatorState;
using Phase = State::Phase;
using Member = State::Member;

double seconds(std::chrono::steady_clock::duration d) {
    return std::chrono::duration<double>(d).count();
}

/// One event's worth of deciding.
class Step {
  public:
    Step(State& state, TimePoint now) : s_(state), now_(now) {}
    CoordinatorActions take() { return std::move(actions_); }

    void hear(SiteId from, const Message& message) {
        CHECK(from.value < s_.members.size());
        Member& member = s_.members[from.value];
        if (s_.phase == Phase::kEnded) {
            say(from, Stop{s_.stop_reason});
            return;
        }
        if (!member.hello && !std::holds_alternative<Hello>(message)) return;
        member.heard = now_;
        std::visit([&](const auto& m) { on(from, member, m); }, message);
    }

    void tick(const Tick& t) {
        if (s_.phase == Phase::kEnded) return;
        if (t.judge) judge();
        if (s_.phase == Phase::kEnded || now_ < s_.next_beat) return;
        s_.next_beat = now_ + s_.budget.beat();
        for (SiteId site : sites()) {
            const Member& member = s_.members[site.value];
            if (member.hello && !member.left) say(site, Beat{});
        }
    }

    void stop(const std::string& reason) {
        if (s_.phase == Phase::kEnded) return;
        s_.phase = Phase::kEnded;
        s_.stop_reason = reason;
        for (SiteId site : sites()) {
            if (s_.members[site.value].hello) say(site, Stop{reason});
        }
        actions_.push_back(End{.good = false, .reason = reason});
    }

  private:
    void on(SiteId from, Member& member, const Hello& hello) {
        if (s_.phase == Phase::kJoining) {
            if (!member.hello) report(fmt::format("site {} is here", from.value));
            member.hello = hello;
            member.moved = now_;
            if (everyone([](const Member& m) { return m.hello.has_value(); })) start();
        } else if (hello.incarnation != member.hello->incarnation) {
            stop(fmt::format("site {} was lost and started again; this build cannot take it back",
                             from.value));
        } else {
            say(from, start_for(from));
        }
    }

    void start() {
        const Hello& first = *s_.members[0].hello;
        for (SiteId site : sites()) {
            const Hello& hello = *s_.members[site.value].hello;
            const std::string who = fmt::format("site {} and site 0", site.value);
            if (hello.listens.size() != s_.members.size()) {
                return stop(fmt::format("site {} expects {} sites, the coordinator {}", site.value,
                                        hello.listens.size(), s_.members.size()));
            }
            if (hello.elements != first.elements) {
                return stop(fmt::format("{} have models of {} and {} parameters", who,
                                        hello.elements, first.elements));
            }
            if (hello.config_hash != first.config_hash) {
                return stop(who + " have different configurations; give all the same file");
            }
            if (hello.state != first.state) {
                return stop(who + " start from different parameters (model, seed or build differ)");
            }
        }
        s_.phase = Phase::kBarrier;
        s_.state = first.state;
        report(
            fmt::format("all {} sites are here, {} parameters", s_.members.size(), first.elements));
        for (SiteId site : sites()) say(site, start_for(site));
    }

    Start start_for(SiteId site) const {
        Start start;
        for (const Member& peer : s_.members) {
            start.speak_to.push_back(peer.hello->listens[site.value]);
        }
        return start;
    }

    void on(SiteId from, Member& member, const Ready& ready) {
        if (s_.phase == Phase::kJoining || ready.round < s_.round) return;  // an echo
        if (ready.round > s_.round || ready.anchor != s_.state) {
            return stop(fmt::format(
                "site {} is at round {} with state {:.16}, the run at round {} "
                "with {:.16}",
                from.value, ready.round.value, hex(ready.anchor), s_.round.value, hex(s_.state)));
        }
        if (s_.phase == Phase::kExchange) {
            if (!member.vote) say(from, begin());
            return;
        }
        if (!member.ready) {
            if (none_ready()) s_.waiting_since = now_;
            member.ready = ready;
            member.moved = now_;
        }
        if (stop_if_someone_left()) return;
        if (!everyone([](const Member& m) { return m.ready.has_value(); })) return;
        s_.phase = Phase::kExchange;
        s_.waiting_since = now_;
        for (SiteId site : sites()) say(site, begin());
    }

    Begin begin() const {
        Begin begin{.round = s_.round, .contributors = {}, .weights = {}};
        for (SiteId site : sites()) {
            begin.contributors.push_back(site);
            begin.weights.push_back(1.0f);
        }
        return begin;
    }

    void on(SiteId from, Member& member, const Vote& vote) {
        if (vote.round < s_.round) {
            // It voted, so it holds the result; it only missed the answer.
            if (vote.round.value + 1 == s_.round.value) {
                say(from, Commit{.round = vote.round, .result = s_.state});
            }
            return;
        }
        if (s_.phase != Phase::kExchange || vote.round != s_.round) return;
        member.vote = vote;
        member.moved = now_;
        if (everyone([](const Member& m) { return m.vote.has_value(); })) count_votes();
    }

    void count_votes() {
        const StateHash& first = s_.members[0].vote->result;
        std::string differing;
        for (SiteId site : sites()) {
            if (s_.members[site.value].vote->result != first) {
                differing += fmt::format("{}{}", differing.empty() ? "" : ", ", site.value);
            }
        }
        if (!differing.empty()) {
            return stop(
                fmt::format("round {}: the result of site {} differs from that of site 0; "
                            "nothing was applied",
                            s_.round.value, differing));
        }
        const Commit commit{.round = s_.round, .result = first};
        s_.round = Round(s_.round.value + 1);
        s_.state = commit.result;
        s_.phase = Phase::kBarrier;
        for (Member& member : s_.members) {
            member.ready.reset();
            member.vote.reset();
        }
        for (SiteId site : sites()) say(site, commit);
        report(fmt::format("round {} committed, state {:.16}", s_.round.value, hex(s_.state)));
    }

    void on(SiteId from, Member& member, const Leave& leave) {
        if (!leave.reason.empty()) {
            return stop(fmt::format("site {} left: {}", from.value, leave.reason));
        }
        member.left = true;
        say(from, Farewell{});
        if (stop_if_someone_left()) return;
        if (everyone([](const Member& m) { return m.left; })) {
            s_.phase = Phase::kEnded;
            s_.stop_reason = "the run is over";
            actions_.push_back(End{.good = true, .reason = {}});
        }
    }

    /// A round that someone waits for can no longer be completed.
    bool stop_if_someone_left() {
        if (none_ready()) return false;
        for (SiteId site : sites()) {
            if (!s_.members[site.value].left) continue;
            stop(fmt::format("site {} ended before round {}, which others wait for", site.value,
                             s_.round.value));
            return true;
        }
        return false;
    }

    void on(SiteId, Member& member, const Beat& beat) {
        if (beat.progress != member.progress) member.moved = now_;
        member.progress = beat.progress;
    }

    // What only a coordinator says, coming from a site, is noise.
    void on(SiteId, Member&, const Start&) {}
    void on(SiteId, Member&, const Begin&) {}
    void on(SiteId, Member&, const Commit&) {}
    void on(SiteId, Member&, const Farewell&) {}
    void on(SiteId, Member&, const Stop&) {}

    void judge() {
        for (SiteId site : sites()) {
            const Member& member = s_.members[site.value];
            if (!member.hello) {
                if (now_ - s_.waiting_since > s_.budget.join) {
                    return stop(fmt::format("site {} did not come within {:g} s", site.value,
                                            seconds(s_.budget.join)));
                }
                continue;
            }
            if (member.left) continue;
            if (now_ - member.heard > s_.budget.silence()) {
                return stop(fmt::format("site {} is lost: nothing heard of it for {:.1f} s ({})",
                                        site.value, seconds(now_ - member.heard), phase_name()));
            }
            if (is_waited_for(member) &&
                now_ - std::max(member.moved, s_.waiting_since) > s_.budget.round) {
                return stop(fmt::format("site {} stands still for {:.1f} s ({})", site.value,
                                        seconds(now_ - member.moved), phase_name()));
            }
        }
    }

    bool is_waited_for(const Member& member) const {
        if (s_.phase == Phase::kBarrier) return !none_ready() && !member.ready;
        return s_.phase == Phase::kExchange && !member.vote;
    }

    std::string phase_name() const {
        if (s_.phase == Phase::kJoining) return "before the start";
        return fmt::format("round {}, {}", s_.round.value,
                           s_.phase == Phase::kExchange ? "exchange"
                           : none_ready()               ? "training"
                                                        : "barrier");
    }

    template <class Predicate>
    bool everyone(Predicate p) const {
        return std::all_of(s_.members.begin(), s_.members.end(), p);
    }
    bool none_ready() const {
        return everyone([](const Member& m) { return !m.ready; });
    }
    std::vector<SiteId> sites() const {
        std::vector<SiteId> all;
        for (std::uint32_t i = 0; i < s_.members.size(); ++i) all.push_back(SiteId(i));
        return all;
    }
    void say(SiteId site, Message message) {
        actions_.push_back(SayTo{.site = site, .message = std::move(message)});
    }
    void report(std::string line) { actions_.push_back(Report{std::move(line)}); }

    State& s_;
    TimePoint now_;
    CoordinatorActions actions_;
};

}  // namespace

CoordinatorState make_coordinator(std::uint32_t num_sites, const Budget& budget, TimePoint now) {
    CHECK(num_sites > 0);
    CoordinatorState state;
    state.budget = budget;
    state.members.resize(num_sites);
    state.waiting_since = now;
    state.next_beat = now;
    return state;
}

CoordinatorActions step(CoordinatorState& state, const CoordinatorEvent& event, TimePoint now) {
    Step step(state, now);
    if (const auto* heard = std::get_if<HeardFrom>(&event)) {
        step.hear(heard->site, heard->message);
    } else if (const auto* quit = std::get_if<Quit>(&event)) {
        step.stop(quit->reason);
    } else {
        step.tick(std::get<Tick>(event));
    }
    return step.take();
}

}  // namespace isthmus::outer
