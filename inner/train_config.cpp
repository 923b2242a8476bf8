#include <algorithm>

#include "base/error.hpp"
#include "inner/trainer.hpp"

namespace isthmus::inner {

void TrainConfig::describe(ConfigVisitor& v) {
    v.field("steps", steps,
            {.help = "optimizer steps of the run", .unit = "steps", .min = 1, .max = 1e12});
    v.field("batch", batch,
            {.help = "sequences a micro-batch", .unit = "sequences", .min = 1, .max = 65536});
    v.field("sequence", sequence,
            {.help = "length of a training sequence; 0 = model.context",
             .unit = "tokens",
             .min = 0,
             .max = 1 << 20});
    v.field("accumulate", accumulate,
            {.help = "micro-batches a step; gradients add up in fp32",
             .unit = "micro-batches",
             .min = 1,
             .max = 65536});
    v.field(
        "global_batch", global_batch,
        {.help =
             "sequences a step of all sites together, from which accumulate follows; 0 = batch x "
             "accumulate x sites",
         .unit = "sequences",
         .min = 0,
         .max = 1e12});
    v.field("dtype", dtype,
            {.help = "compute type; masters, moments, gradients and loss are fp32 in both",
             .one_of = {"fp32", "bf16"}});
    v.field("emulate_bf16", emulate_bf16,
            {.help = "compute bf16 on a processor without it, slowly; for tests"});
    v.field("threads", threads,
            {.help = "compute threads of this machine, divided among its sites; 0 = every core",
             .unit = "threads",
             .min = 0,
             .max = 4096});
    v.field("instruction_set", instruction_set,
            {.help = "of our own kernels; auto = the best of this processor",
             .one_of = {"auto", "baseline", "avx2", "avx512"}});
    v.field("recompute", recompute,
            {.help = "keep only each block's input and compute the rest again in backward: less "
                     "memory, about a third more work"});
    v.field("seed", seed,
            {.help = "of initial weights and data order", .min = 0, .max = 9007199254740992.0});
    v.field("eval_every", eval_every,
            {.help = "steps between evaluations; 0 = only at the end",
             .unit = "steps",
             .min = 0,
             .max = 1e12});
    v.field("eval_windows", eval_windows,
            {.help = "sequences an evaluation reads from the validation part; 0 = never evaluate",
             .unit = "sequences",
             .min = 0,
             .max = 1e9});
}

void TrainConfig::resolve_batch(std::int64_t replicas) {
    if (global_batch == 0) return;
    const std::int64_t once = batch * replicas;
    if (global_batch % once != 0)
        throw fatal(
            ExitCode::kUsage,
            "train.global_batch = {} is not a multiple of train.batch x sites = {} x {} = {}: the "
            "nearest that are: {} and {}",
            global_batch, batch, replicas, once,
            std::max<std::int64_t>(1, global_batch / once) * once,
            (global_batch / once + 1) * once);
    const std::int64_t needed = global_batch / once;
    if (accumulate != 1 && accumulate != needed)
        throw fatal(ExitCode::kUsage,
                    "train.accumulate = {} contradicts train.global_batch = {}, which needs {} "
                    "micro-batches of {} at each of {} sites: set only one of the two",
                    accumulate, global_batch, needed, batch, replicas);
    accumulate = needed;
}

}  // namespace isthmus::inner
