#include "launch/many_sites.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "inner/cpu/cpu_ops.hpp"
#include "launch/coordinate.hpp"
#include "launch/round_records.hpp"
#include "launch/run_folder.hpp"
#include "launch/run_keys.hpp"
#include "launch/sites.hpp"
#include "launch/supervisor.hpp"
#include "launch/training.hpp"

namespace isthmus::launch {

namespace {

Path this_program() {
    std::error_code error;
    const Path program = std::filesystem::read_symlink("/proc/self/exe", error);
    if (error) {
        throw fatal(ExitCode::kInternal, "/proc/self/exe: {}: cannot start the run's processes",
                    error.message());
    }
    return program;
}

void make_folders(CommandContext& context, const Path& folder) {
    if (const Status made = context.files.make_folders(folder); !made)
        throw fatal(ExitCode::kResources, "{}: choose another --run folder", made.error().message);
}

/// What would end every child with the same words is said once.
void check_keys(const RunConfig& config) {
    static_cast<void>(coordinator_keys(config.net));
    for (const std::string& site : config.outer.sites)
        static_cast<void>(site_keys(config.net, site, ""));
}

/// The model of the first site, by the order of outer.sites, becomes the run's.
void take_model(CommandContext& context, const RunConfig& config,
                const std::vector<std::string>& finished) {
    for (const std::string& site : finished) {
        const Path model = site_folder(config.folder(), site) / kModelName;
        if (!context.files.exists(model)) continue;
        const Status moved = context.files.rename(model, config.folder() / kModelName);
        if (!moved) throw fatal(ExitCode::kResources, "{}", moved.error().message);
        return;
    }
}

/// Sites that trained to the end, in the order of outer.sites, after a check that all hold the same
/// bits.
std::vector<std::string> check_ends(CommandContext& context, const RunConfig& config) {
    std::vector<std::string> finished;
    std::optional<SiteEnd> first;
    for (const std::string& site : config.outer.sites) {
        const auto end = read_site_end(context.files, site_folder(config.folder(), site));
        if (!end || end->drained) continue;
        if (first && (end->state != first->state || end->parameters != first->parameters)) {
            throw fatal(ExitCode::kInternal,
                        "sites {} and {} have ended with different parameters ({:.16} and {:.16}, "
                        "states {:.16} and {:.16}): the run is void; please report it",
                        finished.front(), site, first->parameters, end->parameters, first->state,
                        end->state);
        }
        if (!first) first = *end;
        finished.push_back(site);
    }
    if (!first) return finished;
    context.log.info("all {} sites hold state {} after {} rounds; parameters {}", finished.size(),
                     first->state, first->round, first->parameters);
    return finished;
}

void say_rounds(CommandContext& context, const RunConfig& config, const std::string& site) {
    const auto sum =
        summarise_rounds(context.files, site_folder(config.folder(), site) / kRoundsName);
    if (sum) context.log.info("site {}: {}", site, summary_line(*sum));
}

}  // namespace

void train_many_sites(CommandContext& context, const RunConfig& config, int restarts) {
    check_keys(config);
    write_run_description(context, config, config.folder());
    const std::string file = (config.folder() / kConfigName).string();
    const SupervisedRun run{
        .sites = config.outer.sites,
        .run_folder = config.folder(),
        .program = this_program(),
        .threads = config.train.threads > 0 ? config.train.threads : inner::detect_cpu().cores,
        .restarts = restarts,
        .coordinator_arguments = {"coordinator", file},
        .site_arguments =
            [&](const std::string& site, std::int64_t threads) {
                return std::vector<std::string>{"site",   file,
                                                "--name", site,
                                                "--set",  fmt::format("train.threads={}", threads)};
            },
        .stop = context.stop};
    supervise_run(run, context.log);
    const std::vector<std::string> finished = check_ends(context, config);
    if (finished.empty()) {
        throw fatal(ExitCode::kPeerLost, "no site has trained to the end; records are in {}",
                    config.folder().string());
    }
    take_model(context, config, finished);
    for (const std::string& site : finished) say_rounds(context, config, site);
    context.log.info("done: model in {}, records in {}", (config.folder() / kModelName).string(),
                     (config.folder() / fmt::format("{}*", kSitePrefix)).string());
}

void train_one_of_many(CommandContext& context, const RunConfig& config, const SiteWords& words) {
    check_before_start(context, config, 1);
    const auto fingerprint = inner::TokenFile::open(context.files, config.data)->info().fingerprint;
    const Path folder = site_folder(config.folder(), words.name);
    make_folders(context, folder);
    SiteMeeting meeting({.config = config,
                         .name = words.name,
                         .folder = folder,
                         .listen = words.listen,
                         .advertise = words.advertise,
                         .key_file = words.key_file,
                         .coordinator = words.coordinator,
                         .data_fingerprint = fingerprint,
                         .stop = context.stop},
                        context.files, context.log);
    // Lines about meetings come in between, so that a redrawn line would not stay whole.
    CommandContext plain{context.files, context.log, context.stop, false};
    const TrainingJob job{.config = config,
                          .folder = folder,
                          .model_folder = folder / kModelName,
                          .hooks = meeting.hooks(),
                          .append = true};
    say_result(plain, job, train_here(plain, job));
}

void coordinate(CommandContext& context, const RunConfig& config, const std::string& listen) {
    make_folders(context, config.folder());
    RunConfig resolved = config;
    write_run_file(context.files, config.folder() / kConfigName,
                   dump_config(describe_of(resolved), true));
    run_coordinator({.config = config, .listen = listen, .stop = context.stop}, context.files,
                    context.log);
}

}  // namespace isthmus::launch
