#include "launch/load_predictor.hpp"

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "launch/hugging_face_folder.hpp"
#include "launch/machine.hpp"
#include "launch/run_folder.hpp"

namespace isthmus::launch {

namespace {

/// What data.json of a run says about its tokens; nothing when the model does not lie in a run.
void read_data_of_run(FileSystem& files, const Path& run, LoadedModel& model) {
    if (!files.exists(run / kDataName)) {
        if (model.config.vocab == 256) model.tokenizer = "byte";
        return;
    }
    const auto text = read_text(files, run / kDataName);
    if (!text) throw Fatal(ExitCode::kInput, text.error().message);
    const auto json = nlohmann::json::parse(*text, nullptr, false);
    if (!json.is_object() || !json.contains("path") || !json["path"].is_string() ||
        !json.contains("tokenizer") || !json["tokenizer"].is_string()) {
        throw fatal(ExitCode::kInput,
                    "{}: damaged: it should name the run's data; remove it and give --data",
                    (run / kDataName).string());
    }
    model.data = json["path"].get<std::string>();
    model.tokenizer = json["tokenizer"].get<std::string>();
}

}  // namespace

LoadedModel load_predictor(CommandContext& context, const Path& model_or_run,
                           const inner::TrainConfig& compute) {
    LoadedModel model;
    model.folder = find_model_folder(context.files, model_or_run);
    ModelFolder folder = load_model_folder(context.files, model.folder);
    for (const auto& note : folder.notes) context.log.warn("{}", note);
    model.config = folder.config;
    const std::int64_t weights = folder.layout.count() * 4;
    if (const auto available = available_memory_bytes(); available && weights > *available) {
        throw fatal(ExitCode::kResources,
                    "{}: its weights need {} of memory and {} are available: use a smaller model "
                    "or another machine",
                    model.folder.string(), human_bytes(weights), human_bytes(*available));
    }
    if (compute.sequence > model.config.context) {
        throw fatal(ExitCode::kUsage,
                    "{}: sequences of {} tokens are longer than the model's context of {}: shorten "
                    "them",
                    model.folder.string(), compute.sequence, model.config.context);
    }
    model.predictor = inner::Predictor::create(model.config, compute);
    for (std::uint32_t u = 0; u < folder.layout.units.size(); ++u)
        folder.read_unit(UnitId(u), model.predictor->parameters(UnitId(u)));
    model.predictor->parameters_changed();
    // RUN/model or RUN: both are the run's.
    const bool is_run = context.files.exists(model_or_run / kConfigName);
    read_data_of_run(context.files,
                     is_run ? model_or_run : std::filesystem::absolute(model.folder).parent_path(),
                     model);
    return model;
}

}  // namespace isthmus::launch
