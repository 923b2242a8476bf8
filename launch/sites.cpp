#include "launch/sites.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/check.hpp"
#include "base/error.hpp"
#include "base/random.hpp"
#include "launch/emulated_links.hpp"
#include "launch/meeting_place.hpp"
#include "launch/model_port.hpp"
#include "launch/random_number.hpp"
#include "launch/round_records.hpp"
#include "launch/run_folder.hpp"
#include "launch/run_keys.hpp"
#include "launch/shared_config.hpp"
#include "launch/test_faults.hpp"
#include "net/address.hpp"
#include "outer/outer_step.hpp"
#include "outer/site_driver.hpp"

namespace isthmus::launch {

namespace {

using Clock = std::chrono::steady_clock;
using outer::SiteDriver;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

/// "HOST:PORT" as an endpoint.
std::string endpoint_of(const std::string& address) {
    const auto parsed = net::parse_host_port(address);
    if (!parsed) throw fatal(ExitCode::kUsage, "coordinator: {}", parsed.error().message);
    if (parsed->port == 0) {
        throw fatal(ExitCode::kUsage,
                    "coordinator {}: port 0 cannot be connected to; give the port that the "
                    "coordinator listens on",
                    address);
    }
    return std::string(net::kTcp) + address;
}

std::string digest_of_parameters(inner::Trainer& trainer) {
    outer::Digester digester;
    const auto units = static_cast<std::uint32_t>(trainer.layout().units.size());
    for (std::uint32_t u = 0; u < units; ++u)
        digester.update(std::span<const float>(trainer.parameters(UnitId(u))));
    return outer::hex(digester.finish());
}

}  // namespace

void write_site_end(FileSystem& files, const Path& site_folder, const SiteEnd& end) {
    const nlohmann::ordered_json json = {{"round", end.round},
                                         {"state", end.state},
                                         {"parameters", end.parameters},
                                         {"drained", end.drained}};
    write_run_file(files, site_folder / kEndName, json.dump() + "\n");
}

Result<SiteEnd> read_site_end(FileSystem& files, const Path& site_folder) {
    const Path file = site_folder / kEndName;
    const auto text = read_text(files, file, 4096);
    if (!text) return text.error();
    const auto json = nlohmann::ordered_json::parse(*text, nullptr, false);
    if (!json.is_object() || !json.contains("state") || !json.contains("parameters"))
        return Error{fmt::format("{}: not the end of a site", file.string())};
    return SiteEnd{.state = json.value("state", ""),
                   .parameters = json.value("parameters", ""),
                   .round = json.value("round", std::uint64_t{0}),
                   .drained = json.value("drained", false)};
}

struct SiteMeeting::Impl {
    SiteRun run;
    FileSystem& files;
    Log& log;
    net::KeyPair keys;
    RoundPrediction prediction;
    JsonLines rounds;
    // Declared so that what uses another ends before it.
    net::Context context;
    std::unique_ptr<EmulatedLinks> links;
    std::unique_ptr<TrainerPort> port;
    std::unique_ptr<SiteDriver> driver;
    std::optional<SiteDriver::Finished> finished;
    bool said_missing = false;
    double train_s = 0, lost_s = 0;  ///< since the last round

    Impl(SiteRun r, FileSystem& f, Log& l)
        : run(std::move(r)),
          files(f),
          log(l),
          keys(site_keys(run.config.net, run.name, run.key_file)),
          prediction(predict_round(run.config, unit_elements(run.config))),
          rounds(f, run.folder / kRoundsName, JsonLines::Mode::kAppend) {
        if (const auto shape = run.config.link.shaper())
            links = std::make_unique<EmulatedLinks>(*shape, log);
    }

    bool stopped() const { return run.stop && run.stop(); }

    std::vector<std::string> coordinator_endpoints() const {
        const auto& addresses =
            run.coordinator.empty() ? run.config.net.coordinator : run.coordinator;
        std::vector<std::string> endpoints;
        for (const std::string& address : addresses) endpoints.push_back(endpoint_of(address));
        return endpoints;
    }

    /// By the network thread.
    std::vector<std::string> look_for_coordinator() {
        const Path folder = run.config.folder();
        std::string endpoint = read_coordinator_address(files, folder);
        if (!endpoint.empty()) return {std::move(endpoint)};
        if (!said_missing) {
            log.info("no coordinator yet: waiting for {}, which `isthmus coordinator` writes",
                     (folder / kAddressName).string());
            said_missing = true;
        }
        return {};
    }

    outer::DataPlane::Options data_options() {
        const auto listen = run.config.net.listen_of(run.name);
        outer::DataPlane::Options data;
        data.listen = run.listen.empty() ? listen.address : run.listen;
        data.advertise = run.advertise.empty() ? listen.advertise : run.advertise;
        data.keys = keys;
        data.streams = static_cast<int>(run.config.net.streams);
        data.window_bytes = static_cast<std::size_t>(run.config.net.window_mb) << 20;
        if (links)
            data.route = [this](const outer::PeerInfo& peer) {
                return links->through(peer.endpoint);
            };
        return data;
    }

