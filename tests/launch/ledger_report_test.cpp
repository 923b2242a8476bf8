#include "launch/ledger_report.hpp"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/append_log.hpp"
#include "base/error.hpp"
#include "launch/command.hpp"
#include "launch/run_folder.hpp"
#include "tests/support/temporary_folder.hpp"

namespace isthmus::launch {
namespace {

using namespace outer;

class LedgerCommand : public testing::Test {
  protected:
    void SetUp() override {
        for (std::size_t i = 0; i < states_.size(); ++i) {
            states_[i].round = Round(i);
            states_[i].hash[0] = static_cast<std::byte>(0xa0 + i);
        }
        records_ = {RunRecord{.run = 0xabc, .sites = {"paris", "oslo"}, .config = {}},
                    CoordinatorRecord{{1, 2}},
                    JoinRecord{SiteId(0), "paris", life_},
                    JoinRecord{SiteId(1), "oslo", life_},
                    StartRecord{states_[0], "0123"},
                    GrantRecord{SiteId(0), life_, Meeting(0), {{0, 1000}}},
                    GrantRecord{SiteId(1), life_, Meeting(0), {{1000, 1000}}},
                    commit(0, {by(0, {{0, 990}}, {{990, 10}}), by(1, {{1000, 1000}}, {})}),
                    GrantRecord{SiteId(0), life_, Meeting(1), {{2000, 50}}},
                    GrantRecord{SiteId(1), life_, Meeting(1), {{2050, 50}}},
                    QuarantineRecord{{{2050, 5}}, "lost twice"},
                    LeaveRecord{SiteId(1), life_, "killed", true}};
    }
    static Contribution by(std::uint32_t site, std::vector<SampleRange> trained,
                           std::vector<SampleRange> skipped) {
        return {SiteId(site), {1, 7}, {}, 0.5f, 64000, std::move(trained), std::move(skipped)};
    }
    CommitRecord commit(std::size_t round, std::vector<Contribution> contributors) const {
        CommitRecord record;
        record.attempt.round = Round(round);
        record.meeting = Meeting(round);
        record.from = states_[round];
        record.to = states_[round + 1];
        record.contributors = std::move(contributors);
        return record;
    }
    /// stdout of `isthmus data ledger RUN ...`, then "exit code: message".
    std::string run(std::vector<std::string> options = {}) {
        {
            (void)files_->remove(folder_ / kJournalName).has_value();
            auto opened = AppendLog::open(*files_, folder_ / kJournalName, 5);
            std::vector<std::vector<std::byte>> packed;
            for (const JournalRecord& record : records_) packed.push_back(encode_record(record));
            EXPECT_TRUE(opened->log->append(packed));
        }
        CLI::App app("test", "isthmus");
        add_data_command(app, context_);
        std::vector<std::string> arguments{"data", "ledger", folder_.path().string()};
        arguments.insert(arguments.end(), options.begin(), options.end());
        std::reverse(arguments.begin(), arguments.end());
        testing::internal::CaptureStdout();
        std::string thrown;
        try {
            app.parse(arguments);
        } catch (const Fatal& e) {
            thrown = std::to_string(static_cast<int>(e.code())) + ": " + e.what();
        }
        return testing::internal::GetCapturedStdout() + thrown;
    }
    static testing::AssertionResult has(const std::string& text, const std::string& part) {
        if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
        return testing::AssertionFailure() << "\"" << part << "\" is not in: " << text;
    }

    const Incarnation life_{1, 7};
    std::array<StateName, 4> states_;
    std::vector<JournalRecord> records_;
    test::TemporaryFolder folder_;
    std::unique_ptr<FileSystem> files_ = posix_files();
    Log log_{"test", LogLevel::kError};
    CommandContext context_{*files_, log_, [] { return false; }, false};
};

TEST_F(LedgerCommand, CountsAndProves) {
    const std::string said = run();
    EXPECT_TRUE(has(said, "run 0000000000000abc, data 0123\n"));
    EXPECT_TRUE(has(said, "1 committed, 0 abandoned; newest state a10000000000"));
    EXPECT_TRUE(has(said, "2,100 granted"));
    EXPECT_TRUE(has(said, "committed  1,990\n"));
    EXPECT_TRUE(has(said, "leased     50\n"));
    EXPECT_TRUE(has(said, "returned   45\n"));
    EXPECT_TRUE(has(said, "skipped    15\n"));
    EXPECT_TRUE(
        has(said, "paris        1 rounds, 990 samples, 64,000 tokens, 50 leased, 10 skipped"));
    EXPECT_TRUE(has(said, "quarantined samples 2050-2054: lost twice"));
    EXPECT_TRUE(has(said, "proven: "));
    EXPECT_FALSE(has(said, "round 0"));
    EXPECT_TRUE(has(run({"--rounds"}), "weight 0.5        samples 0-989; skipped 990-999"));
}

TEST_F(LedgerCommand, JsonIsForScripts) {
    const auto json = nlohmann::json::parse(run({"--json", "--rounds"}));
    EXPECT_EQ(json["proven"], true);
    EXPECT_EQ(json["samples"]["committed"], 1990);
    EXPECT_EQ(json["sites"][1]["name"], "oslo");
    EXPECT_EQ(json["commits"][0]["sites"][0]["trained"], (nlohmann::json{{0, 990}}));
    EXPECT_FALSE(nlohmann::json::parse(run({"--json"})).contains("commits"));
}

TEST_F(LedgerCommand, WhatDoesNotHoldIsSaidWithExitCode3) {
    records_.push_back(commit(1, {by(0, {{0, 1}}, {})}));
    std::string said = run();
    EXPECT_TRUE(
        has(said, "NOT PROVEN: record 12: a commit with site 0: samples 0 to 0: committed before"));
    EXPECT_TRUE(has(said, "3: " + folder_.path().string() + ": the ledger does not hold"));
    records_.back() = commit(2, {by(0, {{2000, 50}}, {})});
    EXPECT_TRUE(has(run(), "NOT PROVEN: the commit of round 2 does not follow"));
    records_.back() = commit(1, {by(0, {{2000, 50}}, {})});
    EXPECT_TRUE(has(run(), "proven: "));
}

TEST_F(LedgerCommand, AFolderWithoutJournalIsNamed) {
    try {
        read_ledger(*files_, folder_ / "none");
        FAIL();
    } catch (const Fatal& e) {
        EXPECT_EQ(e.code(), ExitCode::kInput);
        EXPECT_TRUE(has(e.what(), "no journal there"));
    }
}

}  // namespace
}  // namespace isthmus::launch
