#include <CLI/CLI.hpp>
#include <memory>

#include "base/error.hpp"
#include "launch/command.hpp"
#include "launch/run_folder.hpp"
#include "launch/training.hpp"

namespace isthmus::launch {

namespace {

struct Options {
    std::string file;
    std::vector<std::string> overrides;
    std::string run_folder;
    bool overwrite = false;
};

/// Says what was kept, and ends the program with the code of an interruption.
[[noreturn]] void interrupted(const TrainingJob& job, const TrainingResult& result) {
    throw fatal(ExitCode::kInterrupted,
                "stopped after step {} of {}; kept: {} (the weights after that step), {}",
                result.steps, job.config.train.steps, (job.folder / kModelName).string(),
                (job.folder / kStepsName).string());
}

void train_one_site(CommandContext& context, const RunConfig& config) {
    const TrainingJob job{.config = config, .folder = config.folder()};
    const TrainingResult result = train_here(context, job);
    if (result.interrupted) interrupted(job, result);
    const std::string model = (job.folder / kModelName).string();
    if (result.validation_loss) {
        context.log.info("done: {} steps in {:.1f} s, validation loss {:.4f}; model in {}",
                         result.steps, result.seconds, *result.validation_loss, model);
    } else {
        context.log.info("done: {} steps in {:.1f} s, training loss {:.4f}; model in {}",
                         result.steps, result.seconds, result.train_loss, model);
    }
}

void run(CommandContext& context, const Options& options) {
    RunConfig config = load_run_config(context.files, options.file, options.overrides);
    if (!options.run_folder.empty()) config.run_folder = options.run_folder;
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
    command->add_option("config", options->file, "the run's configuration")
        ->required()
        ->type_name("FILE.toml");
    command
        ->add_option(
            "--set", options->overrides,
            "keys that differ from the file, for example --set train.steps=200 optim.lr=1e-3")
        ->type_name("KEY=VALUE");
    command
        ->add_option("--run", options->run_folder,
                     "where records and the model go; default: run_folder, else runs/NAME")
        ->type_name("DIR");
    command->add_flag("--overwrite", options->overwrite, "replace the run that is in the folder");
    command->footer(
        "Writes config.toml, doctor.json, data.json, steps.jsonl, evals.jsonl and, at the end or "
        "after\n"
        "Ctrl-C, model/: a Hugging Face folder. Every key: isthmus config --defaults");
    command->callback([options, &context] { run(context, *options); });
}

}  // namespace isthmus::launch
