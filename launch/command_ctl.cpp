#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "base/error.hpp"
#include "launch/command.hpp"
#include "launch/command_run.hpp"
#include "launch/operator_desk.hpp"

namespace isthmus::launch {

namespace {

constexpr std::chrono::seconds kAnswerWithin{5};

struct Options {
    std::string run, what, site;
};

void run(CommandContext& context, const Options& options) {
    const std::string words = options.what + (options.site.empty() ? "" : " " + options.site);
    if (const auto operate = parse_operation(words); !operate)
        throw fatal(ExitCode::kUsage, "ctl: {}", operate.error().message);
    const auto answer = ask_coordinator(run_folder_of(context, options.run), words, kAnswerWithin);
    if (!answer) throw fatal(ExitCode::kPeerLost, "{}", answer.error().message);
    fmt::print("{}\n", *answer);
}

}  // namespace

void add_ctl_command(CLI::App& app, CommandContext& context) {
    auto* command = app.add_subcommand(
        "ctl",
        "Tells the coordinator of a run on this machine what to do:\n"
        "  drain SITE  it leaves after the next round that counts its work, and ends well\n"
        "  drop SITE   it is sent away at once; others get its samples; it may not return\n"
        "  pause       sites wait at their next meeting\n"
        "  resume      the run goes on");
    auto options = std::make_shared<Options>();
    command->add_option("run", options->run, "folder of the run, its FILE.toml or its name")
        ->required()
        ->type_name("RUN");
    command->add_option("what", options->what, "drain, drop, pause, resume")
        ->required()
        ->type_name("WHAT");
    command->add_option("site", options->site, "whom")->type_name("SITE");
    command->callback([options, &context] { run(context, *options); });
}

}  // namespace isthmus::launch
