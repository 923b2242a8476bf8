#include "launch/command_line.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/build_info.hpp"
#include "base/config.hpp"
#include "base/error.hpp"
#include "launch/library_versions.hpp"

namespace isthmus::launch {

namespace {

constexpr const char* kIntroduction =
    "isthmus trains one model on several sites that only a thin link joins.\n"
    "\n"
    "  isthmus data prepare TEXT --out data/mine                     text to tokens\n"
    "  isthmus new run --data data/mine --sites paris,oslo           run.toml and keys\n"
    "  isthmus train run.toml                                        train at all its sites\n"
    "  isthmus status run                                            how it goes\n"
    "  isthmus eval runs/run                                         its validation loss\n"
    "  isthmus generate runs/run --prompt \"The \"                     text from it\n"
    "\n"
    "Each command has --help; isthmus --help lists all commands and the exit codes.\n";

constexpr const char* kExitCodes =
    "Exit codes:\n"
    "  0    done\n"
    "  1    an internal error\n"
    "  2    command line or configuration: nothing was started\n"
    "  3    a data, model or run folder is missing, damaged or does not fit\n"
    "  4    memory, disk or a processor feature is lacking\n"
    "  5    three steps in a row with NaN or Inf gradients\n"
    "  6    another process of the run was lost\n"
    "  130  stopped with Ctrl-C or SIGTERM; what was kept has been said\n"
    "Results go to stdout, everything else to stderr.";

std::string version_text() {
    std::string text = "isthmus " + build_info_line() + "\n";
    for (const auto& library : library_versions())
        text += fmt::format("  {} {}\n", library.name, library.version);
    text.pop_back();
    return text;
}

/// The innermost subcommand that was named, and how one calls it: "isthmus data prepare".
CLI::App* active_command(CLI::App& app, std::string& name) {
    CLI::App* at = &app;
    name = app.get_name();
    while (!at->get_subcommands().empty()) {
        at = at->get_subcommands().front();
        name += " " + at->get_name();
    }
    return at;
}

std::vector<std::string> option_names(const CLI::App& command) {
    std::vector<std::string> names;
    for (const CLI::Option* option : command.get_options())
        for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    return names;
}

std::vector<std::string> command_names(CLI::App& command) {
    std::vector<std::string> names;
    for (const CLI::App* sub : command.get_subcommands({})) names.push_back(sub->get_name());
    return names;
}

/// "; did you mean X?" or "".
std::string suggestion(const std::string& word, const std::vector<std::string>& known) {
    const std::string nearest = nearest_name(word, known);
    return nearest.empty() ? "" : "; did you mean " + nearest + "?";
}

std::string explain(CLI::App& app, const CLI::ParseError& error) {
    std::string name;
    CLI::App* command = active_command(app, name);
    const std::string help = fmt::format(" ({} --help)", name);
    const std::vector<std::string> extras = app.remaining(true);
    const std::vector<std::string> commands = command_names(*command);
    // A misspelt command is also a missing one, and CLI11 may speak of that first.
    const bool unknown = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
    if (!extras.empty() && (unknown || !commands.empty())) {
        const std::string word = extras.front().substr(0, extras.front().find('='));
        if (word.starts_with("-")) {
            return fmt::format("{}: {} has no such option{}{}", word, name,
                               suggestion(word, option_names(*command)), help);
        }
        if (!commands.empty()) {
            return fmt::format("{}: {} has no such command{}{}", extras.front(), name,
                               suggestion(word, commands), help);
        }
        return fmt::format("{}: {} takes no such argument{}", extras.front(), name, help);
    }
    std::string what = error.what();
    for (char& c : what)
        if (c == '\n') c = ' ';
    return what + help;
}

void add_commands(CLI::App& app, CommandContext& context) {
    add_new_command(app, context);
    add_train_command(app, context);
    add_eval_command(app, context);
    add_generate_command(app, context);
    add_data_command(app, context);
    add_config_command(app, context);
    add_doctor_command(app, context);
    add_site_command(app, context);
    add_coordinator_command(app, context);
    add_status_command(app, context);
    add_ctl_command(app, context);
    add_link_command(app, context);
    add_keys_command(app, context);
    add_simulate_command(app, context);
}

}  // namespace

void run_command_line(CommandContext& context, const std::vector<std::string>& arguments) {
    CLI::App app("isthmus trains one model on several sites that only a thin link joins.",
                 "isthmus");
    app.set_version_flag("--version", version_text, "commit, build and library versions");
    app.require_subcommand(0, 1);
    add_commands(app, context);
    app.footer(kExitCodes);  // last: subcommands inherit what stands before them
    if (arguments.empty()) {
        std::fputs(kIntroduction, stdout);
        return;
    }
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // CLI11's convention
    try {
        app.parse(std::move(reversed));
    } catch (const CLI::Success& asked) {  // --help, --version: CLI11 prints them
        app.exit(asked);
    } catch (const CLI::ParseError& error) {
        throw fatal(ExitCode::kUsage, "{}", explain(app, error));
    }
}

}  // namespace isthmus::launch
