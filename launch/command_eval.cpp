#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "inner/data/windows.hpp"
#include "launch/command.hpp"
#include "launch/command_compute.hpp"
#include "launch/generate.hpp"
#include "launch/load_predictor.hpp"

namespace isthmus::launch {

namespace {

struct Options {
    std::string model;
    std::string data;
    std::string split = "validation";
    std::string logits;
    std::int64_t windows = 64;
    bool json = false;
    inner::TrainConfig compute;
};

/// One JSON object on one line: ids and, for each, the logits after it.
void print_logits(CommandContext& context, Options& options) {
    options.compute.batch = 1;
    const auto ids = parse_ids(options.logits, std::int64_t{1} << 31, "--logits");
    options.compute.sequence = static_cast<std::int64_t>(ids.size());
    const LoadedModel model = load_predictor(context, options.model, options.compute);
    parse_ids(options.logits, model.config.vocab, "--logits");
    const auto vocab = static_cast<std::size_t>(model.config.vocab);
    std::vector<float> logits(ids.size() * vocab);
    model.predictor->logits(ids, logits);
    nlohmann::ordered_json json;
    json["ids"] = ids;
    json["logits"] = nlohmann::ordered_json::array();
    for (std::size_t t = 0; t < ids.size(); ++t) {
        const auto row = logits.begin() + static_cast<std::ptrdiff_t>(t * vocab);
        json["logits"].push_back(std::vector<float>(row, row + static_cast<std::ptrdiff_t>(vocab)));
    }
    std::puts(json.dump().c_str());
}

void check_vocabulary(const std::string& data, const inner::TokenFileInfo& info,
                      const inner::ModelConfig& config) {
    if (info.vocab <= static_cast<std::uint64_t>(config.vocab)) return;
    throw fatal(ExitCode::kInput,
                "{}: holds ids up to {}, but the model's vocabulary ends at {}: this is not the "
                "data for this model",
                data, info.vocab - 1, config.vocab - 1);
}

void print_loss(CommandContext& context, const Options& options) {
    const LoadedModel model = load_predictor(context, options.model, options.compute);
    const std::string data = options.data.empty() ? model.data : options.data;
    if (data.empty()) {
        throw fatal(ExitCode::kUsage,
                    "eval: {} does not say which data it was trained on: give --data DIR",
                    options.model);
    }
    const auto tokens = inner::TokenFile::open(context.files, data);
    check_vocabulary(data, tokens->info(), model.config);
    const auto split = options.split == "train" ? inner::Split::kTrain : inner::Split::kValidation;
    const std::int64_t sequence =
        options.compute.sequence > 0 ? options.compute.sequence : model.config.context;
    const auto there = static_cast<std::int64_t>(inner::num_windows(*tokens, split, sequence));
    const double loss = model.predictor->evaluate(*tokens, split, options.windows);
    const std::int64_t windows = std::min(options.windows, there);
    if (options.json) {
        const nlohmann::ordered_json json = {{"model", model.folder.string()}, {"data", data},
                                             {"split", options.split},         {"windows", windows},
                                             {"sequence", sequence},           {"loss", loss}};
        std::puts(json.dump().c_str());
        return;
    }
    const std::string line = fmt::format(
        "loss {:.4f} nats a token ({:.4f} bits, perplexity {:.2f}) over {} {} windows of {} tokens "
        "of {}\n",
        loss, loss / std::log(2.0), std::exp(loss), windows, options.split, sequence, data);
    std::fputs(line.c_str(), stdout);
}

}  // namespace

void add_eval_command(CLI::App& app, CommandContext& context) {
    auto* command = app.add_subcommand("eval", "Loss of a model on prepared data, or its logits");
    auto options = std::make_shared<Options>();
    command->add_option("model", options->model, "a run's folder or a Hugging Face folder")
        ->required()
        ->type_name("MODEL_OR_RUN");
    command->add_option("--data", options->data, "token folder; default: the run's own")
        ->type_name("DIR");
    command->add_option("--split", options->split, "part of the data")
        ->check(CLI::IsMember({"train", "validation"}))
        ->capture_default_str();
    command
        ->add_option("--windows", options->windows, "sequences to read; fewer if there are fewer")
        ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000'000}))
        ->type_name("SEQUENCES")
        ->capture_default_str();
    command
        ->add_option("--sequence", options->compute.sequence,
                     "length of each; 0 = the model's context")
        ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 20))
        ->type_name("TOKENS")
        ->capture_default_str();
    command->add_option("--batch", options->compute.batch, "sequences computed at once")
        ->check(CLI::Range(1, 65536))
        ->type_name("SEQUENCES")
        ->capture_default_str();
    command
        ->add_option("--logits", options->logits,
                     "instead of a loss: the logits after each of these ids, as JSON "
                     "{\"ids\": [...], \"logits\": [[...], ...]}")
        ->type_name("IDS");
    command->add_flag("--json", options->json, "the result as one JSON object");
    add_compute_options(*command, options->compute);
    command->callback([options, &context] {
        if (options->logits.empty()) {
            print_loss(context, *options);
        } else {
            print_logits(context, *options);
        }
    });
}

}  // namespace isthmus::launch
