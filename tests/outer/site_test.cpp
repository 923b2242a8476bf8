// Scripted events: what a site says and does.
#include "outer/site.hpp"

#include <cmath>

#include "outer/outer_step.hpp"

namespace isthmus::outer {
namespace {

using namespace std::chrono_literals;

const StateHash kInitial = hash_state(std::vector<float>{1});
const StateHash kNext = hash_state(std::vector<float>{2});
const Budget kBudget{.round = 60s, .join = 600s};  // silence 15 s, beat 1 s

Begin begin(Round round) {
    return {.round = round, .contributors = {SiteId(0), SiteId(1)}, .weights = {1, 1}};
}

using Lines = std::vector<std::string>;
using Phase = SiteState::Phase;

class Play {
  public:
    Play() : state(make_site(SiteId(1), kBudget, {.state = kInitial, .listens = {"x", ""}}, now)) {}
    Lines on(const SiteEvent& event) {
        Lines out;
        for (const auto& action : step(state, event, now)) {
            if (const auto* say = std::get_if<Say>(&action)) {
                static const char* names[] = {"HELLO",  "START", "READY",    "BEGIN", "VOTE",
                                              "COMMIT", "LEAVE", "FAREWELL", "STOP",  "BEAT"};
                out.push_back(names[say->message.index()]);
            } else if (const auto* end = std::get_if<End>(&action)) {
                out.push_back(end->good ? "end" : "end: " + end->reason);
            } else {
                static const char* names[] = {"", "joined", "exchange", "apply"};
                out.push_back(names[action.index()]);
            }
        }
        return out;
    }
    Lines hear(Message message) { return on(Heard{std::move(message)}); }
    Lines tick_after(std::chrono::milliseconds passed) {
        now += passed;
        return on(SiteTick{1});
    }
    void to_vote() {
        hear(Start{{"y", ""}});
        on(Cut{16});
        hear(begin(state.round));
        on(Exchanged{kNext});
    }

