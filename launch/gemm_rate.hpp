// The machine's own speed limit: a big matrix product through the same ops that train.
#pragma once

#include "inner/ops/ops.hpp"

namespace isthmus::launch {

/// FLOP/s (multiply and add count two) of y = x W^T with M = out = in = 512 in `dtype`: the best
/// of the repetitions that fit into `budget_seconds`, weights packed beforehand.
double gemm_rate(inner::Ops&, inner::DType, double budget_seconds = 0.4);

}  // namespace isthmus::launch
