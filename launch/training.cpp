#include "launch/training.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "inner/engine.hpp"
#include "launch/doctor.hpp"
#include "launch/gemm_rate.hpp"
#include "launch/hugging_face_folder.hpp"
#include "launch/machine.hpp"
#include "launch/prediction.hpp"
#include "launch/progress.hpp"
#include "launch/run_folder.hpp"
#include "launch/training_loop.hpp"

namespace isthmus::launch {

namespace {

std::string data_json(const RunConfig& config, const inner::TokenFileInfo& info) {
    const nlohmann::ordered_json json = {
        {"path", config.data},         {"fingerprint", fmt::format("{:016x}", info.fingerprint)},
        {"tokenizer", info.tokenizer}, {"vocab", info.vocab},
        {"tokens", info.tokens},       {"train_tokens", info.train_tokens},
        {"documents", info.documents}};
    return json.dump(2) + "\n";
}

/// What can be known to fail before a byte of the model is allocated.
void check_data(const RunConfig& config, const inner::TokenFile& tokens) {
    const auto& info = tokens.info();
    if (info.vocab > static_cast<std::uint64_t>(config.model.vocab)) {
        throw fatal(ExitCode::kInput,
                    "{}: holds ids up to {}, but model.vocab = {}: choose a model with a larger "
                    "vocabulary or prepare the data with another tokenizer",
                    config.data, info.vocab - 1, config.model.vocab);
    }
    const auto need = static_cast<std::uint64_t>(config.sequence()) + 1;
    const auto have = tokens.split_tokens(inner::Split::kTrain);
    if (have < need) {
        throw fatal(ExitCode::kInput,
                    "{}: {} training tokens are shorter than one sequence ({} + 1): lower "
                    "train.sequence or prepare more text",
                    config.data, have, config.sequence());
    }
    const auto validation = tokens.split_tokens(inner::Split::kValidation);
    if (config.train.eval_windows > 0 && validation < need) {
        throw fatal(ExitCode::kInput,
                    "{}: {} validation tokens are shorter than one sequence ({} + 1): prepare it "
                    "with a larger --validation, or set train.eval_windows = 0 and "
                    "train.eval_every = 0",
                    config.data, validation, config.sequence());
    }
}

void check_memory(const RunConfig& config, std::int64_t sites_here) {
    const auto report = inner::Trainer::predict(config.model, config.train, config.optim);
    std::int64_t bytes = report.arena_bytes;
    if (config.several_sites()) bytes += outer_memory(config).bytes;
    require_memory(bytes * sites_here, available_memory_bytes());
}

template <class Groups>
std::string by_group(const Groups& groups) {
    std::string text;
    for (const auto& [group, bytes] : groups)
        text += fmt::format("{}{} {}", text.empty() ? "" : ", ", group, human_bytes(bytes));
    return text;
}

/// All sites of one machine measure at once, and each then sees its share of it.
double measured_gemm_rate(const RunConfig& config) {
    const auto ops = inner::make_ops(config.train);
    return gemm_rate(*ops, inner::compute_type(config.train));
}

void describe_start(Log& log, const RunConfig& config, inner::Trainer& trainer,
                    const inner::TokenFileInfo& info, double rate) {
    log.info("model: {} ({}), {} parameters, context {}", config.model.preset, config.model.family,
             with_commas(trainer.layout().count()), config.model.context);
    log.info("data: {}, {} training tokens ({}), {} tokens a step", config.data,
             with_commas(static_cast<std::int64_t>(info.train_tokens)), info.tokenizer,
             with_commas(config.tokens_per_step()));
    log.info("memory: {} planned ({})", human_bytes(trainer.memory().arena_bytes),
             by_group(trainer.memory().groups));
    if (config.several_sites()) {
        const OuterMemory outer = outer_memory(config);
        log.info("memory: {} planned beside it for the outer loop, {:.1f} bytes a parameter ({})",
                 human_bytes(outer.bytes),
                 static_cast<double>(outer.bytes) / static_cast<double>(outer.parameters),
                 by_group(outer.groups));
    }
    log.info("device: {}, {:.0f} GFLOP/s in a big {} GEMM", trainer.device(), rate / 1e9,
             config.train.dtype);
}

}  // namespace

void require_memory(std::int64_t needed_bytes, std::optional<std::int64_t> available_bytes) {
    if (!available_bytes || needed_bytes <= *available_bytes) return;
    throw fatal(ExitCode::kResources,
                "this run needs {} of memory and {} are available: lower train.batch or "
                "train.sequence, set train.recompute = true, or choose a smaller model",
                human_bytes(needed_bytes), human_bytes(*available_bytes));
}

void check_before_start(CommandContext& context, const RunConfig& config, std::int64_t sites_here) {
    config.require_data();
    check_data(config, *inner::TokenFile::open(context.files, config.data));
    check_memory(config, sites_here);
}

void write_run_description(CommandContext& context, const RunConfig& config, const Path& folder) {
    const auto tokens = inner::TokenFile::open(context.files, config.data);
    RunConfig resolved = config;
    write_run_file(context.files, folder / kConfigName, dump_config(describe_of(resolved), true));
    write_run_file(context.files, folder / kDoctorName, doctor_json(examine(folder)));
    write_run_file(context.files, folder / kDataName, data_json(config, tokens->info()));
}

TrainingResult train_here(CommandContext& context, const TrainingJob& job) {
    const RunConfig& config = job.config;
    check_before_start(context, config, 1);
    const auto tokens = inner::TokenFile::open(context.files, config.data);
    write_run_description(context, config, job.folder);

    const double rate = measured_gemm_rate(config);
    const auto trainer = inner::Trainer::create(config.model, config.train, config.optim, *tokens,
                                                job.hooks.next_samples);
    describe_start(context.log, config, *trainer, tokens->info(), rate);

    const LoopSettings settings{
        config.train.steps, config.train.eval_every, config.train.eval_windows, rate, job.folder,
        job.append};
    TrainingResult result = run_training_loop(context, *trainer, settings, job.hooks);

    const auto peak = peak_memory_bytes();
    result.peak_bytes = peak.value_or(0);
    if (peak) {
        context.log.info("memory: {} measured at the peak of the process ({} planned)",
                         human_bytes(*peak), human_bytes(trainer->memory().arena_bytes));
    }
    if (trainer->skipped_steps() > 0) {
        context.log.warn("{} steps were skipped because of NaN or Inf in the gradients",
                         trainer->skipped_steps());
    }
    if (!job.model_folder.empty() && result.steps > 0) {
        save_model_folder(context.files, job.model_folder, config.model, trainer->layout(),
                          [&](UnitId unit) { return trainer->parameters(unit); });
    }
    return result;
}

void say_result(CommandContext& context, const TrainingJob& job, const TrainingResult& result) {
    const std::string records = (job.folder / kStepsName).string();
    const std::string model =
        job.model_folder.empty() ? std::string() : "; model in " + job.model_folder.string();
    if (result.interrupted) {
        throw fatal(ExitCode::kInterrupted, "stopped after step {} of {}; kept: {}{}", result.steps,
                    job.config.train.steps, records, model);
    }
    const bool evaluated = result.validation_loss.has_value();
    context.log.info("done: {} steps in {}, {} loss {:.4f}{}", result.steps,
                     human_duration(result.seconds), evaluated ? "validation" : "training",
                     evaluated ? *result.validation_loss : result.train_loss, model);
}

}  // namespace isthmus::launch
