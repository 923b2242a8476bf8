#include "launch/sites.hpp"

#include <unistd.h>

#include <charconv>
#include <chrono>
#include <thread>

#include "base/check.hpp"
#include "base/error.hpp"
#include "base/random.hpp"
#include "launch/model_port.hpp"
#include "net/link.hpp"
#include "outer/coordinator_driver.hpp"
#include "outer/samples.hpp"
#include "outer/site_driver.hpp"

namespace isthmus::launch {

namespace {

using Clock = std::chrono::steady_clock;

/// How often a site looks for the coordinator's address before it is there.
constexpr std::chrono::milliseconds kLookAgain{20};

struct Meeting {
    std::string endpoint;
    net::RunId run;
};

/// Tells runs apart that share a machine; no secret.
net::RunId draw_run_id() {
    const auto now = std::chrono::system_clock::now().time_since_epoch().count();
    return net::RunId(
        random_bits(static_cast<std::uint64_t>(now), static_cast<std::uint64_t>(::getpid())));
}

void throw_if_failed(const Status& status, ExitCode code, std::string_view what) {
    if (!status) throw fatal(code, "{}{}", what, status.error().message);
}

Meeting parse_meeting(const std::string& line, const Path& file) {
    Meeting meeting;
    const auto space = line.find(' ');
    if (space != std::string::npos && line.ends_with('\n')) {
        meeting.endpoint = line.substr(0, space);
        const char* end = line.data() + line.size() - 1;
        const auto parsed = std::from_chars(line.data() + space + 1, end, meeting.run.value, 16);
        if (parsed.ec == std::errc() && parsed.ptr == end) return meeting;
    }
    throw fatal(ExitCode::kInput, "{}: not a coordinator's address; remove it and start again",
                file.string());
}

/// ERRORS Fatal(kPeerLost) when no coordinator has written its address within the join budget.
Meeting wait_for_meeting(const SiteRun& run, FileSystem& files) {
    const Path file = run.run_folder / kMeetingFile;
    const auto end = Clock::now() + run.outer.budget().join;
    while (!files.exists(file)) {
        if (run.stop && run.stop()) throw fatal(ExitCode::kInterrupted, "interrupted");
        if (Clock::now() > end) {
            throw fatal(ExitCode::kPeerLost,
                        "no coordinator within {:g} s: {} did not appear; start `isthmus "
                        "coordinator` with the same run folder",
                        run.outer.join_budget_s, file.string());
        }
        std::this_thread::sleep_for(kLookAgain);
    }
    const auto text = read_text(files, file, 4096);
    if (!text) throw fatal(ExitCode::kInput, "{}", text.error().message);
    return parse_meeting(*text, file);
}

}  // namespace

void run_coordinator(const CoordinatorRun& run, FileSystem& files, Log& log) {
    net::Context context;
    const net::RunId id = draw_run_id();
    const auto created =
        outer::CoordinatorDriver::create(context,
                                         {.run = id,
                                          .num_sites = static_cast<std::uint32_t>(run.outer.sites),
                                          .budget = run.outer.budget()},
                                         log);
    if (!created) throw fatal(ExitCode::kResources, "{}", created.error().message);
    outer::CoordinatorDriver& coordinator = *created.value();
    const Path file = run.run_folder / kMeetingFile;
    throw_if_failed(
        replace_file(files, file, fmt::format("{} {:016x}\n", coordinator.endpoint(), id.value)),
        ExitCode::kResources, "");
    log.info("waiting for {} sites at {}", run.outer.sites, coordinator.endpoint());
    const Status ended = coordinator.run(run.stop);
    // Whoever comes later must not find the address of nobody.
    if (const Status removed = files.remove(file); !removed) {
        log.warn("{}", removed.error().message);
    }
    if (!ended && run.stop && run.stop()) throw fatal(ExitCode::kInterrupted, "interrupted");
    throw_if_failed(ended, ExitCode::kPeerLost, "the run ended: ");
}

struct SiteMeeting::Impl {
    SiteRun run;
    FileSystem& files;
    Log& log;
    net::Context context;
    std::unique_ptr<outer::SiteDriver> driver;
    std::vector<float> buffer;  ///< parameters on their way between trainer and driver
    std::uint64_t samples_drawn = 0;
    std::uint64_t samples_reported = 0;

