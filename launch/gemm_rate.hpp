// The machine's own speed limit: a big matrix product through the same ops that train.
#pragma once

#include "inner/cpu/cpu_ops.hpp"
#include "inner/ops/ops.hpp"
#include "inner/trainer.hpp"

namespace isthmus::launch {

/// FLOP/s (multiply and add count two) of y = x W^T with M = out = in = 1024 in `dtype`: the best
/// of the repetitions that fit into `budget_seconds`, weights packed beforehand.
double gemm_rate(inner::Ops&, inner::DType, double budget_seconds = 0.2);

/// What the train section means on this machine: 0 threads = its cores, "auto" = its best
/// instruction set. ERRORS  throws Fatal(kResources) when the instruction set is beyond this
/// processor.
inner::CpuOptions cpu_options(const inner::TrainConfig&);

/// ERRORS  throws Fatal(kResources) when bf16 is asked for, not to be emulated, and not in
/// hardware: the library underneath would emulate it, slower than fp32, and say nothing.
void require_dtype(const inner::TrainConfig&);

}  // namespace isthmus::launch
