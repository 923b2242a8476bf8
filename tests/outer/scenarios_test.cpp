// Faults that broke other training systems, as scripts of the coordinator's and the site's step
// functions. Numbers are rows of the list of scenarios (tests/README.md says which row is which
// test).
#include "outer/simulator.hpp"
#include "outer/site.hpp"
#include "tests/outer/support/script.hpp"

namespace isthmus::outer {
namespace {

using test::hash_of;
using test::Script;
using test::script_options;
using namespace std::chrono_literals;
using Names = std::vector<std::string>;
using Standing = CoordinatorState::Standing;
using Phase = CoordinatorState::Phase;

// 2: starts 20 minutes apart, speeds 1:4. No silent solo rounds, and who took part is said.
TEST(Scenario, StartsApartAndUnequalSpeedsMakeNoSoloRounds) {
    auto options = script_options({"paris", "oslo"});
    options.budget.join = 1'800s;
    Script s(options);
    s.come("paris");
    s.pass(1'200s);
    EXPECT_FALSE(s.sites["paris"].work);
    EXPECT_TRUE(s.records<GrantRecord>().empty());
    s.come("oslo");
    s.sites["paris"].figures.steps_per_s = 0.4;
    s.sites["oslo"].figures.steps_per_s = 0.1;
    for (std::size_t round = 0; round < 3; ++round) {
        s.ready("paris");
        s.pass(75s);  // longer than the round's budget, but oslo's steps go on
        EXPECT_EQ(s.commits(), round);
        s.ready("oslo");
        s.vote_all();
        EXPECT_EQ(s.contributors(round), (Names{"paris", "oslo"}));
    }
    EXPECT_EQ(s.said("2 of 2 sites"), 3u);
    // Bounded: a site that is gone is not waited for, and the round that is then alone says so.
    s.sites["oslo"].alive = false;
    s.ready("paris");
    s.pass(s.options.budget.silence() + 2s);
    s.vote_all();
    EXPECT_EQ(s.contributors(3), Names{"paris"});
    EXPECT_EQ(s.said("1 of 2 sites", true), 1u);
    s.expect_one_lineage();
}

// 4: long local phases. Two subsets never take turns: the barrier waits for whoever moves.
TEST(Scenario, LongPhasesNeverSplitTheSitesInTwo) {
    Script s(script_options({"a", "b", "c", "d"}));
    s.come_all();
    for (auto& [name, place] : s.sites) place.figures.steps_per_s = 1;
    for (std::size_t round = 0; round < 4; ++round) {
        const bool odd = round % 2 == 1;
        for (const char* name : {odd ? "c" : "a", odd ? "d" : "b"}) s.ready(name);
        s.pass(300s);
        EXPECT_EQ(s.state.phase, Phase::kBarrier);
        for (const char* name : {odd ? "a" : "c", odd ? "b" : "d"}) s.ready(name);
        s.vote_all();
        EXPECT_EQ(s.contributors(round).size(), 4u);
    }
    s.expect_one_lineage();
}

// 5, 10: a member dies while it waits in the barrier. The ghost expires; what it contributed does
// not count, and its samples go to the others.
TEST(Scenario, AGhostInTheBarrierExpires) {
    Script s;
    s.come_all();
    s.ready("paris");
    s.sites["paris"].alive = false;
    s.pass(s.options.budget.silence() + 2s);
    EXPECT_EQ(s.site("paris").standing, Standing::kAbsent);
    EXPECT_EQ(s.said("site paris is lost: nothing heard of it", true), 1u);
    s.ready("oslo");
    s.ready("lima");
    s.vote_all();
    EXPECT_EQ(s.contributors(0), (Names{"oslo", "lima"}));
    // 39: the ghost's samples are leased first.
    const auto grants = s.records<GrantRecord>();
    EXPECT_EQ(grants.at(3).samples.at(0), grants.at(0).samples.at(0));
}

// 6: another run's journal under this folder.
TEST(Scenario, AJournalOfAnotherRunIsRefused) {
    Script s;
    s.come_all();
    auto other = s.options;
    other.run = 8;
    const auto made = make_coordinator(other, s.journal, {}, s.now);
    ASSERT_FALSE(made);
    EXPECT_NE(made.error().message.find("is of run 0000000000000007"), std::string::npos);
}

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

// 8, 49: the coordinator is killed in mid round, in each of its phases. Restarted it takes its
// members back from the journal, with their cuts, and the history goes on.
TEST(Scenario, ARestartedCoordinatorAdoptsItsSites) {
    for (int phase = 0; phase < 3; ++phase) {
        SCOPED_TRACE(phase);
        Script s;
        s.come_all();
        s.round();
        const auto leases = s.sites["oslo"].work->samples;
        if (phase >= 1) s.ready("paris");
        if (phase >= 2) s.ready_all();
        s.restart();
        EXPECT_EQ(s.state.newest.round, Round(1));
        EXPECT_EQ(s.state.ledger.committed().size(), 120u);
        for (const auto& name : s.options.sites) {
            s.hello(name);
            EXPECT_TRUE(s.heard<Welcome>(name).back().member);
        }
        EXPECT_EQ(s.sites["oslo"].work->samples, leases);
        s.round();
        EXPECT_EQ(s.contributors(1).size(), 3u);
        EXPECT_TRUE(s.records<LeaveRecord>().empty());
        s.expect_one_lineage();
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

// 11, 20, 46: one site hangs at the barrier: it says that it lives, and does nothing. It is dropped
// once, the others finish, it comes back under its name and gets work.
TEST(Scenario, AHangingSiteIsDroppedOnceAndRejoins) {
    Script s;
    s.come_all();
    s.round();
    for (auto& [name, place] : s.sites) place.figures.steps_per_s = 1;
    s.round();
    s.sites["lima"].moves = false;
    s.ready("paris");
    s.ready("oslo");
    s.pass(s.options.budget.round + 2s);
    EXPECT_EQ(s.said("site lima is lost: it stands still", true), 1u);
    s.vote_all();
    EXPECT_EQ(s.contributors(2), (Names{"paris", "oslo"}));
    // It did not know; now that it moves it is asked who it is, and catches up with one result.
    s.sites["lima"].moves = true;
    s.sites["lima"].heard.clear();
    s.pass(1s);
    EXPECT_FALSE(s.heard<Identify>("lima").empty());
    s.hello("lima");
    EXPECT_FALSE(s.heard<Welcome>("lima").back().member);
    s.sites["lima"].state = s.state.newest;
    s.round();
    ASSERT_TRUE(s.sites["lima"].work);
    s.round();
    EXPECT_EQ(s.contributors(4).size(), 3u);
    EXPECT_EQ(s.said("is lost"), 1u);
    s.expect_one_lineage();
}

// 20: a site that is one round behind takes part as soon as it has fetched that one, though it
// never holds the newest when it asks.
TEST(Scenario, OneThatIsAlwaysOneBehindConverges) {
    Script s;
    s.come_all();
    s.round();
    s.come("lima", s.state.newest);
    s.round();
    EXPECT_EQ(s.contributors(1), (Names{"paris", "oslo"}));
    // The commit that it still has to fetch brings its work.
    EXPECT_TRUE(s.heard<Commit>("lima").back().next);
    s.round();
    EXPECT_EQ(s.contributors(2).size(), 3u);
}

// 13: the first site is no more than the others.
TEST(Scenario, TheFirstSiteMayDie) {
    Script s;
    s.come_all();
    s.round();
    for (const char* when : {"training", "barrier", "exchange"}) {
        SCOPED_TRACE(when);
        if (when[0] != 't') s.ready("paris");
        if (when[0] == 'e') s.ready_all();
        s.sites["paris"].alive = false;
        s.pass(s.options.budget.silence() + 2s);
        if (!s.state.begin) s.ready_all();
        s.vote_all();
        EXPECT_EQ(s.contributors(s.commits() - 1), (Names{"oslo", "lima"}));
        s.come("paris", s.state.newest);
        s.sites["paris"].moments = true;
        s.round();
        s.round();
        EXPECT_EQ(s.contributors(s.commits() - 1).size(), 3u);
    }
    s.expect_one_lineage();
}

// 14: one site where two are named. It ends after the join budget, and names who is missing; until
// then it says so.
TEST(Scenario, AWaitForASiteThatDoesNotComeIsSaidAndBounded) {
    Script s(script_options({"paris", "oslo"}));
    s.come("paris");
    s.pass(120s);
    EXPECT_GE(s.said("waiting for oslo"), 1u);
    EXPECT_LE(s.said("waiting for oslo"), 10u);
    EXPECT_FALSE(s.end);
    s.pass(s.options.budget.join);
    ASSERT_TRUE(s.end);
    EXPECT_FALSE(s.end->good);
    EXPECT_NE(s.end->reason.find("oslo is not here"), std::string::npos) << s.end->reason;
    EXPECT_EQ(s.heard<Stop>("paris").back().reason, s.end->reason);
}

// 14: the same later in the run, with min_sites = 2.
TEST(Scenario, TooFewSitesIsSaidAndBounded) {
    auto options = script_options({"paris", "oslo"});
    options.min_sites = 2;
    Script s(options);
    s.come_all();
    s.round();
    s.sites["oslo"].alive = false;
    s.ready("paris");
    s.pass(120s);
    EXPECT_EQ(s.commits(), 1u);
    EXPECT_GE(s.said("waiting for"), 1u);
    s.pass(s.options.budget.join);
    ASSERT_TRUE(s.end);
    EXPECT_NE(s.end->reason.find("min_sites = 2"), std::string::npos) << s.end->reason;
}

// 17, 19: every attempt fails. Nobody takes a step of its own: the meeting is given up, nothing is
// committed, leases stay, and the next cut covers both intervals.
TEST(Scenario, WhenAllAttemptsFailNothingIsApplied) {
    Script s(script_options({"paris", "oslo"}));
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
    EXPECT_EQ(s.site("lima").standing, Standing::kAbsent);
}

// 32, 33: a copy comes only from who holds the newest state, as long as it moves whatever its size,
// and from another donor if the first dies (31). Others commit meanwhile (slow joiner).
TEST(Scenario, AJoinerIsGivenTheTimeThatItsCopyTakes) {
    Script s(script_options({"a", "b", "c", "d"}));
    s.come_all();
    for (int i = 0; i < 3; ++i) s.round();
    s.sites["d"].alive = false;
    s.pass(s.options.budget.silence() + 2s);
    StateName initial;
    initial.hash = hash_of(1);
    s.come("d", initial);
    s.come("c", initial);  // it holds nothing that d could use
    ASSERT_TRUE(s.state.restoring);
    const SiteId joiner = s.state.restoring->joiner;
    EXPECT_EQ(s.state.restoring->asked, (std::vector{s.id("a"), s.id("b")}));
    EXPECT_TRUE(s.heard<Pin>("c").empty());
    EXPECT_TRUE(s.heard<Pin>("d").empty());
    for (const char* donor : {"a", "b"}) s.say(donor, Pinned{s.state.newest, 30});
    ASSERT_EQ(s.heard<Restore>("d").back().donors.size(), 2u);
    const StateName copy = s.state.restoring->state;
    for (int i = 0; i < 10; ++i) {
        s.pass(s.options.budget.round);
        s.round();
    }
    ASSERT_TRUE(s.state.restoring);
    EXPECT_EQ(s.state.restoring->joiner, joiner);
    EXPECT_EQ(s.state.restoring->state, copy);
    EXPECT_EQ(s.commits(), 13u);
    // One donor dies: the other goes on with the same copy; without moments it is any donor.
    s.sites["a"].alive = false;
    s.pass(s.options.budget.silence() + 2s);
    ASSERT_TRUE(s.state.restoring);
    // It does not move any more: begun again, said loudly.
    s.sites["d"].moves = s.sites["c"].moves = false;
    s.pass(s.options.budget.round + 5s);
    EXPECT_GE(s.said("does not move; it is begun again", true), 1u);
    s.expect_one_lineage();
}

// 30: days of rounds. What the coordinator keeps does not grow, but for the journal.
TEST(Scenario, TenThousandRoundsKeepNoMore) {
    auto options = script_options();
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
            s.come("lima", s.state.newest);
            s.sites["lima"].moments = true;
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
    Script s(script_options({"paris", "oslo"}));
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
    Script s(script_options({"paris", "oslo"}));
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

// Clock jumps: a process that was itself stopped judges nobody before it has heard them.
TEST(Scenario, WhoWasStoppedItselfDropsNobody) {
    Script s;
    s.come_all();
    s.ready("paris");
    JudgeGate gate(s.options.budget, s.now);
    EXPECT_TRUE(gate.open(s.now));
    s.now += 3'600s;
    const bool judge = gate.open(s.now);
    EXPECT_FALSE(judge);
    s.event(Tick{judge});
    EXPECT_EQ(s.said("is lost"), 0u);
    s.pass(2s);
    EXPECT_TRUE(gate.open(s.now));
    EXPECT_EQ(s.said("is lost"), 0u);
    s.round();
    EXPECT_EQ(s.contributors(0).size(), 3u);
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

// 3: 32 sites, 125 faults an hour. Participation comes back, not just life: whoever is lost is in a
// round again.
TEST(Scenario, ThirtyTwoSitesUnderManyFaultsAllTakePartAgain) {
    SimulatorOptions options{.seed = 3, .sites = 32, .meetings = 60};
    options.faults = Faults::none();
    options.faults.crash_site = 2;
    options.faults.stop_site = 1;
    options.faults.lose = 0.01;
    const SimulatorResult r = simulate(options);
    ASSERT_TRUE(r.good) << r.broken;
    EXPECT_GT(r.crashes, 50u);
    EXPECT_EQ(r.rounds + r.abandoned, 60u);
    // Of 32 sites 3 are struck in a round: on the mean nine in ten take part, and all in the end.
    EXPECT_GT(static_cast<double>(r.contributions) / static_cast<double>(r.rounds), 0.75 * 32);
    EXPECT_EQ(r.last_contributors, 32u);
}

// ---- seen from a site ----

class SiteScript {
  public:
    SiteScript() {
        Hello h;
        h.name = "paris";
        h.incarnation = {1, 9};
        h.state.hash = hash_of(1);
        state = make_site(budget, h, now);
        tick();
        Welcome w;
        w.answers = 1;
        w.you = SiteId(0);
        w.coordinator = coordinator;
        w.journal = journal;
        w.newest = h.state;
        hear(w);
    }
    void event(const SiteEvent& e) {
        for (SiteAction& a : step(state, e, now)) actions.push_back(std::move(a));
    }
    void hear(Message m) { event(Heard{std::move(m)}); }
    void tick(bool judge = true) {
        SiteTick t;
        t.judge = judge;
        event(t);
    }
    void train() {
        Assign a;
        a.state = state.state;
        a.assignment.num_steps = 10;
        a.assignment.to_step = 10;
        a.assignment.samples = {{0, 40}};
        hear(a);
        event(Cut{.trained = {{0, 40}}, .skipped = {}, .tokens = 320, .figures = {}});
    }
    Begin begin(std::uint32_t counter) {
        Begin b;
        b.attempt.coordinator = coordinator.number;
        b.attempt.counter = counter;
        b.from = state.state;
        for (std::uint32_t i = 0; i < 2; ++i) {
            Participant p;
            p.peer.site = SiteId(i);
            if (i == 0) p.cut = state.ready->cut;
            p.weight = 1;
            b.participants.push_back(p);
        }
        return b;
    }
    Commit commit(const Attempt& attempt, const StateHash& result) {
        Commit c;
        c.attempt = attempt;
        c.from = state.state;
        c.to = state.state;
        c.to.round = Round(1);
        c.to.hash = result;
        c.journal = journal;
        c.journal.count = ++journal.count;
        return c;
    }
    template <class A>
    std::size_t count() const {
        std::size_t n = 0;
        for (const SiteAction& a : actions) n += std::holds_alternative<A>(a) ? 1 : 0;
        return n;
    }
    std::string ended() const {
        for (const SiteAction& a : actions) {
            if (const auto* e = std::get_if<End>(&a)) return e->reason;
        }
        return "";
    }

    Budget budget;
    Incarnation coordinator{1, 5};
    LogHead journal = [] {
        LogHead head;
        head.id = 77;
        head.count = 3;
        return head;
    }();
    TimePoint now{};
    SiteState state;
    std::vector<SiteAction> actions;
};

// 17: nothing is applied without a COMMIT of the very attempt and result that was voted for.
TEST(SiteScenario, NothingIsAppliedThatWasNotCommitted) {
    SiteScript s;
    s.train();
    s.hear(s.begin(1));
    s.event(Exchanged{.attempt = s.begin(1).attempt, .result = hash_of(2), .inputs = {}});
    const Attempt first = s.begin(1).attempt;
    Attempt other = first;
    other.counter = 2;
    s.hear(s.commit(other, hash_of(2)));
    s.hear(s.commit(first, hash_of(3)));
    EXPECT_EQ(s.count<Apply>(), 0u);
    // 18: a new attempt takes the place of the one that was voted for.
    s.hear(s.begin(2));
    EXPECT_EQ(s.count<Exchange>(), 2u);
    s.hear(s.commit(first, hash_of(2)));
    EXPECT_EQ(s.count<Apply>(), 0u);
    s.event(Exchanged{.attempt = first, .result = hash_of(2), .inputs = {}});  // the old one's
    s.hear(s.commit(first, hash_of(2)));
    EXPECT_EQ(s.count<Apply>(), 0u);
    s.event(Exchanged{.attempt = other, .result = hash_of(4), .inputs = {}});
    s.hear(s.commit(other, hash_of(4)));
    EXPECT_EQ(s.count<Apply>(), 1u);
    s.hear(s.commit(other, hash_of(4)));  // said again
    EXPECT_EQ(s.count<Apply>(), 1u);
}

// 17: after ABANDON it trains on from where its parameters are.
TEST(SiteScenario, AfterAnAbandonedMeetingItTrainsOn) {
    SiteScript s;
    s.train();
    s.hear(s.begin(1));
    Abandon a;
    a.next.meeting = Meeting(1);
    a.next.num_steps = 10;
    s.hear(a);
    s.hear(a);  // twice
    EXPECT_EQ(s.count<Discard>(), 1u);
    EXPECT_EQ(s.count<Apply>(), 0u);
    EXPECT_EQ(s.count<Hold>(), 0u);
    const auto& train = std::get<Train>(s.actions.back());
    EXPECT_FALSE(train.from_state);
    EXPECT_FALSE(std::get<Discard>(s.actions[s.actions.size() - 2]).reset);
}

// 8, 10: without a coordinator a site trains on; at its meeting it waits, says so, and ends with a
// named error when the join budget is over.
TEST(SiteScenario, ALostCoordinatorIsABoundedNamedError) {
    SiteScript s;
    Assign a;
    a.state = s.state.state;
    a.assignment.num_steps = 10;
    s.hear(a);
    s.now += 4 * s.budget.join;
    s.tick();
    EXPECT_EQ(s.ended(), "") << "a site that trains does not wait";
    EXPECT_EQ(s.count<Report>(), 1u);
    s.event(Cut{.trained = {}, .skipped = {}, .tokens = 1, .figures = {}});
    s.now += s.budget.join / 2;
    s.tick();
    EXPECT_EQ(s.ended(), "");
    s.now += s.budget.join;
    s.tick(false);  // it had itself stood still
    EXPECT_EQ(s.ended(), "");
    s.tick();
    EXPECT_NE(s.ended().find("the coordinator is lost"), std::string::npos) << s.ended();
}

// 6, 49: a coordinator with another journal, or two that claim one number, are not obeyed.
TEST(SiteScenario, AnotherHistoryIsNotObeyed) {
    SiteScript s;
    s.train();
    s.hear(s.begin(1));
    s.event(Exchanged{.attempt = s.begin(1).attempt, .result = hash_of(2), .inputs = {}});
    Commit foreign = s.commit(s.begin(1).attempt, hash_of(2));
    foreign.journal.id = 78;
    s.hear(foreign);
    EXPECT_EQ(s.count<Apply>(), 0u);
    EXPECT_NE(s.ended().find("another journal"), std::string::npos) << s.ended();

    SiteScript twin;
    CoordinatorBeat beat;
    beat.coordinator = {twin.coordinator.number, 6};
    beat.newest = twin.state.state;
    twin.hear(beat);
    EXPECT_NE(twin.ended().find("two coordinators"), std::string::npos) << twin.ended();
}

// An older coordinator that comes back to life is not listened to.
TEST(SiteScenario, AnOlderCoordinatorIsNoise) {
    SiteScript s;
    CoordinatorBeat newer;
    newer.coordinator = {2, 6};
    newer.newest = s.state.state;
    s.hear(newer);
    const auto said = s.count<Say>();
    CoordinatorBeat old = newer;
    old.coordinator = s.coordinator;
    old.newest.round = Round(9);
    s.hear(old);
    EXPECT_EQ(s.count<Say>(), said);
    EXPECT_EQ(s.state.newest.round, Round(0));
    EXPECT_EQ(s.ended(), "");
}

}  // namespace
}  // namespace isthmus::outer
