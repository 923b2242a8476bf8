#include <CLI/CLI.hpp>
#include <memory>

#include "launch/command.hpp"
#include "launch/command_run.hpp"
#include "launch/many_sites.hpp"
#include "launch/run_folder.hpp"
#include "launch/training.hpp"

namespace isthmus::launch {

namespace {

struct Options : RunOptions {
    bool overwrite = false;
};

void train_one_site(CommandContext& context, const RunConfig& config) {
    const TrainingJob job{
        .config = config, .folder = config.folder(), .model_folder = config.folder() / kModelName};
    say_result(context, job, train_here(context, job));
}

void run(CommandContext& context, const Options& options) {
    const RunConfig config = load_run(context, options);
    check_before_start(context, config, config.outer.sites);
    create_run_folder(context.files, config.folder(), options.overwrite);
    if (config.outer.sites > 1) {
        train_many_sites(context, config);
    } else {
        train_one_site(context, config);
    }
}

}  // namespace

void add_train_command(CLI::App& app, CommandContext& context) {
    auto* command = app.add_subcommand("train", "Train a model as a configuration file says");
    auto options = std::make_shared<Options>();
    add_run_options(*command, *options);
    command->add_flag("--overwrite", options->overwrite, "replace the run that is in the folder");
    command->footer(
        "Writes config.toml, doctor.json, data.json, steps.jsonl, evals.jsonl and, at the end or\n"
        "after Ctrl-C, model/: a Hugging Face folder. With outer.sites > 1 each site has its own\n"
        "records in site-N/. Every key of FILE.toml: isthmus config --defaults");
    command->callback([options, &context] { run(context, *options); });
}

}  // namespace isthmus::launch
