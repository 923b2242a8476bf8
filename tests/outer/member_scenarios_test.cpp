// Faults of members and coordinators that broke other training systems, as scripts of the
// coordinator's step function. Numbers are rows of the list of scenarios (tests/README.md says
// which row is which test).
#include "outer/simulator.hpp"
#include "tests/outer/support/script.hpp"

namespace isthmus::outer {
namespace {

using test::hash_of;
using test::Script;
using namespace std::chrono_literals;
using Names = std::vector<std::string>;

// 2: starts 20 minutes apart, speeds 1:4. No silent solo rounds, and who took part is said.
TEST(Scenario, StartsApartAndUnequalSpeedsMakeNoSoloRounds) {
    auto options = test::script_options({"paris", "oslo"});
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
    Script s(test::script_options({"a", "b", "c", "d"}));
    s.come_all();
    for (auto& [name, place] : s.sites) place.figures.steps_per_s = 1;
    for (std::size_t round = 0; round < 4; ++round) {
        const bool odd = round % 2 == 1;
        for (const char* name : {odd ? "c" : "a", odd ? "d" : "b"}) s.ready(name);
        s.pass(300s);
        EXPECT_EQ(s.state.phase, CoordinatorState::Phase::kBarrier);
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
    EXPECT_EQ(s.site("paris").standing, CoordinatorState::Standing::kAbsent);
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
    s.pass(2s);
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
    s.come("lima", s.state.newest, true);
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
        s.come("paris", s.state.newest, true);
        s.round();
        s.round();
        EXPECT_EQ(s.contributors(s.commits() - 1).size(), 3u);
    }
    s.expect_one_lineage();
}

// 14: one site where two are named. It ends after the join budget, and names who is missing; until
// then it says so.
TEST(Scenario, AWaitForASiteThatDoesNotComeIsSaidAndBounded) {
    Script s(test::script_options({"paris", "oslo"}));
    s.come("paris");
    s.pass(120s);
    EXPECT_GE(s.said("waiting for site oslo"), 1u);
    EXPECT_LE(s.said("waiting for site oslo"), 10u);
    EXPECT_FALSE(s.end);
    s.pass(s.options.budget.join);
    ASSERT_TRUE(s.end);
    EXPECT_FALSE(s.end->good);
    EXPECT_NE(s.end->reason.find("oslo is not here"), std::string::npos) << s.end->reason;
    EXPECT_EQ(s.heard<Stop>("paris").back().reason, s.end->reason);
}

// 14: the same later in the run, with min_sites = 2.
TEST(Scenario, TooFewSitesIsSaidAndBounded) {
    auto options = test::script_options({"paris", "oslo"});
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

// 32, 33: a copy comes only from who holds the newest state, as long as it moves whatever its size,
// and from another donor if the first dies (31). Others commit meanwhile (slow joiner).
TEST(Scenario, AJoinerIsGivenTheTimeThatItsCopyTakes) {
    Script s(test::script_options({"a", "b", "c", "d"}));
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

// 14: with min_sites = 2 a site is lost after a long interval, in training or while others wait
// for it. The wait begins then, not when the interval did: it may come back.
TEST(Scenario, AWaitForMinSitesBeginsWithTheLoss) {
    for (bool barrier : {false, true}) {
        SCOPED_TRACE(barrier);
        auto options = test::script_options({"paris", "oslo"});
        options.min_sites = 2;
        Script s(options);
        s.come_all();
        s.round();
        s.sites["oslo"].figures.steps_per_s = s.sites["paris"].figures.steps_per_s = 0.001;
        s.round();
        if (barrier) s.ready("paris");
        s.pass(3 * s.options.budget.join);
        s.sites["oslo"].alive = false;
        s.pass(s.options.budget.join / 2);
        EXPECT_FALSE(s.end) << s.end->reason;
        if (!barrier) s.pass(2 * s.options.budget.join);  // paris trains on: nobody waits
        EXPECT_FALSE(s.end) << s.end->reason;
        s.come("oslo", s.state.newest, true);
        if (!barrier) s.ready("paris");
        s.ready("oslo");
        s.vote_all();
        EXPECT_EQ(s.contributors(2).size(), 2u);
    }
}

// 3: 32 sites, 125 faults an hour. Participation comes back, not just life: whoever is lost is in a
// round again.
TEST(Scenario, ThirtyTwoSitesUnderManyFaultsAllTakePartAgain) {
    SimulatorOptions options{.seed = 3, .sites = 32, .meetings = 150};
    options.faults = Faults::none();
    options.faults.crash_site = 0.3;
    options.faults.stop_site = 0.15;
    const SimulatorResult r = simulate(options);
    ASSERT_TRUE(r.good) << r.broken;
    EXPECT_GT(static_cast<double>(r.crashes) / r.simulated_s, 125.0 / 3600);
    EXPECT_EQ(r.rounds, 150u);
    EXPECT_GT(static_cast<double>(r.contributions) / static_cast<double>(r.rounds), 0.9 * 32);
    EXPECT_EQ(r.last_contributors, 32u);
}

}  // namespace
}  // namespace isthmus::outer
