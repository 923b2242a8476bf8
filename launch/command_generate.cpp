#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "base/error.hpp"
#include "launch/command.hpp"
#include "launch/command_compute.hpp"
#include "launch/generate.hpp"
#include "launch/load_predictor.hpp"

namespace isthmus::launch {

namespace {

struct Options {
    std::string model;
    std::string prompt;
    std::string ids;
    std::int64_t tokens = 200;
    inner::SamplingConfig sampling;
    inner::TrainConfig compute;
};

std::vector<std::int32_t> prompt_of(const Options& options, const LoadedModel& model) {
    if (!options.ids.empty()) return parse_ids(options.ids, model.config.vocab, "--ids");
    if (!model.speaks_bytes()) {
        throw fatal(ExitCode::kUsage,
                    "generate: {} is no byte model, so it needs --ids 1,2,3 instead of --prompt",
                    options.model);
    }
    return byte_tokens(options.prompt.empty() ? "\n" : options.prompt);
}

void run(CommandContext& context, Options& options) {
    if (!options.ids.empty() && !options.prompt.empty())
        throw fatal(ExitCode::kUsage, "generate: give --prompt or --ids, not both");
    options.compute.batch = 1;
    options.compute.sequence = 1;
    const LoadedModel model = load_predictor(context, options.model, options.compute);
    const GenerateSettings settings{prompt_of(options, model), options.tokens, model.config.context,
                                    options.sampling};
    const bool text = model.speaks_bytes() && options.ids.empty();
    if (text) std::fwrite(options.prompt.data(), 1, options.prompt.size(), stdout);
    bool first = true;
    const auto emit = [&](std::int32_t token) {
        if (text) {
            std::fputc(token, stdout);
        } else {
            std::fprintf(stdout, first ? "%d" : ",%d", token);
        }
        first = false;
        std::fflush(stdout);
    };
    const std::int64_t drawn = generate(*model.predictor, settings, emit, context.stop);
    std::fputc('\n', stdout);
    if (drawn < options.tokens) {
        throw fatal(ExitCode::kInterrupted, "stopped after {} of {} tokens", drawn, options.tokens);
    }
}

}  // namespace

void add_generate_command(CLI::App& app, CommandContext& context) {
    auto* command = app.add_subcommand("generate", "Text or token ids from a model");
    auto options = std::make_shared<Options>();
    command->add_option("model", options->model, "a run's folder or a Hugging Face folder")
        ->required()
        ->type_name("MODEL_OR_RUN");
    command
        ->add_option("--prompt", options->prompt,
                     "text to go on from (byte models); default: a line end")
        ->type_name("TEXT");
    command->add_option("--ids", options->ids, "token ids to go on from; the output is ids too")
        ->type_name("IDS");
    command->add_option("--tokens", options->tokens, "how many to draw")
        ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000'000}))
        ->type_name("TOKENS")
        ->capture_default_str();
    command->add_option("--temperature", options->sampling.temperature, "0 = always the likeliest")
        ->check(CLI::Range(0.0, 100.0))
        ->capture_default_str();
    command->add_option("--top-k", options->sampling.top_k, "only the k likeliest; 0 = all")
        ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 31))
        ->type_name("TOKENS")
        ->capture_default_str();
    command
        ->add_option("--top-p", options->sampling.top_p,
                     "only the likeliest that together hold this share of the probability")
        ->check(CLI::Range(1e-6, 1.0))
        ->capture_default_str();
    command->add_option("--seed", options->sampling.seed, "same seed, same output")
        ->capture_default_str();
    add_compute_options(*command, options->compute);
    command->footer(
        "A byte model (256 ids) prints the prompt and what follows as text, others print ids.\n"
        "When the context is full it slides: the model goes on from the last half of it.");
    command->callback([options, &context] { run(context, *options); });
}

}  // namespace isthmus::launch
