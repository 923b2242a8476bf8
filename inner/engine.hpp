// What trainer and predictor share: the backend chosen from a TrainConfig, and what it is refused
// for.
#pragma once

#include <memory>

#include "inner/model/block.hpp"
#include "inner/model/config.hpp"
#include "inner/ops/ops.hpp"
#include "inner/trainer.hpp"

namespace isthmus::inner {

/// ERRORS throws Fatal(kResources): bf16 without hardware for it and without train.emulate_bf16; an
/// instruction set beyond this processor.
std::unique_ptr<Ops> make_ops(const TrainConfig&);
DType compute_type(const TrainConfig&);
/// train.batch x (train.sequence or the model's context).
/// ERRORS throws Fatal(kUsage) when the sequence is longer than the context.
BatchShape batch_shape(const ModelConfig&, const TrainConfig&);

/// Mean loss over the first `windows` windows of a split, in micro-batches of `shape`.
/// `loss(tokens, targets, windows)` returns the sum over those windows.
/// ERRORS throws Fatal(kInput): no window in the split; data that cannot be read.
using LossOfWindows =
    std::function<double(const std::int32_t*, const std::int32_t*, std::int64_t windows)>;
double mean_loss(TokenFile&, Split, std::int64_t windows, BatchShape, const LossOfWindows&);

}  // namespace isthmus::inner
