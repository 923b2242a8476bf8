#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.hpp"
#include "launch/command.hpp"
#include "launch/command_run.hpp"
#include "launch/run_folder.hpp"
#include "launch/run_status.hpp"

namespace isthmus::launch {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::chrono::milliseconds kRedrawEvery{1000}, kAskStop{50};

struct Options {
    std::string run;
    bool json = false, watch = false;
};

Json read_status(CommandContext& context, const Path& folder) {
    const Path file = folder / kStatusName;
    const auto text = read_text(context.files, file, 64 << 20);
    if (!text) {
        throw fatal(ExitCode::kInput,
                    "{}: no status of a run with several sites: no coordinator has been started in "
                    "this folder",
                    file.string());
    }
    Json status = Json::parse(*text, nullptr, false);
    if (!status.is_object() || !status.contains("sites"))
        throw fatal(ExitCode::kInput, "{}: not a run's status", file.string());
    return status;
}

void show(const Json& status, const Options& options) {
    const double now = unix_seconds();
    if (options.json) {
        Json with_age = status;
        with_age["stale"] = staleness(status, now);
        fmt::print("{}\n", with_age.dump(options.watch ? -1 : 2));
    } else {
        // Home and clear: what is watched stays in one place.
        fmt::print("{}{}", options.watch ? "\x1b[H\x1b[J" : "", status_table(status, now));
    }
    std::fflush(stdout);
}

void run(CommandContext& context, const Options& options) {
    const Path folder = run_folder_of(context, options.run);
    while (true) {
        const Json status = read_status(context, folder);
        show(status, options);
        if (!options.watch || status.at("phase") == "ended") return;
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
    command->add_flag("--json", options->json, "for scripts");
    command->add_flag("--watch", options->watch, "again every second, until the run ends");
    command->footer(
        "sent and received: payload of a site's data connections in its last round, beside what "
        "was\n"
        "predicted for a round with all sites. used: training time over the whole time.");
    command->callback([options, &context] { run(context, *options); });
}

}  // namespace isthmus::launch
