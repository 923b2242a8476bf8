#include <CLI/CLI.hpp>
#include <memory>

#include "base/error.hpp"
#include "launch/command.hpp"
#include "launch/command_run.hpp"
#include "launch/many_sites.hpp"

namespace isthmus::launch {

namespace {

void require_sites(const RunConfig& config) {
    if (config.outer.sites > 1) return;
    throw fatal(ExitCode::kUsage,
                "outer.sites = 1 is no run of several sites: use `isthmus train`, or set "
                "outer.sites");
}

}  // namespace

void add_site_command(CLI::App& app, CommandContext& context) {
    struct Options : RunOptions {
        std::uint32_t site = 0;
        bool overwrite = false;
    };
    auto* command =
        app.add_subcommand("site", "One site of a run with several (train starts them)");
    auto options = std::make_shared<Options>();
    add_run_options(*command, *options);
    command->add_option("--site", options->site, "which one, counted from 0")
        ->required()
        ->type_name("NUMBER");
    command->add_flag("--overwrite", options->overwrite, "replace what this site wrote before");
    command->footer(
        "Start order does not matter: a site waits for the coordinator's address in the run's "
        "folder.");
    command->callback([options, &context] {
        const RunConfig config = load_run(context, *options);
        require_sites(config);
        train_one_of_many(context, config, SiteId(options->site), options->overwrite);
    });
}

void add_coordinator_command(CLI::App& app, CommandContext& context) {
    auto* command =
        app.add_subcommand("coordinator", "Brings the sites of a run together (train starts it)");
    auto options = std::make_shared<RunOptions>();
    add_run_options(*command, *options);
    command->callback([options, &context] {
        const RunConfig config = load_run(context, *options);
        require_sites(config);
        coordinate(context, config);
    });
}

}  // namespace isthmus::launch
