// A trained model, ready to evaluate and generate: from a Hugging Face folder or from a run.
#pragma once

#include <memory>
#include <string>

#include "inner/trainer.hpp"
#include "launch/command.hpp"

namespace isthmus::launch {

struct LoadedModel {
    Path folder;  ///< the Hugging Face folder
    inner::ModelConfig config;
    std::unique_ptr<inner::Predictor> predictor;
    std::string
        tokenizer;     ///< of the run's data; else "byte" when the vocabulary has 256 ids; else ""
    std::string data;  ///< the run's token file; "" when the folder is no run

    /// Whether ids are bytes, so that text can go in and out.
    bool speaks_bytes() const { return config.vocab == 256 && tokenizer == "byte"; }
};

/// `compute` says batch, sequence (0 = the context), dtype, threads and instruction set.
/// ERRORS  throws Fatal: kInput when there is no model or it is damaged, kResources when it cannot
/// fit or the processor lacks what `compute` asks for, kUsage when the sequence is longer than the
/// context.
LoadedModel load_predictor(CommandContext&, const Path& model_or_run,
                           const inner::TrainConfig& compute);

}  // namespace isthmus::launch
