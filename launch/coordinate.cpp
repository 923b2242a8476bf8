#include "launch/coordinate.hpp"

#include <chrono>

#include "base/check.hpp"
#include "base/error.hpp"
#include "launch/meeting_place.hpp"
#include "launch/operator_desk.hpp"
#include "launch/random_number.hpp"
#include "launch/round_records.hpp"
#include "launch/run_folder.hpp"
#include "launch/run_keys.hpp"
#include "launch/run_status.hpp"
#include "launch/shared_config.hpp"
#include "launch/test_faults.hpp"
#include "outer/coordinator_driver.hpp"

namespace isthmus::launch {

namespace {

using outer::CoordinatorDriver;
using Pace = outer::CoordinatorOptions::Pace;

constexpr std::chrono::milliseconds kStatusEvery{900};

Pace pace_named(const std::string& name) {
    if (name == "speed") return Pace::kBySpeed;
    if (name == "time") return Pace::kByTime;
    return Pace::kEqual;
}

std::optional<outer::Method> method_named(const std::string& name) {
    if (name == "all-gather") return outer::Method::kAllGather;
    if (name == "owners") return outer::Method::kOwners;
    return std::nullopt;
}

/// Keeps status.json about as new as a second.
class StatusFile {
  public:
    StatusFile(const RunConfig& config, FileSystem& files, Log& log)
        : config_(config),
          prediction_(predict_round(config, unit_elements(config))),
          files_(files),
          log_(log) {}

    void look(const outer::CoordinatorState& state, outer::TimePoint now) {
        const bool ended = state.phase == outer::CoordinatorState::Phase::kEnded;
        if (!ended && now - written_ < kStatusEvery) return;
        written_ = now;
        const std::string text = status_json(config_, prediction_, state, now);
        const Status status = replace_quickly(files_, config_.folder() / kStatusName, text);
        if (!status && !complained_) log_.warn("no status is shown: {}", status.error().message);
        complained_ = !status;
    }

  private:
    const RunConfig& config_;
    RoundPrediction prediction_;
    FileSystem& files_;
    Log& log_;
    outer::TimePoint written_{};
    bool complained_ = false;
};

std::unique_ptr<CoordinatorDriver> make_driver(net::Context& context, const CoordinatorRun& run,
                                               CoordinatorDriver::Options options,
                                               FileSystem& files, Log& log) {
    const std::string configured =
        run.listen.empty() ? run.config.net.coordinator_listen : run.listen;
    const std::string before = read_coordinator_address(files, run.config.folder());
    options.listen = listen_where_it_was(configured, before);
    auto made = CoordinatorDriver::create(context, files, options, log);
    if (!made && options.listen != configured) {
        // Somebody else may have got that port meanwhile: sites look for the new address.
        log.warn("{}; another port is taken than before", made.error().message);
        options.listen = configured;
        made = CoordinatorDriver::create(context, files, options, log);
    }
    if (!made) throw fatal(ExitCode::kResources, "{}", made.error().message);
    return std::move(*made);
}

}  // namespace

outer::CoordinatorOptions coordinator_options(const RunConfig& config) {
    const auto codec = outer::codec_named(config.outer.codec);
    CHECK(codec, "{}", codec.error().message);
    outer::CoordinatorOptions options;
    options.run = config.run_number().value;
    options.sites = config.outer.sites;
    options.budget = config.net.budget();
    options.meetings = config.meetings();
    options.samples_per_step = config.samples_per_step();
    options.min_sites = config.outer.min_sites;
    options.weigh_by_tokens = config.outer.weights == "tokens";
    options.codec = *codec;
    options.optimizer = config.outer.outer_optimizer();
    options.method = method_named(config.outer.method);
    options.seed = static_cast<std::uint64_t>(config.train.seed);
    options.max_attempts = static_cast<std::uint32_t>(config.outer.max_attempts);
    options.full_digest_rounds = static_cast<std::uint64_t>(config.outer.full_digest_rounds);
    options.max_norm_ratio = config.outer.max_norm_ratio;
    options.pace = pace_named(config.outer.pace);
    options.round_s = config.outer.round_s;
    for (const std::string& site : config.outer.sites) {
        if (const auto rate = config.net.bytes_per_s_of(site)) options.rates[site] = *rate;
    }
    options.config = shared_config(config, std::nullopt);
    return options;
}

void run_coordinator(const CoordinatorRun& run, FileSystem& files, Log& log) {
    const RunConfig& config = run.config;
    const Path folder = config.folder();
    net::Context context;
    CoordinatorDriver::Options options;
    options.coordinator = coordinator_options(config);
    options.keys = coordinator_keys(config.net);
    options.journal = folder / kJournalName;
    options.nonce = random_number();
    std::unique_ptr<AllowlistFile> allowlist;
    if (!options.keys.empty()) {
        allowlist = std::make_unique<AllowlistFile>(config.net, files, log);
        options.allowlist = [&] { return allowlist->now(); };
    }
    StatusFile status(config, files, log);
    std::unique_ptr<OperatorDesk> desk;
    options.on_look = [&](const outer::CoordinatorState& state, outer::TimePoint now) {
        status.look(state, now);
        if (!desk) return;
        std::vector<std::string> names;
        for (const auto& site : state.sites) names.push_back(site.name);
        desk->know(std::move(names));
    };
    options.operations = [&] { return desk->take(); };
    JsonLines rounds(files, folder / kRoundsName, JsonLines::Mode::kAppend);
    options.on_commit = [&](const outer::CommitRecord& record,
                            const outer::CoordinatorState& state) {
        append_json(rounds.line(), record, state);
        rounds.wrote();
        rounds.flush();
    };
    options.on_phase = fault_for_tests();
    const auto driver = make_driver(context, run, options, files, log);
    // Only now: the journal is locked, so this is the one coordinator of the folder.
    auto opened = OperatorDesk::open(context, folder);
    if (!opened) throw fatal(ExitCode::kResources, "{}", opened.error().message);
    desk = std::move(*opened);
    desk->know(config.outer.sites);
    write_coordinator_address(files, folder, driver->endpoint());
    const std::string warning = outer::optimizer_warning(options.coordinator.optimizer,
                                                         options.coordinator.meetings.size());
    if (!warning.empty()) log.warn("{}", warning);
    log.info("waiting for {} sites at {}{}", config.outer.sites.size(), driver->endpoint(),
             options.keys.empty() ? ", without keys: this machine only" : "");
    const Status ended = driver->run(run.stop);
    if (!ended && run.stop && run.stop()) throw fatal(ExitCode::kInterrupted, "interrupted");
    if (!ended) {
        // The driver's own word for a disk that refuses: the run is not over, only paused.
        const bool paused = ended.error().message.starts_with("the journal cannot be written");
        throw fatal(paused ? ExitCode::kResources : ExitCode::kPeerLost, "the run {}: {}",
                    paused ? "pauses" : "ended", ended.error().message);
    }
    // Whoever comes later must not find the address of nobody.
    if (const Status removed = files.remove(folder / kAddressName); !removed)
        log.warn("{}", removed.error().message);
}

}  // namespace isthmus::launch
