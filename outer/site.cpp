#include "outer/site.hpp"

#include <cmath>

#include "base/check.hpp"

namespace isthmus::outer {

namespace {

using State = SiteState;
using Phase = State::Phase;

class Step {
  public:
    Step(State& state, TimePoint now) : s_(state), now_(now) {}
    SiteActions take() { return std::move(actions_); }

    void on(const Heard& heard) {
        if (s_.phase == Phase::kEnded) return;
        // While joining, `heard` is the start of the wait for everyone.
        if (s_.phase != Phase::kJoining) s_.heard = now_;
        std::visit([&](const auto& m) { hear(m); }, heard.message);
    }

    void on(const Cut& cut) {
        if (s_.phase == Phase::kEnded) return;
        CHECK(s_.phase == Phase::kTraining);
        s_.phase = Phase::kReady;
        s_.samples = cut.samples;
        say_again();
    }

    void on(const Exchanged& exchanged) {
        if (s_.phase == Phase::kEnded) return;
        CHECK(s_.phase == Phase::kExchange);
        s_.phase = Phase::kVoted;
        s_.result = exchanged.result;
        say_again();
    }

    void on(const Finish&) {
        if (s_.phase == Phase::kEnded) return;
        CHECK(s_.phase == Phase::kTraining);
        s_.phase = Phase::kLeaving;
        say_again();
    }

    void on(const Quit& quit) {
        if (s_.phase == Phase::kEnded) return;
        say(Leave{quit.reason});
        end(quit.reason);
    }

    void on(const SiteTick& tick) {
        if (s_.phase == Phase::kEnded) return;
        s_.progress = tick.progress;
        const bool joining = s_.phase == Phase::kJoining;
        const auto limit = joining ? s_.budget.join : s_.budget.silence();
        if (tick.judge && now_ - s_.heard > limit) {
            const double waited = std::chrono::duration<double>(now_ - s_.heard).count();
            return end(joining ? fmt::format("the run did not start within {:.1f} s: the "
                                             "coordinator or another site is missing",
                                             waited)
                               : fmt::format("the coordinator is lost: nothing heard of it for "
                                             "{:.1f} s",
                                             waited));
        }
        if (now_ >= s_.next_beat) say_again();
    }

  private:
    void hear(const Start& start) {
        if (s_.phase != Phase::kJoining) return;
        if (start.speak_to.size() != s_.hello.listens.size()) {
            return end(fmt::format("the coordinator names {} sites, this site knows {}",
                                   start.speak_to.size(), s_.hello.listens.size()));
        }
        s_.phase = Phase::kTraining;
        s_.heard = now_;
        actions_.push_back(Joined{start.speak_to});
    }

    void hear(const Begin& begin) {
        if (s_.phase != Phase::kReady || begin.round != s_.round) return;  // an echo
        if (!fits(begin)) {
            return on(Quit{fmt::format("round {} would not be a mean over all {} sites",
                                       begin.round.value, s_.hello.listens.size())});
        }
        s_.phase = Phase::kExchange;
        actions_.push_back(Exchange{begin});
    }

    /// All sites contribute, in ascending id, with weights that can divide.
    bool fits(const Begin& begin) const {
        const std::size_t sites = s_.hello.listens.size();
        if (begin.contributors.size() != sites || begin.weights.size() != sites) return false;
        for (std::uint32_t i = 0; i < sites; ++i) {
            if (begin.contributors[i] != SiteId(i)) return false;
            if (!std::isfinite(begin.weights[i]) || begin.weights[i] <= 0) return false;
        }
        return true;
    }

    void hear(const Commit& commit) {
        if (s_.phase != Phase::kVoted || commit.round != s_.round) return;
        if (commit.result != s_.result) {
            return end(fmt::format("round {} was committed as {:.16}, this site has {:.16}",
                                   s_.round.value, hex(commit.result), hex(s_.result)));
        }
        s_.phase = Phase::kTraining;
        s_.round = Round(s_.round.value + 1);
        s_.anchor = commit.result;
        actions_.push_back(Apply{commit});
    }

    void hear(const Farewell&) {
        if (s_.phase != Phase::kLeaving) return;
        s_.phase = Phase::kEnded;
        actions_.push_back(End{.good = true, .reason = {}});
    }

    void hear(const Stop& stop) { end(stop.reason); }

    // A beat has done its work by being heard; the rest is what only sites say.
    void hear(const Beat&) {}
    void hear(const Hello&) {}
    void hear(const Ready&) {}
    void hear(const Vote&) {}
    void hear(const Leave&) {}

    /// Whatever the coordinator should know of this site now.
    void say_again() {
        s_.next_beat = now_ + s_.budget.beat();
        switch (s_.phase) {
            case Phase::kJoining:
                return say(s_.hello);
            case Phase::kReady:
                return say(Ready{.round = s_.round, .anchor = s_.anchor, .samples = s_.samples});
            case Phase::kVoted:
                return say(Vote{.round = s_.round, .result = s_.result});
            case Phase::kLeaving:
                return say(Leave{});
            case Phase::kTraining:
            case Phase::kExchange:
                return say(Beat{s_.progress});
            case Phase::kEnded:
                return;
        }
    }

    void end(const std::string& reason) {
        s_.phase = Phase::kEnded;
        actions_.push_back(End{.good = false, .reason = reason});
    }
    void say(Message message) { actions_.push_back(Say{std::move(message)}); }

    State& s_;
    TimePoint now_;
    SiteActions actions_;
};

}  // namespace

SiteState make_site(SiteId self, const Budget& budget, Hello hello, TimePoint now) {
    SiteState state;
    state.self = self;
    state.budget = budget;
    state.anchor = hello.state;
    state.hello = std::move(hello);
    state.heard = now;
    state.next_beat = now;
    return state;
}

SiteActions step(SiteState& state, const SiteEvent& event, TimePoint now) {
    Step step(state, now);
    std::visit([&](const auto& e) { step.on(e); }, event);
    return step.take();
}

}  // namespace isthmus::outer
