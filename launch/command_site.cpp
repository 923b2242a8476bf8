#include <CLI/CLI.hpp>
#include <memory>

#include "base/error.hpp"
#include "launch/command.hpp"
#include "launch/command_run.hpp"
#include "launch/many_sites.hpp"

namespace isthmus::launch {

namespace {

void require_sites(const RunConfig& config) {
    if (config.several_sites()) return;
    throw fatal(ExitCode::kUsage,
                "outer.sites names no sites: use `isthmus train` for a run on this machine alone, "
                "or name two or more");
}

}  // namespace

void add_site_command(CLI::App& app, CommandContext& context) {
    struct Options : RunOptions {
        SiteWords words;
    };
    auto* command =
        app.add_subcommand("site", "One site of a run with several (train starts them)");
    auto options = std::make_shared<Options>();
    add_run_options(*command, *options);
    SiteWords& words = options->words;
    command->add_option("--name", words.name, "which one, of outer.sites")
        ->required()
        ->type_name("SITE");
    command
        ->add_option("--listen", words.listen,
                     "where its data port listens; default: net.listen, else 127.0.0.1:0")
        ->type_name("ADDRESS:PORT");
    command
        ->add_option("--advertise", words.advertise,
                     "what other sites connect to, if that is another address")
        ->type_name("HOST:PORT");
    command->add_option("--key", words.key_file, "its key; default: NAME.key in net.keys")
        ->type_name("FILE");
    command
        ->add_option("--coordinator", words.coordinator,
                     "where the coordinator is; several are tried in turn; default: "
                     "net.coordinator, else found through the run's folder")
        ->type_name("HOST:PORT");
    command->footer(
        "Start order does not matter. A site that was lost and is started again comes back to the\n"
        "run. It connects to the coordinator and to every other site, and listens for the other\n"
        "sites.");
    command->callback([options, &context] {
        const RunConfig config = load_run(context, *options);
        require_sites(config);
        train_one_of_many(context, config, options->words);
    });
}

void add_coordinator_command(CLI::App& app, CommandContext& context) {
    struct Options : RunOptions {
        std::string listen;
    };
    auto* command =
        app.add_subcommand("coordinator", "Brings the sites of a run together (train starts it)");
    auto options = std::make_shared<Options>();
    add_run_options(*command, *options);
    command
        ->add_option("--listen", options->listen,
                     "where sites connect to; default: net.coordinator_listen")
        ->type_name("ADDRESS:PORT");
    command->footer(
        "Makes no connections. Killed and started again with the same run folder it goes on where\n"
        "its journal ends, on the same port.");
    command->callback([options, &context] {
        const RunConfig config = load_run(context, *options);
        require_sites(config);
        coordinate(context, config, options->listen);
    });
}

}  // namespace isthmus::launch