    TimePoint now{};
    SiteState state;
};

TEST(Site, ARunFromHelloToFarewell) {
    Play play;
    EXPECT_EQ(play.tick_after(0s), Lines{"HELLO"});
    EXPECT_EQ(play.hear(Start{{"y", ""}}), Lines{"joined"});
    for (std::uint64_t round = 0; round < 2; ++round) {
        EXPECT_EQ(play.on(Cut{16}), Lines{"READY"});
        EXPECT_EQ(play.hear(begin(Round(round))), Lines{"exchange"});
        EXPECT_EQ(play.on(Exchanged{kNext}), Lines{"VOTE"});
        EXPECT_EQ(play.hear(Commit{.round = Round(round), .result = kNext}), Lines{"apply"});
        EXPECT_EQ(play.state.anchor, kNext);
    }
    EXPECT_EQ(play.on(Finish{}), Lines{"LEAVE"});
    EXPECT_EQ(play.hear(Farewell{}), Lines{"end"});
    EXPECT_EQ(play.tick_after(100s), Lines{});
}

TEST(Site, NothingIsAppliedWithoutItsCommit) {
    Play play;
    play.to_vote();
    EXPECT_EQ(play.hear(Commit{.round = Round(1), .result = kNext}), Lines{});
    EXPECT_EQ(play.hear(begin(Round(0))), Lines{});
    EXPECT_EQ(play.state.phase, Phase::kVoted);
    const auto said = play.hear(Commit{.round = Round(0), .result = kInitial});
    ASSERT_EQ(said.size(), 1u);
    EXPECT_EQ(said[0], fmt::format("end: round 0 was committed as {:.16}, this site has {:.16}",
                                   hex(kInitial), hex(kNext)));
    EXPECT_EQ(play.state.round, Round(0));
}

TEST(Site, RepeatsItselfAtEachBeatUntilAnswered) {
    Play play;
    play.tick_after(0s);
    EXPECT_EQ(play.tick_after(999ms), Lines{});
    EXPECT_EQ(play.tick_after(1ms), Lines{"HELLO"});
    play.hear(Start{{"y", ""}});
    EXPECT_EQ(play.tick_after(1s), Lines{"BEAT"});
    play.on(Cut{1});
    EXPECT_EQ(play.tick_after(1s), Lines{"READY"});
    play.hear(begin(Round(0)));
    EXPECT_EQ(play.tick_after(1s), Lines{"BEAT"});
    play.on(Exchanged{kNext});
    EXPECT_EQ(play.tick_after(1s), Lines{"VOTE"});
    // Echoes change nothing.
    EXPECT_EQ(play.hear(Start{{"y", ""}}), Lines{});
    play.hear(Commit{.round = Round(0), .result = kNext});
    EXPECT_EQ(play.hear(Commit{.round = Round(0), .result = kNext}), Lines{});
    EXPECT_EQ(play.state.round, Round(1));
}

TEST(Site, ASilentCoordinatorIsLost) {
    Play play;
    play.hear(Start{{"y", ""}});
    play.tick_after(14s);
    play.hear(Beat{});
    EXPECT_EQ(play.tick_after(15s), Lines{"BEAT"});
    EXPECT_EQ(play.tick_after(100ms),
              Lines{"end: the coordinator is lost: nothing heard of it for 15.1 s"});
    EXPECT_EQ(play.on(Cut{1}), Lines{});
}

TEST(Site, BeatsButFindsNobodySilentAfterItStoodStill) {
    Play play;
    play.hear(Start{{"y", ""}});
    play.now += 100s;
    EXPECT_EQ(play.on(SiteTick{.progress = 1, .judge = false}), Lines{"BEAT"});
}

TEST(Site, WaitsForTheOthersAsLongAsTheJoinBudget) {
    Play play;
    EXPECT_EQ(play.tick_after(600s), Lines{"HELLO"});
    EXPECT_EQ(play.tick_after(1ms),
              Lines{"end: the run did not start within 600.0 s: the coordinator or another site is "
                    "missing"});
}

TEST(Site, ARoundThatIsNoMeanOverAllIsRefused) {
    const auto refusal = [](auto&& change) {
        Play play;
        play.hear(Start{{"y", ""}});
        play.on(Cut{1});
        Begin wrong = begin(Round(0));
        change(wrong);
        return play.hear(wrong);
    };
    const Lines refused{"LEAVE", "end: round 0 would not be a mean over all 2 sites"};
    EXPECT_EQ(refusal([](Begin&) {}), Lines{"exchange"});
    EXPECT_EQ(refusal([](Begin& b) { b.contributors.pop_back(); }), refused);
    EXPECT_EQ(refusal([](Begin& b) { b.weights.push_back(1); }), refused);
    EXPECT_EQ(refusal([](Begin& b) { std::swap(b.contributors[0], b.contributors[1]); }), refused);
    EXPECT_EQ(refusal([](Begin& b) { b.weights = {0, 0}; }), refused);
    EXPECT_EQ(refusal([](Begin& b) { b.weights[1] = NAN; }), refused);
}

TEST(Site, StopEndsItInEveryPhase) {
    for (int phase = 0; phase < 4; ++phase) {
        Play play;
        if (phase > 0) play.hear(Start{{"y", ""}});
        if (phase > 1) play.on(Cut{1});
        if (phase > 2) play.hear(begin(Round(0)));
        EXPECT_EQ(play.hear(Stop{"site 0 is lost"}), Lines{"end: site 0 is lost"});
        EXPECT_EQ(play.state.phase, Phase::kEnded);
    }
}

TEST(Site, QuitTellsTheCoordinatorWhy) {
    Play play;
    play.hear(Start{{"y", ""}});
    EXPECT_EQ(play.on(Quit{"interrupted"}), (Lines{"LEAVE", "end: interrupted"}));
}

}  // namespace
}  // namespace isthmus::outer
