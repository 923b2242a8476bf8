// One process that trains: what `isthmus train` with one site and each site of many have in common.
//
// train_here opens the data, refuses what cannot fit, builds the trainer, writes the run's records
// and runs the step loop. A site of many differs only by its hooks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/files.hpp"
#include "inner/trainer.hpp"
#include "launch/command.hpp"
#include "launch/run_config.hpp"

namespace isthmus::launch {

enum class LoopNext { kGoOn, kFinished, kInterrupted };

/// Where another loop takes part in this one. Each may be empty. Called by the training thread;
/// what they throw (Fatal) ends the training after the records were flushed.
struct TrainingHooks {
    inner::NextSamples next_samples;  ///< empty: samples 0, 1, 2, ... of the run
    /// Once, after the trainer stands with its initial weights and before the first step.
    std::function<LoopNext(inner::Trainer&)> begin;
    /// After each step, before that step may be evaluated. If there is one, it alone says when the
    /// training is finished; the trainer's count of steps may jump.
    std::function<LoopNext(inner::Trainer&, const inner::StepReport&, double step_seconds)>
        after_step;
    /// Once, after the last step (not after an interruption), before the last evaluation and the
    /// save.
    std::function<void(inner::Trainer&)> end;
};

struct TrainingJob {
    RunConfig config;   ///< resolved and checked
    Path folder;        ///< exists (create_run_folder); records go here
    Path model_folder;  ///< written at the end or when interrupted; empty: nothing is saved
    TrainingHooks hooks = {};
    bool append = false;  ///< go on with records that are there, as a site that returns
};

struct TrainingResult {
    std::int64_t steps = 0;  ///< done
    double train_loss = 0;   ///< of the last step
    std::optional<double> validation_loss;
    bool interrupted = false;  ///< the context's stop() ended it; the step in hand was finished
    double seconds = 0;        ///< in the step loop
    std::int64_t peak_bytes = 0;
};

/// What can be known to fail before anything is allocated or written: no data, ids beyond the
/// vocabulary, text shorter than a sequence, bf16 or an instruction set that this processor lacks,
/// memory. ERRORS  throws Fatal(kUsage, kInput or kResources).
void check_before_start(CommandContext&, const RunConfig&, std::int64_t sites_here);

/// ERRORS  throws Fatal(kResources), with both figures, when the need is beyond what is available.
void require_memory(std::int64_t needed_bytes, std::optional<std::int64_t> available_bytes);

/// config.toml, doctor.json and data.json of a run or of one of its sites.
/// ERRORS  throws Fatal(kInput) when the data cannot be opened, Fatal(kResources) when the disk
/// refuses.
void write_run_description(CommandContext&, const RunConfig&, const Path& folder);

/// ERRORS  throws Fatal: kInput (data), kResources (memory, disk, processor), kDiverged, and what
/// hooks throw. When interrupted it returns; the caller says so and exits.
TrainingResult train_here(CommandContext&, const TrainingJob&);

/// Says how it went and where the model is.
/// ERRORS  throws Fatal(kInterrupted), which says what was kept, when the training was interrupted.
void say_result(CommandContext&, const TrainingJob&, const TrainingResult&);

}  // namespace isthmus::launch