    Impl(SiteRun r, FileSystem& f, Log& l) : run(std::move(r)), files(f), log(l) {}

    void next_samples(std::span<SampleNumber> out) {
        const outer::SampleShare share{
            .site = run.site,
            .num_sites = static_cast<std::uint32_t>(run.outer.sites),
            .micro_batch_samples = static_cast<std::uint64_t>(run.micro_batch)};
        for (SampleNumber& sample : out) {
            sample = outer::site_sample(share, SampleNumber(samples_drawn++));
        }
    }

    /// A failure that came of our own Ctrl-C is an interruption.
    template <class T>
    void require(const Result<T>& result) {
        if (result) return;
        if (run.stop && run.stop()) throw fatal(ExitCode::kInterrupted, "interrupted");
        throw fatal(ExitCode::kPeerLost, "the run ended: {}", result.error().message);
    }

    void join(inner::Trainer& trainer) {
        const Meeting meeting = wait_for_meeting(run, files);
        TrainerPort port(trainer);
        buffer.resize(static_cast<std::size_t>(port.fragment_elements(FragmentId(0))));
        port.read(FragmentId(0), buffer);
        auto joined =
            outer::SiteDriver::join(context,
                                    {.run = meeting.run,
                                     .self = run.site,
                                     .num_sites = static_cast<std::uint32_t>(run.outer.sites),
                                     .coordinator = meeting.endpoint,
                                     .budget = run.outer.budget(),
                                     .lr = static_cast<float>(run.outer.lr),
                                     .config_hash = run.config_hash,
                                     .stop = run.stop},
                                    buffer, log);
        require(joined);
        driver = std::move(*joined);
        log.info("all {} sites are here", run.outer.sites);
    }

    void after_step(inner::Trainer& trainer, const inner::StepReport& report) {
        // After Ctrl-C the loop ends at this step, unless it was the last, and keeps the weights as
        // they are; the destructor tells the others.
        const auto told_to_stop = [&] { return report.step < run.steps && run.stop && run.stop(); };
        if (told_to_stop()) return;
        require(driver->made_step());
        if (!outer::meets_after(report.step, run.steps, run.outer.sync_every_steps)) return;
        TrainerPort port(trainer);
        port.read(FragmentId(0), buffer);
        const std::uint64_t samples = samples_drawn - samples_reported;
        const auto before = Clock::now();
        const auto met = driver->meet(buffer, samples);
        if (!met && told_to_stop()) return;
        require(met);
        samples_reported = samples_drawn;
        port.write(FragmentId(0), buffer);
        const double seconds = std::chrono::duration<double>(Clock::now() - before).count();
        const std::string hash = outer::hex(met->state);
        log.info("round {} after step {}: {:.3f} s, {:.1f} MB sent in all, state {:.16}",
                 met->round.value, report.step, seconds, static_cast<double>(met->bytes_sent) / 1e6,
                 hash);
        if (run.on_round) run.on_round(met->round, hash);
    }

    void leave() {
        require(driver->leave());
        driver.reset();
    }
};

SiteMeeting::SiteMeeting(SiteRun run, FileSystem& files, Log& log)
    : impl_(std::make_unique<Impl>(std::move(run), files, log)) {
    const SiteRun& r = impl_->run;
    if (r.site.value >= r.outer.sites) {
        throw fatal(ExitCode::kUsage,
                    "site {} is not one of outer.sites = {}: sites are counted from 0",
                    r.site.value, r.outer.sites);
    }
    CHECK(r.micro_batch > 0 && r.steps > 0);
}

SiteMeeting::~SiteMeeting() {
    if (!impl_->driver) return;
    const bool interrupted = impl_->run.stop && impl_->run.stop();
    impl_->driver->quit(interrupted ? "interrupted" : "it failed; its own last line says why");
}

TrainingHooks SiteMeeting::hooks() {
    Impl& impl = *impl_;
    return {
        .next_samples = [&](std::span<SampleNumber> out) { impl.next_samples(out); },
        .begin = [&](inner::Trainer& trainer) { impl.join(trainer); },
        .after_step = [&](inner::Trainer& trainer,
                          const inner::StepReport& report) { impl.after_step(trainer, report); },
        .end = [&](inner::Trainer&) { impl.leave(); }};
}

}  // namespace isthmus::launch
