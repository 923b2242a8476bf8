// AdamW and the learning-rate schedule.
#pragma once

#include <cstdint>
#include <string>

#include "base/config.hpp"

namespace isthmus::inner {

struct OptimConfig {
    double lr = 2e-3;
    std::string schedule = "cosine";
    std::int64_t warmup_steps = 100;
    std::int64_t decay_steps = 0;
    double final_lr_fraction = 0.1;
    double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
    double weight_decay = 0.1;
    double clip_norm = 1.0;
    void describe(ConfigVisitor&);
};

/// Learning rate of a step (0-based) of `total_steps`.
///   warm-up        lr (step + 1) / warmup_steps, in every schedule
///   constant       lr
///   linear, cosine from lr down to final_lr_fraction lr over the steps after the warm-up
///   wsd            warm-up, stable, decay (arXiv:2404.06395): lr until the last decay_steps steps,
///   then
///                  linear down to final_lr_fraction lr
double learning_rate(const OptimConfig&, std::int64_t step, std::int64_t total_steps);

}  // namespace isthmus::inner
