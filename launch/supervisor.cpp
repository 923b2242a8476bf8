#include "launch/supervisor.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <mutex>
#include <thread>

#include "base/error.hpp"
#include "base/process.hpp"
#include "launch/run_folder.hpp"

namespace isthmus::launch {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLook{50};
/// A site finishes its step when it is told to stop; after this it is killed.
constexpr std::chrono::seconds kGrace{20};
/// When one is lost the coordinator tells the others, whose own words are better than a signal's.
constexpr std::chrono::seconds kOwnWords{5};
/// Between two tries of a coordinator whose disk refuses.
constexpr std::chrono::seconds kDiskAgain{5};

struct Child {
    std::string name, label;  ///< label: in front of its lines
    std::vector<std::string> arguments = {};
    std::int64_t threads = 1;
    std::string last_error = {};  ///< its line "isthmus: ..."; guarded by the supervisor's mutex
    std::unique_ptr<ChildProcess> process = {};
    std::optional<ExitStatus> ended = {};
    int restarts = 0;
    bool left_behind = false;  ///< lost for good; the others go on
    std::optional<Clock::time_point> again_at = {};

    bool is_coordinator() const { return name == "coordinator"; }
};

class Supervisor {
  public:
    Supervisor(const SupervisedRun& run, Log& log) : run_(run), log_(log) {}

    void supervise() {
        std::size_t width = std::string_view("coordinator").size();
        for (const std::string& site : run_.sites) width = std::max(width, site.size());
        add("coordinator", run_.coordinator_arguments, 1, width);
        const std::int64_t threads = threads_per_site();
        for (const std::string& site : run_.sites)
            add(site, run_.site_arguments(site, threads), threads, width);
        for (auto& child : children_) start(*child);
        while (!all_ended()) {
            if (run_.stop && run_.stop()) interrupt();
            look();
            for (auto& child : children_) judge(*child);
        }
    }

  private:
    std::int64_t threads_per_site() const {
        const std::int64_t cores =
            run_.threads > 0 ? run_.threads : std::max(1u, std::thread::hardware_concurrency());
        return std::max<std::int64_t>(1, cores / static_cast<std::int64_t>(run_.sites.size()));
    }

    void add(const std::string& name, std::vector<std::string> arguments, std::int64_t threads,
             std::size_t width) {
        children_.push_back(
            std::make_unique<Child>(Child{.name = name,
                                          .label = fmt::format("{:<{}}", name, width),
                                          .arguments = std::move(arguments),
                                          .threads = threads}));
    }

    void start(Child& child) {
        child.ended.reset();
        child.again_at.reset();
        {
            const std::lock_guard lock(output_);
            child.last_error.clear();
        }
        // libgomp reads these when it is loaded. Passive: a site's idle threads leave the core to
        // the other sites.
        auto started = ChildProcess::start(
            {.program = run_.program,
             .arguments = child.arguments,
             .environment = {{"OMP_NUM_THREADS", std::to_string(child.threads)},
                             {"OMP_WAIT_POLICY", "passive"}},
             .on_line = [this, c = &child](std::string_view line) { pass_on(*c, line); }});
        if (!started) throw fatal(ExitCode::kResources, "{}", started.error().message);
        child.process = std::move(*started);
    }

    void pass_on(Child& child, std::string_view line) {
        const std::lock_guard lock(output_);
        constexpr std::string_view kError = "isthmus: ";
        if (line.starts_with(kError)) child.last_error = line.substr(kError.size());
        std::fprintf(stderr, "%s | %.*s\n", child.label.c_str(), static_cast<int>(line.size()),
                     line.data());
    }

    static bool failed(const Child& child) {
        return child.ended && !child.ended->ok() && !child.left_behind && !child.again_at;
    }
    /// Failed of itself, not because it heard that another was lost.
    static bool failed_first(const Child& child) {
        return failed(child) && (child.ended->signal != 0 ||
                                 child.ended->code != static_cast<int>(ExitCode::kPeerLost));
    }
    template <class Predicate>
    const Child* find(Predicate p) const {
        for (const auto& child : children_) {
            if (p(*child)) return child.get();
        }
        return nullptr;
    }
    bool all_ended() const {
        return !find([](const Child& child) { return !child.ended || child.again_at; });
    }
    /// Some site trains, or has trained to the end.
    bool others_go_on() const {
        return find([](const Child& c) {
            return !c.is_coordinator() && (!c.ended || c.again_at || c.ended->ok());
        });
    }
    bool rounds_were_made() const {
        std::error_code error;
        const auto bytes = std::filesystem::file_size(run_.run_folder / kRoundsName, error);
        return !error && bytes > 0;
    }
    bool run_is_over() const {
        return find([](const Child& c) { return c.is_coordinator() && c.ended && c.ended->ok(); });
    }

