// Runs of several sites as real processes: what they end with, and how they end when one is killed.
#include "launch/sites.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "launch/hugging_face_folder.hpp"
#include "launch/model_port.hpp"
#include "launch/run_config.hpp"
#include "launch/run_folder.hpp"
#include "outer/outer_step.hpp"
#include "tests/launch/support/program.hpp"
#include "tests/launch/support/sites_run.hpp"

namespace isthmus::launch {
namespace {

using namespace std::chrono_literals;
using test::all_gone;
using test::child_with;
using test::children_of;
using test::Program;
using test::SitesRun;

constexpr const char* kTwo = "sites = [\"paris\", \"oslo\"]\n";
constexpr const char* kThree = "sites = [\"paris\", \"oslo\", \"rome\"]\n";

/// One site of in_one_process.
struct Replica {
    std::unique_ptr<inner::Trainer> trainer;
    std::uint64_t next_sample = 0;
    std::int64_t tokens = 0;
};

/// The same averaging in one process: sites take turns, one loop takes the mean, weighted by
/// tokens. At each meeting the samples of the next interval are dealt out in the order of the
/// sites.
std::vector<float> in_one_process(FileSystem& files, RunConfig config) {
    config.train.threads = 1;
    const auto data = inner::TokenFile::open(files, config.data);
    std::vector<Replica> replicas(config.outer.sites.size());
    for (Replica& r : replicas) {
        r.trainer = inner::Trainer::create(config.model, config.train, config.optim, *data,
                                           [&r](std::span<SampleNumber> out) {
                                               for (auto& n : out)
                                                   n = SampleNumber(r.next_sample++);
                                           });
    }
    const FragmentId all(0);
    const auto n = static_cast<std::size_t>(replicas[0].trainer->layout().count());
    std::vector<float> anchor(n), local(n), sum(n);
    TrainerPort(*replicas[0].trainer).read(all, 0, anchor);
    std::uint64_t dealt = 0;
    std::int64_t step = 0;
    for (const std::int64_t meeting : config.meetings()) {
        std::fill(sum.begin(), sum.end(), 0.0f);
        float total = 0;
        for (Replica& r : replicas) {
            r.next_sample = dealt;
            dealt += static_cast<std::uint64_t>((meeting - step) * config.samples_per_step());
            std::int64_t tokens = 0;
            for (std::int64_t i = step; i < meeting; ++i) tokens += r.trainer->step().tokens;
            TrainerPort(*r.trainer).read(all, 0, local);
            outer::pseudo_gradient(anchor, local, local);
            outer::accumulate(sum, static_cast<float>(tokens), local);
            total += static_cast<float>(tokens);
        }
        outer::divide(sum, total);
        outer::outer_step(config.outer.outer_optimizer(), anchor, {}, sum);
        for (Replica& r : replicas) {
            TrainerPort(*r.trainer).write(all, 0, anchor);
            r.trainer->parameters_changed();
        }
        step = meeting;
    }
    return anchor;
}

std::vector<float> saved_parameters(FileSystem& files, const Path& folder) {
    const ModelFolder model = load_model_folder(files, folder);
    std::vector<float> all;
    for (std::uint32_t u = 0; u < model.layout.units.size(); ++u) {
        std::vector<float> unit(static_cast<std::size_t>(model.layout[UnitId(u)].count));
        model.read_unit(UnitId(u), unit);
        all.insert(all.end(), unit.begin(), unit.end());
    }
    return all;
}

std::string digest_of(const std::vector<float>& parameters) {
    outer::Digester digester;
    digester.update(std::span<const float>(parameters));
    return outer::hex(digester.finish());
}

void expect_the_bits_of_one_process(FileSystem& files, const Path& file, std::uint64_t rounds) {
    const RunConfig config = load_run_config(files, file, {});
    Program train({"train", file.string()});
    EXPECT_TRUE(train.end().ok()) << train.text();
    const std::vector<float> expected = in_one_process(files, config);
    EXPECT_EQ(saved_parameters(files, config.folder() / "model"), expected) << train.text();
    for (const std::string& site : config.outer.sites) {
        const auto end = read_site_end(files, site_folder(config.folder(), site));
        ASSERT_TRUE(end) << end.error().message << train.text();
        EXPECT_EQ(end->round, rounds);
        EXPECT_EQ(end->parameters, digest_of(expected));
        EXPECT_NE(train.text().find("hold state " + end->state), std::string::npos);
    }
    EXPECT_FALSE(files.exists(config.folder() / kAddressName));
}

TEST_F(SitesRun, TwoSitesEndWithTheBitsOfOneProcess) {
    // The last meeting comes after two steps only.
    const Path file = write_config(12, std::string(kTwo) + "sync_every_steps = 5\n");
    expect_the_bits_of_one_process(*files_, file, 3);
}

TEST_F(SitesRun, ThreeSitesEndWithTheBitsOfOneProcess) {
    const Path file = write_config(4, std::string(kThree) + "sync_every_steps = 2\n");
    expect_the_bits_of_one_process(*files_, file, 2);
}

TEST_F(SitesRun, BehindAnEmulatedLinkTheBitsAreTheSame) {
    const Path file =
        write_config(6, std::string(kTwo) +
                            "sync_every_steps = 3\n[link]\nrate = \"20mbit\"\nlatency = \"5ms\"\n");
    expect_the_bits_of_one_process(*files_, file, 2);
}

TEST_F(SitesRun, FromNothingInThreeCommands) {
    const std::string run = (folder_ / "mine").string();
    Program made({"new", run, "--data", (folder_ / "data").string(), "--sites", "paris,oslo",
                  "--folder", run_.string()});
    ASSERT_TRUE(made.end().ok()) << made.text();
    Program train({"train", run + ".toml", "--set", "train.steps=4", "optim.warmup_steps=2",
                   "outer.sync_every_steps=2", "train.batch=1", "train.eval_every=0",
                   "train.eval_windows=1", "train.sequence=16", "train.threads=2"});
    ASSERT_TRUE(train.end().ok()) << train.text();
    EXPECT_NE(train.text().find("2 rounds, "), std::string::npos) << train.text();

    Program status({"status", run_.string(), "--json"});
    ASSERT_TRUE(status.end().ok()) << status.text();
    const auto json = nlohmann::json::parse(status.text());
    EXPECT_EQ(json["phase"], "ended");
    EXPECT_EQ(json["round"], 2);
    EXPECT_EQ(json["sites"][1]["name"], "oslo");
    EXPECT_EQ(json["sites"][1]["bytes_sent"], json["predicted"]["bytes_sent"]) << train.text();
}

TEST_F(SitesRun, AnOperatorPausesResumesAndDrains) {
    const Path file = write_config(1'000'000, std::string(kTwo) + "sync_every_steps = 5\n");
    Program train({"train", file.string()});
    ASSERT_TRUE(train.says("round 2 after"));
    const auto ctl = [&](std::vector<std::string> words) {
        words.insert(words.begin(), {"ctl", run_.string()});
        Program program(std::move(words));
        EXPECT_TRUE(program.end().ok()) << program.text();
    };
    ctl({"pause"});
    EXPECT_TRUE(train.says("paused by an operator"));
    ctl({"resume"});
    EXPECT_TRUE(train.says("resumed by an operator"));
    ctl({"drain", "oslo"});
    EXPECT_TRUE(train.says("drained at round"));
    ::kill(train.process().pid(), SIGINT);
    EXPECT_EQ(train.end().code, static_cast<int>(ExitCode::kInterrupted)) << train.text();
}

class KilledRun : public SitesRun {
  protected:
    std::string endless_ = std::string(kTwo) + "sync_every_steps = 10\n";
};

TEST_F(KilledRun, ASiteIsStartedAgainAndTheRunEndsWell) {
    const Path file = write_config(400, std::string(kTwo) + "sync_every_steps = 5\n");
    Program train({"train", file.string()});
    ASSERT_TRUE(train.says("round 2 after"));
    ::kill(child_with(train.process().pid(), "--name oslo"), SIGKILL);
    EXPECT_TRUE(train.says("it is started again (1 of 3)"));
    EXPECT_TRUE(train.end().ok()) << train.text();
    EXPECT_NE(train.text().find("all 2 sites hold state"), std::string::npos) << train.text();
}

TEST_F(KilledRun, ACoordinatorIsStartedAgainAndTheRunEndsWell) {
    const Path file = write_config(400, std::string(kTwo) + "sync_every_steps = 5\n");
    Program train({"train", file.string()});
    ASSERT_TRUE(train.says("round 2 after"));
    ::kill(child_with(train.process().pid(), "coordinator"), SIGKILL);
    EXPECT_TRUE(train.says("it is started again (1 of 3)"));
    EXPECT_TRUE(train.end().ok()) << train.text();
    EXPECT_NE(train.text().find("all 2 sites hold state"), std::string::npos) << train.text();
}

TEST_F(KilledRun, ACoordinatorOnceTooOftenEndsAll) {
    const Path file = write_config(1'000'000, endless_);
    Program train({"train", file.string(), "--restarts", "0"});
    ASSERT_TRUE(train.says("round 2 after"));
    const auto children = children_of(train.process().pid());
    EXPECT_EQ(children.size(), 3u);
    ::kill(child_with(train.process().pid(), "coordinator"), SIGKILL);
    EXPECT_EQ(train.end().code, static_cast<int>(ExitCode::kPeerLost)) << train.text();
    EXPECT_EQ(train.last_line(),
              "isthmus: coordinator was lost (killed by signal 9 (Killed)); the other processes of "
              "the run have been stopped");
    EXPECT_TRUE(all_gone(children));
}

TEST_F(KilledRun, TheSupervisorLeavesNobodyBehind) {
    const Path file = write_config(1'000'000, endless_);
    Program train({"train", file.string()});
    ASSERT_TRUE(train.says("round 1 after"));
    const auto children = children_of(train.process().pid());
    ::kill(train.process().pid(), SIGKILL);
    EXPECT_EQ(train.end().signal, SIGKILL);
    EXPECT_TRUE(all_gone(children));
}

TEST_F(KilledRun, CtrlCEndsAllWith130) {
    const Path file = write_config(1'000'000, endless_);
    Program train({"train", file.string()});
    ASSERT_TRUE(train.says("round 1 after"));
    const auto children = children_of(train.process().pid());
    EXPECT_EQ(children.size(), 3u);
    ::kill(train.process().pid(), SIGINT);
    EXPECT_EQ(train.end().code, static_cast<int>(ExitCode::kInterrupted)) << train.text();
    EXPECT_TRUE(train.last_line().starts_with(
        "isthmus: interrupted; all 3 processes of the run have ended; kept in "))
        << train.last_line();
    EXPECT_TRUE(all_gone(children));
}

TEST_F(SitesRun, ASiteThatDiffersIsRefusedWithTheKeys) {
    const std::string file =
        write_config(1'000'000, std::string(kTwo) + "sync_every_steps = 10\n").string();
    Program coordinator({"coordinator", file});
    Program paris({"site", file, "--name", "paris"});
    Program oslo({"site", file, "--name", "oslo", "--set", "optim.lr=0.1"});
    EXPECT_EQ(oslo.end().code, static_cast<int>(ExitCode::kPeerLost));
    EXPECT_NE(oslo.last_line().find("optim.lr = 0.1 there, 0.002 here"), std::string::npos)
        << oslo.text();
}

TEST_F(SitesRun, ASiteThatTheRunDoesNotHaveIsRefused) {
    const std::string file =
        write_config(10, std::string(kTwo) + "sync_every_steps = 5\n").string();
    Program rome({"site", file, "--name", "pariz"});
    EXPECT_EQ(rome.end().code, static_cast<int>(ExitCode::kUsage));
    EXPECT_NE(rome.last_line().find("did you mean paris?"), std::string::npos) << rome.text();
}

}  // namespace
}  // namespace isthmus::launch
