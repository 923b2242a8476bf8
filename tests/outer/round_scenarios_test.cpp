// Faults within rounds that broke other training systems, as scripts of the coordinator's step
// function. Numbers are rows of the list of scenarios (tests/README.md says which row is which
// test).
#include "tests/outer/support/script.hpp"

namespace isthmus::outer {
namespace {

using test::hash_of;
using test::Script;
using namespace std::chrono_literals;
using Names = std::vector<std::string>;

// 7: a peer dies in mid exchange. The others have a new attempt within the time of silence, not of
// a round; within a quarter of it if its connection broke.
TEST(Scenario, ADeathInTheExchangeIsKnownByTheHeartbeat) {
    for (bool broke : {false, true}) {
        Script s;
        s.come_all();
        s.ready_all();
        const Attempt first = s.state.begin->attempt;
        s.vote("paris", hash_of(2));
        s.sites["lima"].alive = false;
        if (broke) s.event(Disconnected{"lima"});
        s.pass(s.options.budget.silence() / (broke ? 4 : 1) + 2s);
        ASSERT_TRUE(s.state.begin);
        EXPECT_NE(s.state.begin->attempt, first);
        // 18: the divisor is the new attempt's.
        s.vote_all();
        EXPECT_EQ(s.contributors(0), (Names{"paris", "oslo"}));
        EXPECT_EQ(s.records<CommitRecord>()[0].divisor, 2 * 320.0f);
    }
}

// The counter of attempts begins again at one: the incarnation tells the two apart.
TEST(Scenario, AnAttemptOfTheCoordinatorBeforeIsNotTakenForThisOne) {
    Script s;
    s.come_all();
    s.ready_all();
    const Attempt before = s.state.begin->attempt;
    s.restart();
    for (const auto& name : s.options.sites) s.hello(name);
    s.ready_all();
    EXPECT_EQ(s.state.begin->attempt.counter, before.counter);
    EXPECT_GT(s.state.begin->attempt, before);
    for (const auto& name : s.options.sites) {
        Vote old;
        old.attempt = before;
        old.result = hash_of(2);
        s.say(name, old);
    }
    EXPECT_EQ(s.commits(), 0u);
    s.vote_all();
    EXPECT_EQ(s.commits(), 1u);
}

// 17, 19: every attempt fails. Nobody takes a step of its own: the meeting is given up, nothing is
// committed, leases stay, and the next cut covers both intervals.
TEST(Scenario, WhenAllAttemptsFailNothingIsApplied) {
    Script s(test::script_options({"paris", "oslo"}));
    s.come_all();
    const StateName start = s.state.newest;
    s.ready_all();
    for (std::uint32_t i = 0; i < s.options.max_attempts; ++i) {
        ASSERT_TRUE(s.state.begin);
        s.vote("paris", hash_of(9));
        s.vote("oslo", {}, {});
    }
    EXPECT_EQ(s.records<AbandonRecord>().size(), 1u);
    EXPECT_EQ(s.commits(), 0u);
    EXPECT_EQ(s.state.newest, start);
    EXPECT_EQ(s.heard<Abandon>("paris").size(), 1u);
    EXPECT_TRUE(s.heard<Commit>("paris").empty());
    EXPECT_EQ(s.state.ledger.leased_samples(), 2u * 80u);
    s.expect_one_lineage();
}

// 19: who is lost with an exchange in flight voids its attempt; votes for it come to nothing. Who
// joins meanwhile voids none.
TEST(Scenario, MembershipThatChangesInAnExchange) {
    Script s;
    s.come_all();
    s.round();
    s.sites["lima"].alive = false;
    s.ready("paris");
    s.ready("oslo");
    s.pass(s.options.budget.silence() + 2s);
    const Begin open = *s.state.begin;
    s.come("lima", s.state.newest);
    EXPECT_EQ(s.state.begin->attempt, open.attempt);
    s.event(Operate{Operate::What::kDrop, "oslo"});
    ASSERT_TRUE(s.state.begin);
    EXPECT_NE(s.state.begin->attempt, open.attempt);
    Vote late;
    late.attempt = open.attempt;
    late.result = hash_of(3);
    s.say("paris", late);
    s.say("oslo", late);
    EXPECT_EQ(s.commits(), 1u);
    s.vote_all();
    EXPECT_EQ(s.contributors(1), Names{"paris"});
}

// 25: one site at a quarter of the others' rate owns what its link can carry, so that the round
// takes what that link needs and no multiple.
TEST(Scenario, SharesFollowTheSlowestLink) {
    Script s;
    s.come_all();
    for (auto& [name, p] : s.sites) p.figures.up_bytes_per_s = p.figures.down_bytes_per_s = 4e6;
    s.sites["oslo"].figures.up_bytes_per_s = 1e6;
    s.ready_all();
    double slowest = 0;
    for (const Participant& p : s.state.begin->participants) {
        const double rate = p.peer.name == "oslo" ? 1e6 : 4e6;
        slowest = std::max(slowest, (1.0 + static_cast<double>(p.share)) / rate);
        EXPECT_EQ(p.share < 0.1f, p.peer.name == "oslo");
    }
    EXPECT_NEAR(slowest, 1.0 / 1e6, 1e-9);
}

// 24: numbers of one site are not finite, as a receiver saw them: out of the round, and back.
TEST(Scenario, NumbersThatAreNotFiniteExcludeTheirSiteAlone) {
    Script s;
    s.come_all();
    s.ready_all();
    Vote v;
    v.attempt = s.state.begin->attempt;
    v.inputs = {{.site = s.id("oslo"), .finite = false, .sum_of_squares = 0}};
    s.say("paris", v);
    EXPECT_EQ(s.said("site oslo is lost: its numbers are not finite", true), 1u);
    s.vote_all();
    EXPECT_EQ(s.contributors(0), (Names{"paris", "lima"}));
    EXPECT_EQ(s.state.ledger.leases_of(s.id("oslo")).size(), 0u);
}

// 28: a transfer that is slow but moves lives; one that stands is given up within the budget.
TEST(Scenario, ASlowExchangeThatMovesIsWaitedFor) {
    Script s;
    s.come_all();
    s.ready_all();
    const Attempt attempt = s.state.begin->attempt;
    s.vote("paris", hash_of(2));
    s.vote("oslo", hash_of(2));
    s.pass(20 * s.options.budget.round);
    ASSERT_TRUE(s.state.begin);
    EXPECT_EQ(s.state.begin->attempt, attempt);
    s.sites["lima"].moves = false;
    s.pass(s.options.budget.round + 2s);
    // All others hold the result: it counts, and the run goes on without it.
    EXPECT_EQ(s.contributors(0), (Names{"paris", "oslo", "lima"}));
    EXPECT_EQ(s.site("lima").standing, CoordinatorState::Standing::kAbsent);
}

// 30: days of rounds. What the coordinator keeps does not grow, but for the journal.
TEST(Scenario, TenThousandRoundsKeepNoMore) {
    auto options = test::script_options();
    options.meetings.clear();
    for (std::int64_t step = 1; step <= 12'000; ++step) options.meetings.push_back(step);
    Script s(options);
    s.come_all();
    for (int i = 0; i < 10'000; ++i) {
        s.ready_all();
        const Begin b = *s.state.begin;
        for (const Participant& p : b.participants) {
            Vote v;
            v.attempt = b.attempt;
            v.result = hash_of(static_cast<int>(b.from.round.value) + 2);
            for (const Participant& q : b.participants)
                v.inputs.push_back({.site = q.peer.site, .finite = true, .sum_of_squares = 1});
            s.say(p.peer.name, v);
        }
        if (i % 100 == 50) {  // and someone comes back
            s.come("lima", s.state.newest, true);
        }
        for (auto& [name, place] : s.sites) place.heard.clear();
        s.log.clear();
        s.journal.erase(s.journal.begin(), s.journal.end());
    }
    EXPECT_EQ(s.state.newest.round, Round(10'000));
    EXPECT_EQ(s.state.sites.size(), 3u);
    EXPECT_LE(s.state.norms.size(), 64u);
    EXPECT_LE(s.state.ledger.committed().ranges().size(), 8u);
    EXPECT_LE(s.state.ledger.skipped().ranges().size(), 8u);
    EXPECT_TRUE(s.state.unconnected.empty());
}

// 41: a tiny batch at one site: its contribution weighs what it is, and is recorded.
TEST(Scenario, ATinyContributionWeighsWhatItIs) {
    Script s(test::script_options({"paris", "oslo"}));
    s.come_all();
    s.ready("paris");
    Ready tiny = s.cut("oslo");
    tiny.trained = {{tiny.trained[0].first, 1}};
    tiny.tokens = 8;
    s.say("oslo", tiny);
    s.vote_all();
    const CommitRecord commit = s.records<CommitRecord>().at(0);
    EXPECT_EQ(commit.contributors[0].weight, 320.0f);
    EXPECT_EQ(commit.contributors[1].weight, 8.0f);
    EXPECT_EQ(commit.contributors[1].tokens, 8u);
    EXPECT_EQ(commit.divisor, 328.0f);
}

// 47: a step takes four minutes, four times the round's budget. Nobody is dropped for it, neither
// in the first interval, when no one knows how long steps take, nor later.
TEST(Scenario, AStepOfFourMinutesDropsNobody) {
    Script s(test::script_options({"paris", "oslo"}));
    s.come_all();
    for (std::size_t round = 0; round < 2; ++round) {
        s.ready("paris");
        for (int step = 0; step < 10; ++step) {
            s.sites["oslo"].moves = false;
            s.pass(240s);
            s.sites["oslo"].moves = true;
            s.pass(1s);
        }
        s.sites["oslo"].figures.steps_per_s = 1.0 / 240;
        s.ready("oslo");
        s.vote_all();
        EXPECT_EQ(s.contributors(round).size(), 2u);
    }
    EXPECT_EQ(s.said("is lost"), 0u);
}

// Old messages that come again: a HELLO, a READY, a VOTE, a beat of rounds ago change nothing.
TEST(Scenario, OldMessagesThatComeAgainChangeNothing) {
    Script s;
    s.come_all();
    std::vector<std::pair<std::string, Message>> old;
    for (const auto& name : s.options.sites) {
        Hello h;
        h.name = name;
        h.incarnation = s.sites[name].life;
        h.state = s.sites[name].state;
        h.count = 1;
        old.emplace_back(name, h);
        SiteBeat beat;
        beat.state = s.sites[name].state;
        old.emplace_back(name, beat);
    }
    for (const auto& name : s.options.sites) {
        old.emplace_back(name, s.cut(name));
        s.say(name, old.back().second);
    }
    for (const auto& name : s.options.sites) {
        Vote v;
        v.attempt = s.state.begin->attempt;
        v.result = hash_of(2);
        old.emplace_back(name, v);
    }
    s.vote_all();
    for (int i = 0; i < 2; ++i) s.round();
    for (int phase = 0; phase < 3; ++phase) {
        if (phase == 1) s.ready("paris");
        if (phase == 2) s.ready_all();
        const auto records = s.journal.size();
        const auto newest = s.state.newest;
        const auto begun = s.state.begin;
        for (const auto& [name, message] : old) s.say(name, message);
        EXPECT_EQ(s.journal.size(), records);
        EXPECT_EQ(s.state.newest, newest);
        EXPECT_EQ(s.state.begin.has_value(), begun.has_value());
        EXPECT_EQ(s.said("is lost"), 0u);
    }
    s.vote_all();
    EXPECT_EQ(s.contributors(3).size(), 3u);
    s.expect_one_lineage();
}

}  // namespace
}  // namespace isthmus::outer
