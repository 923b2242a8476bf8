// Scripted events: what the coordinator says, and that it does not depend on the order of arrival.
#include "outer/coordinator.hpp"

#include <algorithm>
#include <numeric>

#include "outer/outer_step.hpp"

namespace isthmus::outer {
namespace {

using namespace std::chrono_literals;

const StateHash kInitial = hash_state(std::vector<float>{1});
const StateHash kNext = hash_state(std::vector<float>{2});
const StateHash kOther = hash_state(std::vector<float>{3});
const Budget kBudget{.round = 60s, .join = 600s};  // silence 15 s, beat 1 s

Hello hello(std::uint32_t site, std::uint32_t sites) {
    Endpoints listens(sites);
    for (std::uint32_t peer = 0; peer < sites; ++peer) {
        if (peer != site) listens[peer] = fmt::format("{} hears {}", site, peer);
    }
    return {.incarnation = 100u + site,
            .config_hash = 7,
            .elements = 1,
            .state = kInitial,
            .listens = listens};
}

/// Actions as lines, so that a script reads like a play.
std::vector<std::string> lines(const CoordinatorActions& actions) {
    std::vector<std::string> out;
    for (const auto& action : actions) {
        if (const auto* end = std::get_if<End>(&action)) {
            out.push_back(end->good ? "end" : "end: " + end->reason);
        } else if (const auto* say = std::get_if<SayTo>(&action)) {
            static const char* names[] = {"HELLO",  "START", "READY",    "BEGIN", "VOTE",
                                          "COMMIT", "LEAVE", "FAREWELL", "STOP",  "BEAT"};
            std::string line =
                fmt::format("{} to {}", names[say->message.index()], say->site.value);
            if (const auto* start = std::get_if<Start>(&say->message)) {
                for (const auto& e : start->speak_to) line += "|" + e;
            }
            out.push_back(line);
        }
    }
    return out;
}

class Play {
  public:
    explicit Play(std::uint32_t sites)
        : sites_(sites), state(make_coordinator(sites, kBudget, now)) {}
    std::vector<std::string> hear(std::uint32_t site, Message message) {
        return lines(step(state, HeardFrom{SiteId(site), std::move(message)}, now));
    }
    std::vector<std::string> tick_after(std::chrono::milliseconds passed) {
        now += passed;
        return lines(step(state, Tick{}, now));
    }
    void join() {
        for (std::uint32_t s = 0; s < sites_; ++s) hear(s, hello(s, sites_));
    }
    std::vector<std::string> ready(std::uint32_t site) {
        return hear(site, Ready{.round = state.round, .anchor = state.state, .samples = 1});
    }
    void all_ready() {
        for (std::uint32_t s = 0; s < sites_; ++s) ready(s);
    }
    std::vector<std::string> vote(std::uint32_t site, const StateHash& result) {
        return hear(site, Vote{.round = state.round, .result = result});
    }

  private:
    std::uint32_t sites_;

