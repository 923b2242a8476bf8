#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <thread>

#include "base/error.hpp"
#include "launch/command.hpp"
#include "launch/command_run.hpp"
#include "launch/run_folder.hpp"
#include "launch/run_status.hpp"

namespace isthmus::launch {

namespace {

constexpr std::chrono::milliseconds kRedrawEvery{1000}, kAskStop{50};

struct Options {
    std::string run;
    bool json = false, watch = false;
};

StatusView read_status(CommandContext& context, const Path& folder) {
    const Path file = folder / kStatusName;
    const auto text = read_text(context.files, file);
    if (!text) {
        throw fatal(ExitCode::kInput,
                    "{}: no status of a run with several sites: no coordinator has been started in "
                    "this folder",
                    file.string());
    }
    auto view = view_status(*text, unix_seconds());
    if (!view) throw fatal(ExitCode::kInput, "{}: {}", file.string(), view.error().message);
    return std::move(*view);
}

void show(const StatusView& status, const Options& options) {
    if (options.json) {
        fmt::print("{}\n", status.json);
    } else {
        // Home and clear: what is watched stays in one place.
        fmt::print("{}{}", options.watch ? "\x1b[H\x1b[J" : "", status.table);
    }
    std::fflush(stdout);
}

void run(CommandContext& context, const Options& options) {
    const Path folder = run_folder_of(context, options.run);
    while (true) {
        const StatusView status = read_status(context, folder);
        show(status, options);
        if (!options.watch || status.ended) return;
        const auto until = std::chrono::steady_clock::now() + kRedrawEvery;
        while (std::chrono::steady_clock::now() < until) {
            if (context.stop()) throw fatal(ExitCode::kInterrupted, "no longer watching");
            std::this_thread::sleep_for(kAskStop);
        }
    }
}

}  // namespace

void add_status_command(CLI::App& app, CommandContext& context) {
    auto* command = app.add_subcommand(
        "status", "How a run with several sites goes, from what its coordinator writes down");
    auto options = std::make_shared<Options>();
    command->add_option("run", options->run, "folder of the run, its FILE.toml or its name")
        ->required()
        ->type_name("RUN");
    command->add_flag("--json", options->json, "one line for scripts");
    command->add_flag("--watch", options->watch, "again every second, until the run ends");
    command->footer(
        "sent and received: payload of a site's data connections in its last round, beside what "
        "was\n"
        "predicted for a round with all sites. used: training time over the whole time.");
    command->callback([options, &context] { run(context, *options); });
}

}  // namespace isthmus::launch
