#include "launch/many_sites.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "inner/cpu/cpu_ops.hpp"
#include "launch/run_folder.hpp"
#include "launch/sites.hpp"
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

Path site_folder(const RunConfig& config, SiteId site) {
    return config.folder() / fmt::format("{}{}", kSitePrefix, site.value);
}

}  // namespace

std::uint64_t shared_config_hash(RunConfig config, std::uint64_t data_fingerprint) {
    config.data = fmt::format("{:016x}", data_fingerprint);
    config.run_folder.clear();
    config.train.threads = 0;
    config.train.instruction_set = "auto";
    config.train.eval_every = 0;
    config.train.eval_windows = 0;
    return hash64(dump_config(describe_of(config), false));
}

void train_many_sites(CommandContext& context, const RunConfig& config) {
    write_run_description(context, config, config.folder());
    const std::string file = (config.folder() / kConfigName).string();
    const SupervisedRun run{
        .outer = config.outer,
        .run_folder = config.folder(),
        .program = this_program(),
        .threads = config.train.threads > 0 ? config.train.threads : inner::detect_cpu().cores,
        .coordinator_arguments = {"coordinator", file},
        .site_arguments =
            [&](SiteId site, std::int64_t threads) {
                return std::vector<std::string>{"site",
                                                file,
                                                "--site",
                                                std::to_string(site.value),
                                                "--overwrite",
                                                "--set",
                                                fmt::format("train.threads={}", threads)};
            },
        .stop = context.stop};
    supervise_run(run, context.files, context.log);
    context.log.info("done: all {} sites hold the same parameters; model in {}, records in {}",
                     config.outer.sites, (config.folder() / kModelName).string(),
                     (config.folder() / fmt::format("{}*", kSitePrefix)).string());
}

void train_one_of_many(CommandContext& context, const RunConfig& config, SiteId site,
                       bool overwrite) {
    check_before_start(context, config, 1);
    const auto fingerprint = inner::TokenFile::open(context.files, config.data)->info().fingerprint;
    SiteMeeting meeting({.outer = config.outer,
                         .site = site,
                         .run_folder = config.folder(),
                         .steps = config.train.steps,
                         .micro_batch = config.train.batch,
                         .config_hash = shared_config_hash(config, fingerprint),
                         .stop = context.stop},
                        context.files, context.log);
    const Path folder = site_folder(config, site);
    create_run_folder(context.files, folder, overwrite);
    // Lines about meetings come in between, so that a redrawn line would not stay whole.
    CommandContext plain{context.files, context.log, context.stop, false};
    // At the end all hold the same parameters, so that one of them is enough to save them.
    const TrainingJob job{.config = config,
                          .folder = folder,
                          .model_folder = site == SiteId(0) ? config.folder() / kModelName : Path(),
                          .hooks = meeting.hooks()};
    say_result(plain, job, train_here(plain, job));
}

void coordinate(CommandContext& context, const RunConfig& config) {
    if (const Status made = context.files.make_folders(config.folder()); !made) {
        throw fatal(ExitCode::kResources, "{}: choose another --run folder", made.error().message);
    }
    run_coordinator({.outer = config.outer, .run_folder = config.folder(), .stop = context.stop},
                    context.files, context.log);
}

}  // namespace isthmus::launch
