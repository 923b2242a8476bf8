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
    int restarts = 3;
};

void train_one_site(CommandContext& context, const RunConfig& config) {
    const TrainingJob job{
        .config = config, .folder = config.folder(), .model_folder = config.folder() / kModelName};
    say_result(context, job, train_here(context, job));
}

void run(CommandContext& context, const Options& options) {
    const RunConfig config = load_run(context, options);
    check_before_start(context, config, config.outer.num_sites());
    create_run_folder(context.files, config.folder(), options.overwrite);
    if (config.several_sites()) {
        train_many_sites(context, config, options.restarts);
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
    command
        ->add_option("--restarts", options->restarts,
                     "with several sites: how often a process that was killed is started again")
        ->type_name("TIMES")
        ->check(CLI::Range(0, 1'000'000))
        ->capture_default_str();
    command->footer(
        "Writes config.toml, doctor.json, data.json, steps.jsonl, evals.jsonl and, at the end or\n"
        "after Ctrl-C, model/: a Hugging Face folder. If outer.sites names several, each has its "
        "own\n"
        "records in site-NAME/, and `isthmus status` and `ctl` work on the folder.\n"
        "Every key of FILE.toml: isthmus config --defaults");
    command->callback([options, &context] { run(context, *options); });
}

}  // namespace isthmus::launch
