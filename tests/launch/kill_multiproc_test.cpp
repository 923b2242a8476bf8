// One process of three sites and a coordinator is killed, or stands still, in each phase of a
// round.
#include <gtest/gtest.h>

#include "tests/launch/support/faults_run.hpp"

namespace isthmus::launch {
namespace {

using test::FaultsRun;
using test::Program;

/// Long enough for whoever comes back, short enough for a test: it is paused meanwhile.
constexpr std::int64_t kSteps = 300;
constexpr const char* kBudget = "[net]\nround_budget_s = 6.0\n";

class KilledIn : public FaultsRun, public testing::WithParamInterface<const char*> {};
class KilledSite : public KilledIn {};
class KilledCoordinator : public KilledIn {};

std::string name_of_phase(const testing::TestParamInfo<const char*>& info) {
    return info.param;
}

TEST_P(KilledSite, TheOthersGoOnAndItCatchesUp) {
    file_ = write_config(kSteps, std::string(kRoundsOfFive) + kBudget);
    start_all("rome", std::string("kill ") + GetParam() + " 2");
    EXPECT_EQ(program("rome").end().signal, SIGKILL) << all_text();
    ASSERT_TRUE(program("coordinator").says("site rome is lost"));
    ASSERT_TRUE(program("paris").says("round 5 after"));
    ctl({"pause"});
    start("rome");
    ASSERT_TRUE(program("coordinator").says("site rome is restored from"));
    ctl({"resume"});
    ASSERT_TRUE(program("rome").says("the run goes on from step"));
    expect_one_end();
}
INSTANTIATE_TEST_SUITE_P(In, KilledSite,
                         testing::Values("training", "barrier", "exchange", "vote", "apply"),
                         name_of_phase);

TEST_P(KilledCoordinator, IsStartedAgainAndTheRunEndsWell) {
    file_ = write_config(60, std::string(kRoundsOfFive) + kBudget);
    start_all("coordinator", std::string("kill ") + GetParam() + " 2");
    EXPECT_EQ(program("coordinator").end().signal, SIGKILL) << all_text();
    ASSERT_TRUE(start("coordinator").says("the journal goes on after"));
    expect_one_end();
}
INSTANTIATE_TEST_SUITE_P(In, KilledCoordinator,
                         testing::Values("training", "barrier", "exchange", "commit", "committed"),
                         name_of_phase);

TEST_F(FaultsRun, ASiteThatStandsStillIsGoneOnWithoutAndComesBack) {
    file_ = write_config(kSteps, std::string(kRoundsOfFive) + "[net]\nround_budget_s = 2.0\n");
    start_all();
    ASSERT_TRUE(program("paris").says("round 2 after"));
    ::kill(program("rome").process().pid(), SIGSTOP);
    ASSERT_TRUE(program("coordinator").says("site rome is lost: nothing heard of it for"));
    ctl({"pause"});
    // More than the budget after it was last heard of: its quarter has gone by already.
    std::this_thread::sleep_for(std::chrono::seconds(2));
    ::kill(program("rome").process().pid(), SIGCONT);
    ASSERT_TRUE(program("rome").says("taken for lost"));
    ctl({"resume"});
    expect_one_end();
}

TEST_F(FaultsRun, ASiteWithNaNIsExcludedAndRestored) {
    file_ = write_config(60, kRoundsOfFive);
    start_all("rome", "poison cut 2");
    ASSERT_TRUE(program("coordinator").says("site rome is lost"));
    expect_one_end();
    EXPECT_NE(program("coordinator").text().find("finite"), std::string::npos) << all_text();
}

}  // namespace
}  // namespace isthmus::launch
