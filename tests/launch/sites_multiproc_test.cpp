// Runs of several sites as real processes: what they end with, and how they end when one is killed.
#include "launch/sites.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <sstream>

#include "base/error.hpp"
#include "base/process.hpp"
#include "inner/data/prepare.hpp"
#include "launch/hugging_face_folder.hpp"
#include "launch/model_port.hpp"
#include "launch/run_config.hpp"
#include "outer/outer_step.hpp"
#include "outer/samples.hpp"
#include "tests/support/temporary_folder.hpp"

namespace isthmus::launch {
namespace {

using namespace std::chrono_literals;
/// A bound for what takes a second on an idle machine.
constexpr auto kSoon = 60s;

/// A program of ours and what it has written so far.
class Program {
  public:
    explicit Program(std::vector<std::string> arguments) {
        auto started = ChildProcess::start({.program = ISTHMUS_PROGRAM,
                                            .arguments = std::move(arguments),
                                            .environment = {{"OMP_NUM_THREADS", "1"}},
                                            .on_line = [this](std::string_view line) {
                                                const std::lock_guard lock(mutex_);
                                                text_ += std::string(line) + "\n";
                                                changed_.notify_all();
                                            }});
        CHECK(started, "{}", started.error().message);
        process_ = std::move(started).value();
    }
    /// Waits until it has written this.
    testing::AssertionResult says(const std::string& what) {
        std::unique_lock lock(mutex_);
        const bool said =
            changed_.wait_for(lock, kSoon, [&] { return text_.find(what) != std::string::npos; });
        if (said) return testing::AssertionSuccess();
        return testing::AssertionFailure() << "no \"" << what << "\" in:\n" << text_;
    }
    ExitStatus end() {
        const auto status = process_->wait_within(kSoon);
        if (status) return *status;
        ADD_FAILURE() << "still running after " << kSoon.count() << " s:\n" << text();
        return process_->stop_within(0ms);
    }
    std::string text() {
        const std::lock_guard lock(mutex_);
        return text_;
    }
    std::string last_line() {
        std::istringstream lines(text());
        std::string last;
        for (std::string line; std::getline(lines, line);) last = line;
        return last;
    }
    ChildProcess& process() { return *process_; }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::string text_;
    std::unique_ptr<ChildProcess> process_;
};

std::string read_proc(int pid, const std::string& what) {
    std::ifstream file(fmt::format("/proc/{}/{}", pid, what), std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    std::string out = text.str();
    std::replace(out.begin(), out.end(), '\0', ' ');
    return out;
}

/// Children of any of a process's threads.
std::vector<int> children_of(int pid) {
    std::vector<int> children;
    for (const auto& task :
         std::filesystem::directory_iterator(fmt::format("/proc/{}/task", pid))) {
        std::ifstream file(task.path() / "children");
        for (int child = 0; file >> child;) children.push_back(child);
    }
    return children;
}

/// The child of `pid` whose command line contains `what`.
int child_with(int pid, const std::string& what) {
    for (int child : children_of(pid)) {
        if (read_proc(child, "cmdline").find(what) != std::string::npos) return child;
    }
    ADD_FAILURE() << "no child of " << pid << " with " << what;
    return 0;
}

/// Whether all have ended, within a bound.
testing::AssertionResult all_gone(const std::vector<int>& pids) {
    for (int pid : pids) {
        const auto descriptor = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
        if (descriptor < 0) continue;  // gone
        pollfd waited{.fd = descriptor, .events = POLLIN, .revents = 0};
        const int ended = ::poll(&waited, 1, static_cast<int>(kSoon / 1ms));
        ::close(descriptor);
        if (ended != 1) {
            return testing::AssertionFailure() << pid << " lives: " << read_proc(pid, "cmdline");
        }
    }
    return testing::AssertionSuccess();
}

class SitesRun : public testing::Test {
  protected:
    void SetUp() override {
        std::ofstream text(folder_.path() / "text.txt");
        for (int i = 0; i < 4000; ++i) text << "line " << i * i << " of many\n";
        text.close();
        inner::PrepareOptions prepare;
        prepare.inputs = {folder_.path() / "text.txt"};
        prepare.out = folder_.path() / "data";
        inner::prepare(*files_, prepare);
    }
    Path write_config(std::int64_t steps, const std::string& outer) {
        const Path file = folder_.path() / "run.toml";
        std::ofstream(file)
            << "data = \"" << (folder_.path() / "data").string() << "\"\n"
            << "run_folder = \"" << run_.string() << "\"\n"
            << "[model]\npreset = \"custom\"\nfamily = \"llama\"\nvocab = 256\n"
               "d_model = 32\nnum_layers = 2\nnum_heads = 2\nnum_kv_heads = 2\n"
               "ffn_dim = 64\ncontext = 32\n"
            << "[train]\nsteps = " << steps
            << "\nbatch = 3\nthreads = 1\naccumulate = 2\neval_every = 0\neval_windows = 2\n"
            << "[optim]\nwarmup_steps = 3\n[outer]\n"
            << outer;
        return file;
    }

    test::TemporaryFolder folder_;
    Path run_ = folder_.path() / "run";
    std::unique_ptr<FileSystem> files_ = posix_files();
};

/// The same averaging in one process: sites take turns, one loop takes the mean.
std::vector<float> in_one_process(FileSystem& files, RunConfig config) {
    config.train.threads = 1;
    const auto sites = static_cast<std::uint32_t>(config.outer.sites);
    const auto data = inner::TokenFile::open(files, config.data);
    std::vector<std::unique_ptr<inner::Trainer>> trainers;
    std::vector<std::uint64_t> drawn(sites, 0);
    for (std::uint32_t s = 0; s < sites; ++s) {
        const outer::SampleShare share{SiteId(s), sites,
                                       static_cast<std::uint64_t>(config.train.batch)};
        trainers.push_back(
            inner::Trainer::create(config.model, config.train, config.optim, *data,
                                   [share, &own = drawn[s]](std::span<SampleNumber> out) {
                                       for (auto& n : out)
                                           n = outer::site_sample(share, SampleNumber(own++));
                                   }));
    }
    const FragmentId all(0);
    const auto n = static_cast<std::size_t>(TrainerPort(*trainers[0]).fragment_elements(all));
    std::vector<float> anchor(n), local(n), sum(n);
    TrainerPort(*trainers[0]).read(all, anchor);
    for (std::int64_t step = 1; step <= config.train.steps; ++step) {
        for (auto& trainer : trainers) trainer->step();
        if (step % config.outer.sync_every_steps != 0 && step != config.train.steps) continue;
        std::fill(sum.begin(), sum.end(), 0.0f);
        for (auto& trainer : trainers) {
            TrainerPort(*trainer).read(all, local);
            for (std::size_t i = 0; i < n; ++i) sum[i] += anchor[i] - local[i];
        }
        for (std::size_t i = 0; i < n; ++i) anchor[i] -= sum[i] / static_cast<float>(sites);
        for (auto& trainer : trainers) TrainerPort(*trainer).write(all, anchor);
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

void expect_the_bits_of_one_process(FileSystem& files, const Path& file, int sites, int rounds) {
    const RunConfig config = load_run_config(files, file, {});
    Program train({"train", file.string()});
    EXPECT_TRUE(train.end().ok()) << train.text();
    const std::vector<float> expected = in_one_process(files, config);
    EXPECT_EQ(saved_parameters(files, config.folder() / "model"), expected);
    const std::string hash = outer::hex(outer::hash_state(expected)).substr(0, 16);
    for (int s = 0; s < sites; ++s) {
        bool found = false;
        std::istringstream lines(train.text());
        for (std::string line; std::getline(lines, line);) {
            found |= line.starts_with(fmt::format("site {} ", s)) &&
                     line.find(fmt::format("round {} after", rounds)) != std::string::npos &&
                     line.ends_with("state " + hash);
        }
        EXPECT_TRUE(found) << "site " << s << " does not end with " << hash << ":\n"
                           << train.text();
    }
    EXPECT_FALSE(files.exists(config.folder() / kMeetingFile));
}

TEST_F(SitesRun, TwoSitesEndWithTheBitsOfOneProcess) {
    // The last meeting comes after two steps only.
    const Path file = write_config(12, "sites = 2\nsync_every_steps = 5\n");
    expect_the_bits_of_one_process(*files_, file, 2, 3);
}

TEST_F(SitesRun, ThreeSitesEndWithTheBitsOfOneProcess) {
    const Path file = write_config(4, "sites = 3\nsync_every_steps = 2\n");
    expect_the_bits_of_one_process(*files_, file, 3, 2);
}

class KilledRun : public SitesRun {
  protected:
    /// Kills the child of a supervised run whose command line contains `what`, after two rounds.
    void kill_one(const std::string& what, const std::string& expected_name, int every_steps) {
        const Path file =
            write_config(1'000'000, fmt::format("sites = 2\nsync_every_steps = {}\n", every_steps));
        Program train({"train", file.string()});
        ASSERT_TRUE(train.says("round 2 committed"));
        const auto children = children_of(train.process().pid());
        EXPECT_EQ(children.size(), 3u);
        const int victim = child_with(train.process().pid(), what);
        ASSERT_GT(victim, 0);
        const auto killed_at = std::chrono::steady_clock::now();
        ::kill(victim, SIGKILL);
        const ExitStatus status = train.end();
        EXPECT_LT(std::chrono::steady_clock::now() - killed_at, 30s);
        EXPECT_EQ(status.code, static_cast<int>(ExitCode::kPeerLost)) << train.text();
        EXPECT_EQ(train.last_line(), fmt::format("isthmus: {} was lost (killed by signal 9 "
                                                 "(Killed)); the other processes of the run have "
                                                 "been stopped",
                                                 expected_name));
        EXPECT_TRUE(all_gone(children));
    }
};

TEST_F(KilledRun, ASiteThatMeetsAfterEveryStep) {
    kill_one("--site 1", "site 1", 1);
}

TEST_F(KilledRun, ASiteThatTrainsMostOfTheTime) {
    kill_one("--site 0", "site 0", 50);
}

TEST_F(KilledRun, TheCoordinator) {
    kill_one("coordinator", "coordinator", 10);
}

TEST_F(KilledRun, TheSupervisorLeavesNobodyBehind) {
    const Path file = write_config(1'000'000, "sites = 2\nsync_every_steps = 10\n");
    Program train({"train", file.string()});
    ASSERT_TRUE(train.says("round 1 committed"));
    const auto children = children_of(train.process().pid());
    ::kill(train.process().pid(), SIGKILL);
    EXPECT_EQ(train.end().signal, SIGKILL);
    EXPECT_TRUE(all_gone(children));
}

TEST_F(KilledRun, CtrlCEndsAllWith130) {
    const Path file = write_config(1'000'000, "sites = 2\nsync_every_steps = 10\n");
    Program train({"train", file.string()});
    ASSERT_TRUE(train.says("round 1 committed"));
    const auto children = children_of(train.process().pid());
    EXPECT_EQ(children.size(), 3u);
    ::kill(train.process().pid(), SIGINT);
    EXPECT_EQ(train.end().code, static_cast<int>(ExitCode::kInterrupted)) << train.text();
    EXPECT_TRUE(train.last_line().starts_with(
        "isthmus: interrupted; all 3 processes of the run have ended; kept in "))
        << train.last_line();
    EXPECT_TRUE(all_gone(children));
}

/// Without a supervisor, as on several machines: processes find a loss out by themselves.
class AloneRun : public SitesRun {
  protected:
    void start() {
        file_ = write_config(1'000'000, "sites = 2\nsync_every_steps = 10\nround_budget_s = 8\n")
                    .string();
        // The order of start does not matter.
        for (int s = 0; s < 2; ++s) {
            sites_.push_back(std::make_unique<Program>(
                std::vector<std::string>{"site", file_, "--site", std::to_string(s)}));
        }
        coordinator_ = std::make_unique<Program>(std::vector<std::string>{"coordinator", file_});
        ASSERT_TRUE(coordinator_->says("round 2 committed"));
    }
    static void expect_lost(Program& program, const std::string& why) {
        EXPECT_EQ(program.end().code, static_cast<int>(ExitCode::kPeerLost)) << program.text();
        EXPECT_TRUE(program.last_line().starts_with("isthmus: the run ended: " + why))
            << program.last_line();
    }
    std::string file_;
    std::vector<std::unique_ptr<Program>> sites_;
    std::unique_ptr<Program> coordinator_;
};

TEST_F(AloneRun, AKilledSiteIsNamedByAllOthers) {
    start();
    ::kill(sites_[1]->process().pid(), SIGKILL);
    expect_lost(*coordinator_, "site 1 is lost: nothing heard of it for 2.");
    expect_lost(*sites_[0], "site 1 is lost: nothing heard of it for 2.");
}

TEST_F(AloneRun, AKilledCoordinatorIsNamedByAllSites) {
    start();
    ::kill(coordinator_->process().pid(), SIGKILL);
    for (auto& site : sites_) {
        expect_lost(*site, "the coordinator is lost: nothing heard of it for 2.");
    }
}

}  // namespace
}  // namespace isthmus::launch
