// The step loop with a trainer that has no model: what is recorded, when it evaluates, how it
// stops.
#include "launch/training_loop.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.hpp"
#include "launch/run_folder.hpp"
#include "tests/launch/support/fake_trainer.hpp"
#include "tests/support/faulty_files.hpp"
#include "tests/support/temporary_folder.hpp"

namespace isthmus::launch {
namespace {

std::vector<nlohmann::json> json_lines(FileSystem& files, const Path& path) {
    std::istringstream text(read_text(files, path).value());
    std::vector<nlohmann::json> lines;
    for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
}

class TrainingLoop : public testing::Test {
  protected:
    TrainingResult run(LoopSettings settings, const TrainingHooks& hooks = {}) {
        settings.folder = folder_.path();
        CommandContext context{files_, log_, [this] { return stop_; }, false};
        return run_training_loop(context, trainer_, settings, hooks);
    }
    std::vector<nlohmann::json> steps() { return json_lines(files_, folder_ / kStepsName); }
    std::vector<nlohmann::json> evals() { return json_lines(files_, folder_ / kEvalsName); }

    test::TemporaryFolder folder_;
    std::unique_ptr<FileSystem> disk_ = posix_files();
    test::FaultyFiles files_{*disk_};
    Log log_{"", LogLevel::kError};
    test::FakeTrainer trainer_;
    bool stop_ = false;
};

TEST_F(TrainingLoop, WritesOneObjectAStepWithTheDocumentedFields) {
    trainer_.skip_at = 2;
    run({.steps = 3, .gemm_rate = 1e9});
    const auto lines = steps();
    ASSERT_EQ(lines.size(), 3u);
    const std::vector<std::string> fields = {
        "step",    "loss",         "gradient_norm", "lr",         "tokens", "total_tokens",
        "seconds", "step_seconds", "tokens_per_s",  "gemm_share", "skipped"};
    for (const auto& line : lines) {
        EXPECT_EQ(line.size(), fields.size());
        for (const auto& field : fields) EXPECT_TRUE(line.contains(field)) << field;
    }
    EXPECT_EQ(lines[2]["step"], 3);
    EXPECT_EQ(lines[2]["loss"], 10.0 / 3.0) << "all digits are kept";
    EXPECT_EQ(lines[2]["total_tokens"], 3 * 64);
    EXPECT_FALSE(lines[0]["skipped"].get<bool>());
    EXPECT_TRUE(lines[1]["skipped"].get<bool>());
    EXPECT_TRUE(lines[1]["loss"].is_null()) << "NaN is no JSON";
    EXPECT_GT(lines[0]["gemm_share"].get<double>(), 0.0);
}

TEST_F(TrainingLoop, EvaluatesEveryKAndOnceAtTheEnd) {
    const auto result = run({.steps = 6, .eval_every = 2, .eval_windows = 8});
    const auto lines = evals();
    ASSERT_EQ(lines.size(), 3u);
    EXPECT_EQ(lines[0]["step"], 2);
    EXPECT_EQ(lines[1]["step"], 4);
    EXPECT_EQ(lines[2]["step"], 6);
    EXPECT_EQ(lines[2]["split"], "validation");
    EXPECT_EQ(lines[2]["windows"], 8);
    EXPECT_EQ(result.validation_loss, 8.0 / 7.0);
    EXPECT_EQ(result.steps, 6);
    EXPECT_FALSE(result.interrupted);
}

TEST_F(TrainingLoop, ZeroWindowsNeverEvaluates) {
    const auto result = run({.steps = 4, .eval_every = 2, .eval_windows = 0});
    EXPECT_EQ(trainer_.evaluations, 0);
    EXPECT_FALSE(result.validation_loss.has_value());
}

TEST_F(TrainingLoop, FinishesTheStepInHandWhenStopped) {
    TrainingHooks hooks;
    bool ended = false;
    hooks.after_step = [&](inner::Trainer&, const inner::StepReport& r, double) {
        stop_ = r.step == 3;
        return LoopNext::kGoOn;
    };
    hooks.end = [&](inner::Trainer&) { ended = true; };
    const auto result = run({.steps = 10, .eval_windows = 4}, hooks);
    EXPECT_TRUE(result.interrupted);
    EXPECT_EQ(result.steps, 3);
    EXPECT_EQ(steps().size(), 3u);
    EXPECT_FALSE(ended);
    EXPECT_EQ(trainer_.evaluations, 0);
}

TEST_F(TrainingLoop, AStopAfterTheLastStepIsNoInterruption) {
    TrainingHooks hooks;
    hooks.after_step = [&](inner::Trainer&, const inner::StepReport& r, double) {
        stop_ = r.step == 5;
        return stop_ ? LoopNext::kFinished : LoopNext::kGoOn;
    };
    EXPECT_FALSE(run({.steps = 5}, hooks).interrupted);
}

TEST_F(TrainingLoop, HooksRunAfterEachStepAndBeforeItsEvaluation) {
    std::string order;
    TrainingHooks hooks;
    hooks.after_step = [&](inner::Trainer&, const inner::StepReport& r, double) {
        order += "s" + std::to_string(r.step) + "e" + std::to_string(trainer_.evaluations) + " ";
        return r.step == 3 ? LoopNext::kFinished : LoopNext::kGoOn;
    };
    hooks.end = [&](inner::Trainer&) { order += "end"; };
    run({.steps = 3, .eval_every = 2, .eval_windows = 1}, hooks);
    EXPECT_EQ(order, "s1e0 s2e0 s3e1 end");
}

TEST_F(TrainingLoop, HooksSayWhereItBeginsAndWhenItIsFinished) {
    TrainingHooks hooks;
    hooks.begin = [](inner::Trainer& trainer) {
        trainer.set_steps_done(7);
        return LoopNext::kGoOn;
    };
    hooks.after_step = [](inner::Trainer& trainer, const inner::StepReport& r, double) {
        if (r.step == 8) trainer.set_steps_done(11);  // beyond settings.steps: others were faster
        return r.step == 13 ? LoopNext::kFinished : LoopNext::kGoOn;
    };
    const auto result = run({.steps = 10}, hooks);
    const auto lines = steps();
    ASSERT_EQ(lines.size(), 3u);
    EXPECT_EQ(lines[0]["step"], 8);
    EXPECT_EQ(lines[1]["step"], 12);
    EXPECT_EQ(result.steps, 13);
    EXPECT_FALSE(result.interrupted);
}

TEST_F(TrainingLoop, HooksThatHaveNothingToDoStepNotAtAll) {
    TrainingHooks hooks;
    hooks.begin = [](inner::Trainer&) { return LoopNext::kFinished; };
    hooks.after_step = [](inner::Trainer&, const inner::StepReport&, double) {
        ADD_FAILURE() << "a step";
        return LoopNext::kFinished;
    };
    EXPECT_EQ(run({.steps = 10}, hooks).steps, 0);
}

TEST_F(TrainingLoop, AppendGoesOnWithTheRecordsThatAreThere) {
    run({.steps = 3});
    run({.steps = 5, .append = true});
    EXPECT_EQ(steps().size(), 5u);
}

TEST_F(TrainingLoop, RecordsBeforeAFailureStay) {
    trainer_.diverge_at = 3;
    try {
        run({.steps = 10});
        FAIL() << "expected Fatal";
    } catch (const Fatal& error) {
        EXPECT_EQ(error.code(), ExitCode::kDiverged);
    }
    EXPECT_EQ(steps().size(), 2u);
}

TEST_F(TrainingLoop, AFullDiskStopsTheRunNamingTheFile) {
    files_.fail({.op = test::FileOp::kAppend,
                 .error = ENOSPC,
                 .times = test::FaultyFiles::kForever,
                 .only = kStepsName});
    try {
        run({.steps = 1000});
        FAIL() << "expected Fatal";
    } catch (const Fatal& error) {
        EXPECT_EQ(error.code(), ExitCode::kResources);
        EXPECT_NE(std::string(error.what()).find(kStepsName), std::string::npos) << error.what();
    }
    EXPECT_LT(trainer_.steps_done(), 1000) << "the buffer holds a few hundred lines, then stops";
}

}  // namespace
}  // namespace isthmus::launch