  public:
    TimePoint now{};
    CoordinatorState state;
};

using Lines = std::vector<std::string>;

TEST(Coordinator, EveryOrderOfArrivalGivesTheSameRun) {
    std::vector<std::uint32_t> order(3);
    std::iota(order.begin(), order.end(), 0u);
    do {
        Play play(3);
        const auto last_of = [&](auto&& say) {
            Lines said;
            for (std::uint32_t site : order) {
                EXPECT_TRUE(said.empty());
                said = say(site);
            }
            return said;
        };
        EXPECT_EQ(last_of([&](auto s) { return play.hear(s, hello(s, 3)); }),
                  (Lines{"START to 0||1 hears 0|2 hears 0", "START to 1|0 hears 1||2 hears 1",
                         "START to 2|0 hears 2|1 hears 2|"}));
        for (int round = 0; round < 2; ++round) {
            const StateHash result = round == 0 ? kNext : kOther;
            EXPECT_EQ(last_of([&](auto s) { return play.ready(s); }),
                      (Lines{"BEGIN to 0", "BEGIN to 1", "BEGIN to 2"}));
            EXPECT_EQ(last_of([&](auto s) { return play.vote(s, result); }),
                      (Lines{"COMMIT to 0", "COMMIT to 1", "COMMIT to 2"}));
            EXPECT_EQ(play.state.round, Round(round + 1u));
            EXPECT_EQ(play.state.state, result);
        }
        Lines said;
        for (std::uint32_t site : order) said = play.hear(site, Leave{});
        EXPECT_EQ(said, (Lines{fmt::format("FAREWELL to {}", order.back()), "end"}));
    } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Coordinator, WeightsAreEqualAndInSiteOrder) {
    Play play(2);
    play.join();
    play.ready(1);
    const auto actions = step(
        play.state, HeardFrom{SiteId(0), Ready{.round = Round(0), .anchor = kInitial}}, play.now);
    const auto& begin = std::get<Begin>(std::get<SayTo>(actions.at(0)).message);
    EXPECT_EQ(begin.contributors, (std::vector<SiteId>{SiteId(0), SiteId(1)}));
    EXPECT_EQ(begin.weights, (std::vector<float>{1, 1}));
}

TEST(Coordinator, RepeatedMessagesGetTheirAnswerAgain) {
    Play play(2);
    EXPECT_EQ(play.hear(0, hello(0, 2)), Lines{});
    EXPECT_EQ(play.hear(0, hello(0, 2)), Lines{});
    play.hear(1, hello(1, 2));
    EXPECT_EQ(play.hear(0, hello(0, 2)), Lines{"START to 0||1 hears 0"});
    play.ready(0);
    EXPECT_EQ(play.ready(0), Lines{});
    play.ready(1);
    EXPECT_EQ(play.ready(0), Lines{"BEGIN to 0"});
    play.vote(0, kNext);
    EXPECT_EQ(play.vote(0, kNext), Lines{});
    EXPECT_EQ(play.ready(0), Lines{});  // an echo of what its vote has answered
    play.vote(1, kNext);
    EXPECT_EQ(play.hear(0, Vote{.round = Round(0), .result = kNext}), Lines{"COMMIT to 0"});
    EXPECT_EQ(play.hear(0, Ready{.round = Round(0), .anchor = kInitial}), Lines{});
    EXPECT_EQ(play.hear(0, Leave{}), Lines{"FAREWELL to 0"});
    EXPECT_EQ(play.hear(0, Leave{}), Lines{"FAREWELL to 0"});
}

TEST(Coordinator, ASilentSiteEndsTheRunByName) {
    Play play(3);
    play.join();
    play.tick_after(0s);
    play.now += 10s;
    play.hear(0, Beat{1});
    play.hear(2, Beat{1});
    EXPECT_EQ(play.tick_after(5s), (Lines{"BEAT to 0", "BEAT to 1", "BEAT to 2"}));
    const std::string reason = "site 1 is lost: nothing heard of it for 15.1 s (round 0, training)";
    EXPECT_EQ(play.tick_after(100ms),
              (Lines{"STOP to 0", "STOP to 1", "STOP to 2", "end: " + reason}));
    EXPECT_EQ(play.hear(1, Beat{1}), Lines{"STOP to 1"});
    EXPECT_EQ(play.tick_after(100s), Lines{});
}

TEST(Coordinator, ASiteThatStandsStillIsAsLostAsASilentOne) {
    Play play(2);
    play.join();
    play.ready(0);
    // Site 1 is slow: it lives and moves, for as long as it likes.
    std::uint64_t steps = 0;
    const auto live = [&](int seconds, bool moves) {
        Lines said;
        for (int i = 0; i < seconds; ++i) {
            if (moves) ++steps;
            play.hear(0, Beat{0});
            play.hear(1, Beat{steps});
            said = play.tick_after(1s);
            if (play.state.phase == CoordinatorState::Phase::kEnded) break;
        }
        return said;
    };
    EXPECT_EQ(live(300, true), (Lines{"BEAT to 0", "BEAT to 1"}));
    EXPECT_EQ(live(59, false), (Lines{"BEAT to 0", "BEAT to 1"}));
    EXPECT_EQ(live(2, false).back(), "end: site 1 stands still for 61.0 s (round 0, barrier)");
}

TEST(Coordinator, NobodyWaitsForASiteWhileNobodyIsReady) {
    Play play(2);
    play.join();
    for (int i = 0; i < 1000; ++i) {  // one step takes longer than the budget
        play.hear(0, Beat{5});
        play.hear(1, Beat{5});
        play.tick_after(1s);
    }
    EXPECT_NE(play.state.phase, CoordinatorState::Phase::kEnded);
}

TEST(Coordinator, DifferingResultsEndTheRunUnapplied) {
    Play play(3);
    play.join();
    play.all_ready();
    play.vote(2, kOther);
    play.vote(0, kNext);
    EXPECT_EQ(
        play.vote(1, kNext).back(),
        "end: round 0: the result of site 2 differs from that of site 0; nothing was applied");
    EXPECT_EQ(play.state.round, Round(0));
}

TEST(Coordinator, ReadyFromAnotherStateIsNotAveraged) {
    Play play(2);
    play.join();
    EXPECT_EQ(play.hear(1, Ready{.round = Round(0), .anchor = kOther}).size(), 3u);
    EXPECT_EQ(play.state.stop_reason,
              fmt::format("site 1 is at round 0 with state {:.16}, the run at round 0 with {:.16}",
                          hex(kOther), hex(kInitial)));
}

TEST(Coordinator, SitesThatDoNotFitAreNamedAtTheStart) {
    const auto reason = [](auto&& change) {
        Play play(2);
        play.hear(0, hello(0, 2));
        Hello second = hello(1, 2);
        change(second);
        play.hear(1, second);
        return play.state.stop_reason;
    };
    EXPECT_EQ(reason([](Hello& h) { h.config_hash = 8; }),
              "site 1 and site 0 have different configurations; give all the same file");
    EXPECT_EQ(reason([](Hello& h) { h.elements = 2; }),
              "site 1 and site 0 have models of 2 and 1 parameters");
    EXPECT_EQ(reason([](Hello& h) { h.state = kOther; }),
              "site 1 and site 0 start from different parameters (model, seed or build differ)");
    EXPECT_EQ(reason([](Hello& h) { h.listens.resize(3); }),
              "site 1 expects 3 sites, the coordinator 2");
    EXPECT_EQ(reason([](Hello&) {}), "");
}

TEST(Coordinator, AMissingSiteIsNamedAfterTheJoinBudget) {
    Play play(3);
    play.hear(0, hello(0, 3));
    play.hear(2, hello(2, 3));
    play.now += 600s;
    play.hear(0, hello(0, 3));
    play.hear(2, hello(2, 3));
    EXPECT_EQ(play.tick_after(1ms).back(), "end: site 1 did not come within 600 s");
}

TEST(Coordinator, ARestartedOrLeavingSiteEndsTheRun) {
    {
        Play play(2);
        play.join();
        Hello again = hello(1, 2);
        again.incarnation = 5;
        EXPECT_EQ(play.hear(1, again).back(),
                  "end: site 1 was lost and started again; this build cannot take it back");
    }
    {
        Play play(2);
        play.join();
        EXPECT_EQ(play.hear(1, Leave{"interrupted"}).back(), "end: site 1 left: interrupted");
    }
    {
        Play play(2);
        play.join();
        play.hear(1, Leave{});
        EXPECT_EQ(play.ready(0).back(), "end: site 1 ended before round 0, which others wait for");
    }
}

TEST(JudgeGate, OpensABeatAfterTheLoopStoodStill) {
    TimePoint now{};
    JudgeGate gate(kBudget, now);
    EXPECT_TRUE(gate.open(now));
    EXPECT_TRUE(gate.open(now += 7s));
    EXPECT_FALSE(gate.open(now += 8s));  // more than half of what makes a peer lost
    EXPECT_FALSE(gate.open(now += 999ms));
    EXPECT_TRUE(gate.open(now += 1ms));
}

TEST(Coordinator, BeatsButFindsNobodySilentAfterItStoodStill) {
    Play play(1);
    play.join();
    play.now += 100s;
    EXPECT_EQ(lines(step(play.state, Tick{.judge = false}, play.now)), Lines{"BEAT to 0"});
}

TEST(Coordinator, QuitTellsEveryone) {
    Play play(2);
    play.hear(1, hello(1, 2));
    EXPECT_EQ(lines(step(play.state, Quit{"interrupted"}, play.now)),
              (Lines{"STOP to 1", "end: interrupted"}));
}

}  // namespace
}  // namespace isthmus::outer
