#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "launch/command.hpp"
#include "launch/new_run.hpp"

namespace isthmus::launch {

void add_new_command(CLI::App& app, CommandContext& context) {
    auto* command =
        app.add_subcommand("new", "Writes the file of a run, with keys if it has several sites");
    auto options = std::make_shared<NewRun>();
    command->add_option("file", options->file, "FILE.toml, or NAME for NAME.toml")
        ->required()
        ->type_name("RUN");
    command->add_option("--model", options->model, "preset: its size")
        ->type_name("PRESET")
        ->capture_default_str();
    command->add_option("--data", options->data, "what `isthmus data prepare` wrote")
        ->required()
        ->type_name("DIR");
    command
        ->add_option("--sites", options->sites,
                     "their names, with commas between; none: a run on this machine alone")
        ->delimiter(',')
        ->type_name("NAME,NAME");
    command->add_option("--folder", options->run_folder, "of the run; default: runs/NAME")
        ->type_name("DIR");
    command->footer(
        "From nothing to a running run:\n"
        "  isthmus data prepare TEXT --out data/mine\n"
        "  isthmus new mine --model tiny --data data/mine --sites paris,oslo\n"
        "  isthmus train mine.toml");
    command->callback([options, &context] {
        const Path file = write_new_run(context.files, *options);
        fmt::print("{}\n", file.string());
    });
}

}  // namespace isthmus::launch