    SiteDriver::Options driver_options() {
        const RunConfig& config = run.config;
        const auto codec = outer::codec_named(config.outer.codec);
        CHECK(codec, "{}", codec.error().message);
        SiteDriver::Options options;
        options.run = config.run_number();
        options.name = run.name;
        options.coordinator = coordinator_endpoints();
        if (options.coordinator.empty())
            options.find_coordinator = [this] { return look_for_coordinator(); };
        options.coordinator_key = config.net.coordinator_key;
        options.budget = config.net.budget();
        options.state = {.optimizer = config.outer.outer_optimizer(),
                         .codec = *codec,
                         .error_feedback = config.outer.error_feedback,
                         .seed = static_cast<std::uint64_t>(config.train.seed)};
        options.full_digest_rounds = static_cast<std::uint64_t>(config.outer.full_digest_rounds);
        options.data = data_options();
        options.incarnation = nanoseconds_since_epoch();
        options.nonce = random_number();
        options.config = shared_config(config, run.data_fingerprint);
        options.tokens_per_sample = config.sequence();
        if (links)
            options.route_coordinator = [this](const std::string& endpoint) {
                return links->through(endpoint);
            };
        options.stop = run.stop;
        return options;
    }

    LoopNext begin(inner::Trainer& trainer) {
        port = std::make_unique<TrainerPort>(trainer);
        SiteDriver::Options options = driver_options();
        options.on_phase = fault_for_tests([&trainer] {
            trainer.parameters(UnitId(0))[0] = std::numeric_limits<float>::quiet_NaN();
        });
        auto started = SiteDriver::start(context, options, *port, log);
        if (!started) throw fatal(ExitCode::kResources, "{}", started.error().message);
        driver = std::move(*started);
        const LoopNext next = obey(driver->begin(), trainer);
        if (next == LoopNext::kInterrupted) throw fatal(ExitCode::kInterrupted, "interrupted");
        if (next == LoopNext::kGoOn) log.info("the run goes on from step {}", trainer.steps_done());
        return next;
    }

    /// Does to the trainer what the outer loop says.
    LoopNext obey(const Result<SiteDriver::Next>& next, inner::Trainer& trainer) {
        if (!next) {
            if (stopped()) return LoopNext::kInterrupted;
            throw fatal(ExitCode::kPeerLost, "the run ended for site {}: {}", run.name,
                        next.error().message);
        }
        const auto* work = std::get_if<SiteDriver::Work>(&*next);
        if (work) trainer.set_steps_done(work->from_step);
        if (port->take_written() || (work && work->changed)) trainer.parameters_changed();
        const auto* end = std::get_if<SiteDriver::Finished>(&*next);
        if (!end) return LoopNext::kGoOn;
        finished = *end;
        return LoopNext::kFinished;
    }

    LoopNext after_step(inner::Trainer& trainer, const inner::StepReport& report, double seconds) {
        if (stopped()) return LoopNext::kInterrupted;
        train_s += seconds;
        const auto before = Clock::now();
        const std::int64_t step = trainer.steps_done();
        const LoopNext next =
            obey(driver->after_step(
                     {.loss = report.loss,
                      .seconds = seconds,
                      .tokens = static_cast<std::uint64_t>(report.tokens),
                      .samples = static_cast<std::uint64_t>(run.config.samples_per_step()),
                      .skipped = report.skipped}),
                 trainer);
        lost_s += seconds_since(before);
        record_rounds(step);
        return next;
    }

    void record_rounds(std::int64_t step) {
        for (const auto& figures : driver->take_rounds()) {
            const SiteRound round{
                .figures = figures, .step = step, .train_s = train_s, .lost_s = lost_s};
            train_s = lost_s = 0;
            append_json(rounds.line(), round, prediction);
            rounds.wrote();
            rounds.flush();
            log.info("{}", round_line(round, prediction));
        }
    }

    void end(inner::Trainer& trainer) {
        const SiteEnd ended{.state = outer::hex(finished->state.hash),
                            .parameters = digest_of_parameters(trainer),
                            .round = finished->state.round.value,
                            .drained = finished->drained};
        if (const Status status = driver->finish(); !status) {
            if (stopped()) throw fatal(ExitCode::kInterrupted, "interrupted");
            throw fatal(ExitCode::kPeerLost, "the run ended for site {}: {}", run.name,
                        status.error().message);
        }
        driver.reset();
        rounds.finish();
        write_site_end(files, run.folder, ended);
        log.info("{} at round {} with state {:.12}, parameters {:.12}",
                 ended.drained ? "drained" : "the run is complete", ended.round, ended.state,
                 ended.parameters);
    }
};

SiteMeeting::SiteMeeting(SiteRun run, FileSystem& files, Log& log) {
    const auto& names = run.config.outer.sites;
    // With keys others may join than those who were named at the start: the key decides.
    const bool named = std::find(names.begin(), names.end(), run.name) != names.end();
    if (!named && run.config.net.coordinator_key.empty()) {
        const std::string near = nearest_name(run.name, names);
        throw fatal(ExitCode::kUsage, "outer.sites names no site \"{}\"{}", run.name,
                    near.empty() ? "" : "; did you mean " + near + "?");
    }
    impl_ = std::make_unique<Impl>(std::move(run), files, log);
}

SiteMeeting::~SiteMeeting() {
    if (!impl_->driver) return;
    impl_->driver->quit(impl_->stopped() ? "interrupted" : "it failed; its own last line says why");
}

TrainingHooks SiteMeeting::hooks() {
    Impl& impl = *impl_;
    return {.next_samples = [&](std::span<SampleNumber> out) { impl.driver->next_samples(out); },
            .begin = [&](inner::Trainer& trainer) { return impl.begin(trainer); },
            .after_step = [&](inner::Trainer& trainer, const inner::StepReport& report,
                              double seconds) { return impl.after_step(trainer, report, seconds); },
            .end = [&](inner::Trainer& trainer) { impl.end(trainer); }};
}

bool SiteMeeting::finished() const {
    return impl_->finished.has_value();
}

}  // namespace isthmus::launch
