// Faults between processes that broke other training systems. Numbers are rows of the list of
// scenarios.
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "launch/meeting_place.hpp"
#include "tests/launch/support/faults_run.hpp"

namespace isthmus::launch {
namespace {

using test::FaultsRun;
using test::Program;

class Scenarios : public FaultsRun {
  protected:
    std::string address_of_coordinator() {
        EXPECT_TRUE(start("coordinator").says("waiting for 3 sites at"));
        return read_coordinator_address(*files_, run_);
    }
};

// Port 1 of loopback: nobody listens there.
constexpr const char* kNobody = "127.0.0.1:1";

// 12: the first address does not answer: it is named, and the second is tried.
TEST_F(Scenarios, TheSecondAddressOfTheCoordinatorIsTried) {
    file_ = write_config(20, kRoundsOfFive);
    const std::string there = address_of_coordinator();
    const std::string both = fmt::format("net.coordinator=[\"{}\", \"{}\"]", kNobody,
                                         there.substr(there.rfind('/') + 1));
    for (const char* name : {"paris", "oslo", "rome"}) start(name, "", {"--set", both});
    EXPECT_TRUE(
        program("paris").says("no answer from the coordinator at tcp://127.0.0.1:1; trying"));
    expect_one_end();
}

// 12, 10: no address answers: each try is named, with growing patience, and the site ends in the
// join budget's time.
TEST_F(Scenarios, AnUnreachableCoordinatorIsNamedAndGivenUp) {
    file_ = write_config(
        20, std::string(kRoundsOfFive) + "[net]\nround_budget_s = 1.0\njoin_budget_s = 5.0\n");
    Program& paris =
        start("paris", "", {"--set", fmt::format("net.coordinator=[\"{}\"]", kNobody)});
    EXPECT_TRUE(paris.says("no answer from the coordinator at tcp://127.0.0.1:1; still trying"));
    EXPECT_EQ(paris.end().code, static_cast<int>(ExitCode::kPeerLost)) << paris.text();
    EXPECT_NE(paris.last_line().find("no coordinator answered within"), std::string::npos)
        << paris.text();
    std::size_t tries = 0;
    const std::string text = paris.text();
    for (std::size_t at = 0; (at = text.find("no answer", at)) != std::string::npos; ++at) ++tries;
    EXPECT_LE(tries, 5u) << text;
}

// 6: a site of another run, under a name that this run has, at this run's coordinator: refused by
// the run's number, said once; the run is undisturbed.
TEST_F(Scenarios, ASiteOfAnotherRunIsRefusedByItsNumber) {
    file_ = write_config(20, kRoundsOfFive);
    const std::string there = address_of_coordinator();
    const std::string address =
        fmt::format("net.coordinator=[\"{}\"]", there.substr(there.rfind('/') + 1));
    Program stranger({"site", file_.string(), "--name", "paris", "--set", "run_id=another", "--set",
                      "run_folder=" + (folder_.path() / "other").string(), "--set", address});
    EXPECT_TRUE(program("coordinator").says("refused: "));
    for (const char* name : {"paris", "oslo", "rome"}) start(name);
    expect_one_end();
    const std::string text = program("coordinator").text();
    const auto first = text.find("frame refused: of run ");
    ASSERT_NE(first, std::string::npos) << text;
    EXPECT_EQ(text.find("frame refused", first + 1), std::string::npos) << text;
}

}  // namespace
}  // namespace isthmus::launch
