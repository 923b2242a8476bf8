// The step loop: train, record, report, evaluate, stop when asked. The same for one site and for
// many.
#pragma once

#include "launch/training.hpp"

namespace isthmus::launch {

struct LoopSettings {
    std::int64_t steps = 0;
    std::int64_t eval_every = 0;    ///< steps; 0 = only at the end
    std::int64_t eval_windows = 0;  ///< 0 = never
    double gemm_rate = 0;           ///< FLOP/s of this machine; 0: not known
    Path folder = {};               ///< steps.jsonl and evals.jsonl go here
    bool append = false;            ///< to those that are there
};

/// Runs the steps that remain of `settings.steps`, or as many as the hooks want. Asks
/// context.stop() after each; when told to stop it returns with `interrupted`, without another
/// evaluation. ERRORS  throws what step(), evaluate(), the hooks and the records throw; lines
/// written before stay.
TrainingResult run_training_loop(CommandContext&, inner::Trainer&, const LoopSettings&,
                                 const TrainingHooks&);

}  // namespace isthmus::launch
