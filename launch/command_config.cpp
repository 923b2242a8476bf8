#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "base/error.hpp"
#include "launch/command.hpp"
#include "launch/machine.hpp"
#include "launch/progress.hpp"
#include "launch/run_config.hpp"

namespace isthmus::launch {

namespace {

struct Options {
    bool defaults = false;
    std::string explain;
    std::string check;
    std::vector<std::string> overrides;
};

void print(const std::string& text) {
    std::fputs(text.c_str(), stdout);
}

void check(CommandContext& context, const Options& options) {
    const RunConfig config = load_run_config(context.files, options.check, options.overrides);
    const auto memory = inner::Trainer::predict(config.model, config.train, config.optim);
    print(
        fmt::format("{}: good; run \"{}\" in {}, {} steps of {} tokens a site, {} site(s), {} of "
                    "memory a site\n",
                    options.check, config.name, config.run_folder, config.train.steps,
                    with_commas(config.tokens_per_step()), config.outer.num_sites(),
                    human_bytes(memory.arena_bytes)));
}

void run(CommandContext& context, const Options& options) {
    const int asked =
        int(options.defaults) + int(!options.explain.empty()) + int(!options.check.empty());
    if (asked != 1) {
        throw fatal(ExitCode::kUsage,
                    "config: give one of --defaults, --explain KEY and --check FILE");
    }
    if (!options.overrides.empty() && options.check.empty())
        throw fatal(ExitCode::kUsage, "config: --set goes with --check FILE");
    RunConfig defaults;
    if (options.defaults) print(dump_config(describe_of(defaults), true));
    if (!options.explain.empty()) {
        std::string text = explain_config(describe_of(defaults), options.explain);
        if (!text.ends_with('\n')) text += '\n';
        print(text);
    }
    if (!options.check.empty()) check(context, options);
}

}  // namespace

void add_config_command(CLI::App& app, CommandContext& context) {
    auto* command = app.add_subcommand(
        "config", "The keys of a run's configuration: defaults, explanations, a check");
    auto options = std::make_shared<Options>();
    command->add_flag("--defaults", options->defaults,
                      "every key with its help and default, as TOML");
    command->add_option("--explain", options->explain, "what one key or section means")
        ->type_name("KEY");
    command
        ->add_option("--check", options->check,
                     "read a file, refuse what contradicts, predict the memory")
        ->type_name("FILE.toml");
    command->add_option("--set", options->overrides, "with --check: keys that differ from the file")
        ->type_name("KEY=VALUE");
    command->callback([options, &context] { run(context, *options); });
}

}  // namespace isthmus::launch
