// The real program: exit codes and one-line errors for bad command lines, and a small run from text
// to generated text.
#include <gtest/gtest.h>

#include <csignal>
#include <future>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/process.hpp"
#include "tests/support/temporary_folder.hpp"

namespace isthmus::launch {
namespace {

using namespace std::chrono_literals;

struct Outcome {
    int code = -1;
    std::vector<std::string> lines;  ///< stdout and stderr
    std::string text() const {
        std::string all;
        for (const auto& line : lines) all += line + "\n";
        return all;
    }
};

Outcome run_program(const std::vector<std::string>& arguments) {
    Outcome outcome;
    const auto started = ChildProcess::start(
        {.program = ISTHMUS_PROGRAM,
         .arguments = arguments,
         .environment = {{"OMP_WAIT_POLICY", "passive"}},
         .on_line = [&](std::string_view line) { outcome.lines.emplace_back(line); }});
    if (!started) {
        ADD_FAILURE() << started.error().message;
        return outcome;
    }
    const auto status = started.value()->wait_within(120s);
    if (!status) {
        ADD_FAILURE() << "the program hangs";
        started.value()->stop_within(0s);
        return outcome;
    }
    EXPECT_EQ(status->signal, 0) << status->text();
    outcome.code = status->code;
    return outcome;
}

struct BadLine {
    std::vector<std::string> arguments;
    ExitCode code;
    std::string contains;
};

class BadCommandLine : public testing::TestWithParam<BadLine> {};

TEST_P(BadCommandLine, IsOneLineWithTheRightCode) {
    const Outcome outcome = run_program(GetParam().arguments);
    EXPECT_EQ(outcome.code, static_cast<int>(GetParam().code)) << outcome.text();
    ASSERT_EQ(outcome.lines.size(), 1u) << outcome.text();
    EXPECT_TRUE(outcome.lines[0].starts_with("isthmus: ")) << outcome.text();
    EXPECT_NE(outcome.lines[0].find(GetParam().contains), std::string::npos) << outcome.text();
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadCommandLine,
    testing::Values(
        BadLine{{"trian"}, ExitCode::kUsage, "did you mean train?"},
        BadLine{{"data", "prepar"}, ExitCode::kUsage, "did you mean prepare?"},
        BadLine{{"train"}, ExitCode::kUsage, "config is required"},
        BadLine{{"train", "no/such.toml"}, ExitCode::kUsage, "no/such.toml"},
        BadLine{{"eval", "x", "--windws", "3"}, ExitCode::kUsage, "did you mean --windows?"},
        BadLine{{"eval", "x", "--windows", "many"}, ExitCode::kUsage, "--windows"},
        BadLine{{"eval", "x", "--split", "test"}, ExitCode::kUsage, "validation"},
        BadLine{{"eval", "no/such/run"}, ExitCode::kInput, "no/such/run"},
        BadLine{{"generate", "no/such/run"}, ExitCode::kInput, "no/such/run"},
        BadLine{{"generate", "x", "--temperature", "-1"}, ExitCode::kUsage, "--temperature"},
        BadLine{{"config"}, ExitCode::kUsage, "--defaults"},
        BadLine{{"config", "--explain", "optim.lrr"}, ExitCode::kUsage, "did you mean optim.lr?"},
        BadLine{{"--vesion"}, ExitCode::kUsage, "did you mean --version?"}));

TEST(Program, AloneExplainsItselfInTenLines) {
    const Outcome outcome = run_program({});
    EXPECT_EQ(outcome.code, 0);
    EXPECT_LE(outcome.lines.size(), 10u);
    EXPECT_NE(outcome.text().find("isthmus train"), std::string::npos);
}

TEST(Program, VersionNamesCommitAndLibraries) {
    const std::string text = run_program({"--version"}).text();
    for (const char* part : {"commit", "oneDNN", "ZeroMQ", "zstd"})
        EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(Program, HelpHasExitCodesDefaultsAndUnits) {
    EXPECT_NE(run_program({"--help"}).text().find("130"), std::string::npos);
    const std::string text = run_program({"generate", "--help"}).text();
    EXPECT_NE(text.find("--tokens TOKENS"), std::string::npos) << text;
    EXPECT_NE(text.find("=200"), std::string::npos) << text;
}

TEST(Program, DefaultsAreAConfigurationThatChecks) {
    const test::TemporaryFolder folder;
    const auto files = posix_files();
    const std::string file = (folder / "d.toml").string();
    ASSERT_TRUE(replace_file(*files, file, run_program({"config", "--defaults"}).text()));
    const Outcome outcome = run_program({"config", "--check", file});
    EXPECT_EQ(outcome.code, 0) << outcome.text();
    EXPECT_NE(outcome.text().find("good"), std::string::npos);
}

/// A tiny model on a little text that repeats itself.
class SmallRun : public testing::Test {
  protected:
    void SetUp() override {
        std::string text;
        for (int i = 0; text.size() < 60'000; ++i)
            text += "line " + std::to_string(i % 97) + " says the same again.\n";
        ASSERT_TRUE(replace_file(*files_, folder_ / "text.txt", text));
        ASSERT_EQ(run_program({"data", "prepare", at("text.txt"), "--out", at("data"),
                               "--validation", "0.1"})
                      .code,
                  0);
        const std::string config = "data = \"" + at("data") + "\"\nrun_folder = \"" + at("run") +
                                   "\"\n[model]\nnum_layers = 1\ncontext = 32\n"
                                   "[train]\nsteps = 6\nbatch = 2\nthreads = 1\neval_every = 3\n"
                                   "eval_windows = 4\n[optim]\nwarmup_steps = 2\n";
        ASSERT_TRUE(replace_file(*files_, folder_ / "run.toml", config));
    }
    std::string at(const std::string& name) { return (folder_ / name).string(); }
    std::vector<nlohmann::json> lines(const std::string& name) {
        std::istringstream text(read_text(*files_, folder_ / name).value());
        std::vector<nlohmann::json> all;
        for (std::string line; std::getline(text, line);)
            all.push_back(nlohmann::json::parse(line));
        return all;
    }
    const test::TemporaryFolder folder_;
    const std::unique_ptr<FileSystem> files_ = posix_files();
};

TEST_F(SmallRun, TrainsEvaluatesAndGenerates) {
    const Outcome trained = run_program({"train", at("run.toml")});
    ASSERT_EQ(trained.code, 0) << trained.text();
    EXPECT_NE(trained.text().find("validation loss"), std::string::npos);
    EXPECT_NE(trained.text().find("planned"), std::string::npos) << "memory, predicted";
    EXPECT_NE(trained.text().find("measured"), std::string::npos) << "and measured";
    for (const char* name : {"config.toml", "doctor.json", "data.json", "model/config.json"})
        EXPECT_TRUE(files_->exists(folder_ / "run" / name)) << name;
    ASSERT_EQ(lines("run/steps.jsonl").size(), 6u);
    const auto evals = lines("run/evals.jsonl");
    ASSERT_EQ(evals.size(), 2u);

    // The saved model is the trained one: eval on the folder gives the run's own last loss.
    const Outcome evaluated =
        run_program({"eval", at("run"), "--windows", "4", "--threads", "1", "--json"});
    ASSERT_EQ(evaluated.code, 0) << evaluated.text();
    const auto json = nlohmann::json::parse(evaluated.lines.back());
    EXPECT_NEAR(json["loss"].get<double>(), evals.back()["loss"].get<double>(), 1e-5);

    const auto generate = [&] {
        return run_program({"generate", at("run"), "--prompt", "line ", "--tokens", "50", "--seed",
                            "3", "--threads", "1"});
    };
    const Outcome a = generate();
    ASSERT_EQ(a.code, 0) << a.text();
    EXPECT_TRUE(a.text().starts_with("line ")) << a.text();
    EXPECT_EQ(a.text(), generate().text()) << "same seed, same text";
    EXPECT_GE(a.text().size(), 5u + 50u) << "longer than the context of 32: it slides";
}

TEST_F(SmallRun, TheSameSeedTrainsTheSameBits) {
    ASSERT_EQ(run_program({"train", at("run.toml"), "--run", at("a")}).code, 0);
    ASSERT_EQ(run_program({"train", at("run.toml"), "--run", at("b")}).code, 0);
    EXPECT_EQ(read_text(*files_, folder_ / "a/model/model.safetensors").value(),
              read_text(*files_, folder_ / "b/model/model.safetensors").value());
}

TEST_F(SmallRun, AUsedFolderIsRefusedUnlessToldToOverwrite) {
    ASSERT_EQ(run_program({"train", at("run.toml")}).code, 0);
    const Outcome again = run_program({"train", at("run.toml")});
    EXPECT_EQ(again.code, static_cast<int>(ExitCode::kUsage));
    EXPECT_NE(again.text().find("--overwrite"), std::string::npos) << again.text();
    EXPECT_EQ(run_program({"train", at("run.toml"), "--overwrite"}).code, 0);
}

TEST_F(SmallRun, WhatCannotStartLeavesNoFolder) {
    for (const char* bad : {"train.batch=60000", "model.vocab=100", "train.sequence=33"}) {
        const Outcome outcome =
            run_program({"train", at("run.toml"), "--set", bad, "model.d_model=16384",
                         "model.ffn_dim=65536", "model.num_layers=60"});
        EXPECT_NE(outcome.code, 0) << bad;
        EXPECT_EQ(outcome.lines.size(), 1u) << outcome.text();
        EXPECT_FALSE(files_->exists(folder_ / "run")) << bad;
    }
}

TEST_F(SmallRun, DamagedDataEndsItNamingTheFile) {
    const Path file = folder_ / "data/tokens.isthmus";
    const std::string good = read_text(*files_, file).value();
    std::string flipped = good;
    flipped[8192] ^= 1;
    for (const std::string& bad : {flipped, good.substr(0, good.size() / 2), std::string("text")}) {
        ASSERT_TRUE(replace_file(*files_, file, bad));
        const Outcome outcome = run_program({"train", at("run.toml"), "--overwrite"});
        EXPECT_EQ(outcome.code, static_cast<int>(ExitCode::kInput)) << outcome.text();
        ASSERT_FALSE(outcome.lines.empty());
        EXPECT_TRUE(outcome.lines.back().starts_with("isthmus: " + file.string()))
            << outcome.text();
    }
}

TEST_F(SmallRun, CtrlCFinishesTheStepAndKeepsTheModel) {
    std::promise<void> first_step;
    std::vector<std::string> output;
    const auto started =
        ChildProcess::start({.program = ISTHMUS_PROGRAM,
                             .arguments = {"train", at("run.toml"), "--set", "train.steps=1000000",
                                           "train.eval_every=0"},
                             .on_line = [&, seen = false](std::string_view line) mutable {
                                 output.emplace_back(line);
                                 if (!seen && line.find("step 1/") != std::string_view::npos) {
                                     seen = true;
                                     first_step.set_value();
                                 }
                             }});
    ASSERT_TRUE(started);
    ASSERT_EQ(first_step.get_future().wait_for(60s), std::future_status::ready);
    started.value()->send(SIGINT);
    const auto status = started.value()->wait_within(60s);
    ASSERT_TRUE(status) << "it did not stop";
    EXPECT_EQ(status->code, 130) << status->text();
    EXPECT_TRUE(files_->exists(folder_ / "run/model/model.safetensors"));
    EXPECT_FALSE(lines("run/steps.jsonl").empty());
    ASSERT_FALSE(output.empty());
    EXPECT_NE(output.back().find("kept: "), std::string::npos) << output.back();
}

}  // namespace
}  // namespace isthmus::launch
