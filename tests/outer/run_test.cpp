// Whole runs of small models: real drivers, sockets and journal, all in one process.
#include "outer/ledger.hpp"
#include "outer/outer_step.hpp"
#include "tests/outer/support/small_run.hpp"

namespace isthmus::outer {
namespace {

using test::SmallModel;
using test::SmallRun;
using test::Stage;
using namespace std::chrono_literals;

/// What a run must give, written plainly: every site trains its leases from the anchor, the mean is
/// applied.
std::vector<float> expected_mean_of_two(const SmallRun& run) {
    SmallModel anchor(run.units);
    SmallModel sites[2] = {SmallModel(run.units), SmallModel(run.units)};
    std::uint64_t sample = 0;
    std::int64_t step = 0;
    for (std::int64_t meeting : run.meetings) {
        for (SmallModel& site : sites) {
            site.values = anchor.values;
            for (std::int64_t s = step; s < meeting; ++s) {
                std::vector<SampleNumber> samples;
                for (std::int64_t k = 0; k < run.samples_per_step; ++k)
                    samples.push_back(SampleNumber(sample++));
                site.step(samples);
            }
        }
        step = meeting;
        const float weight = static_cast<float>(
            (meeting - (meeting == run.meetings[0] ? 0 : meeting - 2)) * run.samples_per_step);
        for (std::size_t i = 0; i < anchor.values.size(); ++i) {
            float sum = 0;
            for (SmallModel& site : sites) sum += weight * (anchor.values[i] - site.values[i]);
            anchor.values[i] -= sum / (weight + weight);
        }
    }
    return anchor.values;
}

void expect_whole_ledger(Stage& stage) {
    const auto files = posix_files();
    const auto records = read_append_log(*files, stage.folder() / "journal");
    ASSERT_TRUE(records) << records.error().message;
    Ledger ledger;
    for (const auto& bytes : *records) {
        const auto record = decode_record(bytes);
        ASSERT_TRUE(record) << record.error().message;
        const Status applied = ledger.apply(*record);
        ASSERT_TRUE(applied) << applied.error().message;
    }
    const Status proven = ledger.prove();
    EXPECT_TRUE(proven) << proven.error().message;
}

TEST(Run, TwoSitesEqualTheSameAlgorithmInTwentyLines) {
    const SmallRun run;
    Stage stage(run);
    stage.start_coordinator();
    stage.start_site("paris");
    stage.start_site("oslo");
    stage.join_sites();
    EXPECT_EQ(stage.coordinator_end(), "");
    const auto& paris = stage.end_of("paris");
    const auto& oslo = stage.end_of("oslo");
    ASSERT_TRUE(paris.finished) << paris.error;
    ASSERT_TRUE(oslo.finished) << oslo.error;
    EXPECT_EQ(*paris.finished, *oslo.finished);
    EXPECT_EQ(paris.values, oslo.values);
    EXPECT_EQ(paris.values, expected_mean_of_two(run));
    EXPECT_EQ(paris.finished->round, Round(4));
    expect_whole_ledger(stage);
}

TEST(Run, OneSiteAloneIsItsInnerOptimizer) {
    SmallRun run;
    run.sites = {"paris"};
    run.meetings = {1, 2, 3, 4};
    Stage stage(run);
    stage.start_coordinator();
    stage.start_site("paris");
    stage.join_sites();
    const auto& paris = stage.end_of("paris");
    ASSERT_TRUE(paris.finished) << paris.error;
    SmallModel alone(run.units);
    for (std::uint64_t s = 0; s < 4; ++s) {
        const std::vector<SampleNumber> samples{SampleNumber(3 * s), SampleNumber(3 * s + 1),
                                                SampleNumber(3 * s + 2)};
        alone.step(samples);
    }
    EXPECT_EQ(paris.values, alone.values);
}

/// Values that all sites of a run end with.
std::vector<float> result_of(const SmallRun& run) {
    Stage stage(run);
    stage.start_coordinator();
    for (const std::string& name : run.sites) stage.start_site(name);
    stage.join_sites();
    EXPECT_EQ(stage.coordinator_end(), "");
    const std::vector<float> values = stage.end_of(run.sites[0]).values;
    for (const std::string& name : run.sites) {
        EXPECT_TRUE(stage.end_of(name).finished) << name << ": " << stage.end_of(name).error;
        EXPECT_EQ(stage.end_of(name).values, values) << name;
    }
    expect_whole_ledger(stage);
    return values;
}

TEST(Run, BitsDoNotDependOnPiecesOrStreams) {
    for (Codec codec : {Codec::kFp32, Codec::kBf16, Codec::kInt8}) {
        SmallRun run;
        run.sites = {"paris", "oslo", "lima"};
        run.codec = codec;
        run.optimizer = {.lr = 0.7f, .momentum = 0.9f, .nesterov = true};
        run.error_feedback = codec == Codec::kInt8;
        const auto values = result_of(run);
        run.piece_elements = 1024;
        run.streams = 1;
        EXPECT_EQ(result_of(run), values) << name(codec);
    }
}

TEST(Run, ASiteThatDiesIsLeftOutAndComesBack) {
    SmallRun run;
    run.sites = {"paris", "oslo", "lima"};
    run.meetings = {2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24};
    run.budget = {.round = 1500ms, .join = 20'000ms};
    std::atomic<bool> died{false};
    Stage* stage_of = nullptr;
    run.after_step = [&](const std::string& site, std::int64_t step, SmallModel&) {
        if (site == "lima" && step == 5 && !died.exchange(true)) return false;
        // The others wait for it to be back before the run is over.
        if (site == "paris" && step == 15) {
            for (int i = 0; i < 400 && stage_of->commit_records().size() < 7; ++i)
                std::this_thread::sleep_for(10ms);
        }
        return true;
    };
    Stage stage(run);
    stage_of = &stage;
    stage.start_coordinator();
    for (const std::string& name : run.sites) stage.start_site(name);
    ASSERT_TRUE(stage.commits(3));
    stage.start_site("lima");
    stage.join_sites();
    EXPECT_EQ(stage.coordinator_end(), "");
    const auto& paris = stage.end_of("paris");
    ASSERT_TRUE(paris.finished) << paris.error;
    EXPECT_EQ(paris.finished->round, Round(12));
    EXPECT_EQ(stage.end_of("oslo").values, paris.values);
    ASSERT_TRUE(stage.end_of("lima").finished) << stage.end_of("lima").error;
    EXPECT_EQ(stage.end_of("lima").values, paris.values);
    const auto commits = stage.commit_records();
    EXPECT_EQ(commits[2].contributors.size(), 2u);
    EXPECT_EQ(commits[2].divisor, 12.0f);
    expect_whole_ledger(stage);
}

TEST(Run, ADifferentConfigurationIsRefusedWithItsKeys) {
    SmallRun run;
    run.budget.join = 1500ms;
    run.config["oslo"] = {{"lr", "2"}};
    Stage stage(run);
    stage.start_coordinator();
    stage.start_site("paris");
    stage.start_site("oslo");
    stage.join_sites();
    EXPECT_NE(stage.end_of("oslo").error.find("lr = 2 there, 1 here"), std::string::npos)
        << stage.end_of("oslo").error;
    EXPECT_NE(stage.coordinator_end().find("oslo is not here"), std::string::npos);
}

TEST(Run, NumbersThatAreNotFiniteAreLeftOut) {
    SmallRun run;
    run.sites = {"paris", "oslo", "lima"};
    run.meetings = {2, 4, 6, 8, 10};
    std::atomic<bool> once{false};
    run.after_step = [&](const std::string& site, std::int64_t step, SmallModel& model) {
        if (site == "oslo" && step == 4 && !once.exchange(true)) model.values[3] = std::nanf("");
        return true;
    };
    Stage stage(run);
    stage.start_coordinator();
    for (const std::string& name : run.sites) stage.start_site(name);
    stage.join_sites();
    const auto& paris = stage.end_of("paris");
    ASSERT_TRUE(paris.finished) << paris.error;
    for (float v : paris.values) ASSERT_TRUE(std::isfinite(v));
    ASSERT_TRUE(stage.end_of("oslo").finished) << stage.end_of("oslo").error;
    EXPECT_EQ(stage.end_of("oslo").values, paris.values);
    EXPECT_EQ(stage.commit_records()[1].contributors.size(), 2u);
    expect_whole_ledger(stage);
}

TEST(Run, DrainedAndPaused) {
    SmallRun run;
    run.meetings = {2, 4, 6, 8, 10, 12};
    Stage stage(run);
    stage.operate(Operate::What::kPause);
    stage.start_coordinator();
    stage.start_site("paris");
    stage.start_site("oslo");
    EXPECT_EQ(stage.commit_records().size(), 0u);
    stage.operate(Operate::What::kResume);
    ASSERT_TRUE(stage.commits(1));
    stage.operate(Operate::What::kDrain, "oslo");
    stage.join_sites();
    ASSERT_TRUE(stage.end_of("paris").finished) << stage.end_of("paris").error;
    EXPECT_EQ(stage.end_of("paris").finished->round, Round(6));
    expect_whole_ledger(stage);
}

}  // namespace
}  // namespace isthmus::outer
