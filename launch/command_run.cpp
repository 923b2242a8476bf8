#include "launch/command_run.hpp"

#include <CLI/CLI.hpp>
#include <filesystem>

#include "base/error.hpp"

namespace isthmus::launch {

void add_run_options(CLI::App& command, RunOptions& options) {
    command.add_option("config", options.file, "the run's configuration")
        ->required()
        ->type_name("FILE.toml");
    command
        .add_option("--set", options.overrides,
                    "keys that differ from the file: --set train.steps=200 optim.lr=1e-3")
        ->type_name("KEY=VALUE");
    command
        .add_option("--run", options.run_folder,
                    "folder of the run; default: run_folder of the file, else runs/NAME")
        ->type_name("DIR");
}

RunConfig load_run(CommandContext& context, const RunOptions& options) {
    RunConfig config = load_run_config(context.files, options.file, options.overrides);
    if (!options.run_folder.empty()) config.run_folder = options.run_folder;
    return config;
}

Path run_folder_of(CommandContext& context, const std::string& word) {
    Path folder = word;
    if (folder.extension() == ".toml" && context.files.exists(folder)) {
        folder = load_run_config(context.files, folder, {}).folder();
    } else if (!std::filesystem::is_directory(folder)) {
        folder = Path("runs") / word;
    }
    if (std::filesystem::is_directory(folder)) return folder;
    throw fatal(ExitCode::kInput,
                "{}: no such run: name its folder, its FILE.toml, or NAME for runs/NAME", word);
}

}  // namespace isthmus::launch