    void look() {
        for (auto& child : children_) {
            if (!child->ended) child->ended = child->process->wait_within(kLook);
        }
    }

    /// What becomes of a child that ended badly.
    void judge(Child& child) {
        if (child.again_at && Clock::now() >= *child.again_at) return start(child);
        if (!failed(child)) return;
        const bool killed = child.ended->signal != 0;
        if (killed && child.restarts < run_.restarts && !run_is_over()) {
            ++child.restarts;
            log_.warn("{} was {}; it is started again ({} of {})", child.name, child.ended->text(),
                      child.restarts, run_.restarts);
            return start(child);
        }
        const bool disk = child.ended->code == static_cast<int>(ExitCode::kResources);
        if (child.is_coordinator() && !killed && disk && rounds_were_made()) {
            log_.warn("the run pauses; the coordinator is started again every {} s",
                      kDiskAgain.count());
            child.again_at = Clock::now() + kDiskAgain;
            return;
        }
        // Before the first round a site that is missing is one that the run was to have.
        if (child.is_coordinator() || !rounds_were_made() || !others_go_on()) end();
        child.left_behind = true;
        log_.warn("site {} is lost ({}); the others go on without it", child.name, why(child));
    }

    std::string why(const Child& child) {
        const std::lock_guard lock(output_);
        if (child.ended->signal != 0 || child.last_error.empty()) return child.ended->text();
        return child.last_error;
    }

    template <class Predicate>
    void look_until(std::chrono::milliseconds limit, Predicate enough) {
        const auto end = Clock::now() + limit;
        while (!enough() && !all_ended() && Clock::now() < end) look();
    }

    void stop_all(std::chrono::milliseconds grace) {
        for (auto& child : children_) {
            child->again_at.reset();
            if (!child->ended) child->process->send(SIGTERM);
        }
        look_until(grace, [] { return false; });
        for (auto& child : children_) {
            if (!child->ended) child->ended = child->process->stop_within({});
        }
    }

    [[noreturn]] void interrupt() {
        log_.info("interrupted: the sites finish their step");
        stop_all(kGrace);
        throw fatal(
            ExitCode::kInterrupted,
            "interrupted; all {} processes of the run have ended; kept in {}: the records of "
            "each site, and in {}NAME/{} its weights after its last step",
            children_.size(), run_.run_folder.string(), kSitePrefix, kModelName);
    }

    /// Ends the others and throws what is to be said. Who only heard of a loss is
    /// not the one to name, so the one who was lost gets a moment to be seen; if there is none, as
    /// when sites do not fit together, the coordinator's own words say it best: it comes first.
    [[noreturn]] void end() {
        look_until(kOwnWords, [&] { return find(failed_first) != nullptr; });
        const Child* first = find(failed_first);
        const Child& named = first ? *first : *find(failed);
        const bool killed = named.ended->signal != 0;
        const int code = named.ended->code;
        const std::string reason = why(named);
        const std::string name = (named.is_coordinator() ? "" : "site ") + named.name;
        stop_all(kOwnWords);
        if (!first) throw fatal(ExitCode::kPeerLost, "{}: {}", name, reason);
        throw fatal(killed ? ExitCode::kPeerLost : static_cast<ExitCode>(code),
                    "{} was lost ({}); the other processes of the run have been stopped", name,
                    reason);
    }

    const SupervisedRun& run_;
    Log& log_;
    std::mutex output_;
    std::vector<std::unique_ptr<Child>> children_;
};

}  // namespace

void supervise_run(const SupervisedRun& run, Log& log) {
    Supervisor(run, log).supervise();
}

}  // namespace isthmus::launch
