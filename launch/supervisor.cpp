// The part of sites.hpp that starts the others and watches over them.
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
#include "launch/sites.hpp"

namespace isthmus::launch {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLook{50};
/// A site finishes its step when it is told to stop; after this it is killed.
constexpr std::chrono::seconds kGrace{20};
/// When one is lost the coordinator tells the others, whose own words are better than a signal's.
constexpr std::chrono::seconds kOwnWords{5};

struct Child {
    std::string name;
    std::string last_error = {};  ///< its line "isthmus: ..."; guarded by the supervisor's mutex
    std::unique_ptr<ChildProcess> process = {};
    std::optional<ExitStatus> ended = {};
};

class Supervisor {
  public:
    Supervisor(const SupervisedRun& run, Log& log) : run_(run), log_(log) {}

    void supervise(FileSystem& files) {
        const Path meeting = run_.run_folder / kMeetingFile;
        if (files.exists(meeting)) {  // of a run that was killed
            if (const Status removed = files.remove(meeting); !removed) {
                throw fatal(ExitCode::kResources, "{}", removed.error().message);
            }
        }
        start("coordinator", run_.coordinator_arguments, 1);
        const std::int64_t threads = threads_per_site();
        for (std::uint32_t s = 0; s < run_.outer.sites; ++s) {
            start(fmt::format("site {}", s), run_.site_arguments(SiteId(s), threads), threads);
        }
        while (!all_ended()) {
            if (run_.stop && run_.stop()) interrupt();
            look();
            if (any_failed()) end();
        }
    }

  private:
    std::int64_t threads_per_site() const {
        const std::int64_t cores =
            run_.threads > 0 ? run_.threads : std::max(1u, std::thread::hardware_concurrency());
        return std::max<std::int64_t>(1, cores / run_.outer.sites);
    }

    void start(const std::string& name, std::vector<std::string> arguments, std::int64_t threads) {
        auto child = std::make_unique<Child>(Child{.name = name});
        // libgomp reads these when it is loaded. Passive: a site's idle threads leave the core to
        // the other sites.
        auto started = ChildProcess::start(
            {.program = run_.program,
             .arguments = std::move(arguments),
             .environment = {{"OMP_NUM_THREADS", std::to_string(threads)},
                             {"OMP_WAIT_POLICY", "passive"}},
             .on_line = [this, c = child.get()](std::string_view line) { pass_on(*c, line); }});
        if (!started) throw fatal(ExitCode::kResources, "{}", started.error().message);
        child->process = std::move(*started);
        children_.push_back(std::move(child));
    }

    void pass_on(Child& child, std::string_view line) {
        const std::lock_guard lock(output_);
        constexpr std::string_view kError = "isthmus: ";
        if (line.starts_with(kError)) child.last_error = line.substr(kError.size());
        std::fprintf(stderr, "%-11s | %.*s\n", child.name.c_str(), static_cast<int>(line.size()),
                     line.data());
    }

    static bool failed(const Child& child) { return child.ended && !child.ended->ok(); }
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
    bool any_failed() const { return find(failed) != nullptr; }
    bool all_ended() const {
        return !find([](const Child& child) { return !child.ended; });
    }

    void look() {
        for (auto& child : children_) {
            if (!child->ended) child->ended = child->process->wait_within(kLook);
        }
    }

    template <class Predicate>
    void look_until(std::chrono::milliseconds limit, Predicate enough) {
        const auto end = Clock::now() + limit;
        while (!enough() && !all_ended() && Clock::now() < end) look();
    }

    void stop_all(std::chrono::milliseconds grace) {
        for (auto& child : children_) {
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
            "each site, and in model/ the weights of site 0 after its last step",
            children_.size(), run_.run_folder.string());
    }

    /// One has failed: ends the others and throws what is to be said. Who only heard of a loss is
    /// not the one to name, so the one who was lost gets a moment to be seen; if there is none, as
    /// when sites do not fit together, the coordinator's own words say it best: it comes first.
    [[noreturn]] void end() {
        look_until(kOwnWords, [&] { return find(failed_first) != nullptr; });
        const Child* first = find(failed_first);
        const Child& named = first ? *first : *find(failed);
        stop_all(kOwnWords);
        std::string why;
        {
            const std::lock_guard lock(output_);
            why = named.last_error;
        }
        const bool killed = named.ended->signal != 0;
        if (killed || why.empty()) why = named.ended->text();
        if (!first) throw fatal(ExitCode::kPeerLost, "{}: {}", named.name, why);
        throw fatal(killed ? ExitCode::kPeerLost : static_cast<ExitCode>(named.ended->code),
                    "{} was lost ({}); the other processes of the run have been stopped",
                    named.name, why);
    }

    const SupervisedRun& run_;
    Log& log_;
    std::mutex output_;
    std::vector<std::unique_ptr<Child>> children_;
};

}  // namespace

void supervise_run(const SupervisedRun& run, FileSystem& files, Log& log) {
    Supervisor(run, log).supervise(files);
}

}  // namespace isthmus::launch
