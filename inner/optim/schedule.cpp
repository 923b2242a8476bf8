#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.hpp"
#include "inner/optim/config.hpp"

namespace isthmus::inner {

double learning_rate(const OptimConfig& config, std::int64_t step, std::int64_t total_steps) {
    const double peak = config.lr, low = config.lr * config.final_lr_fraction;
    if (step < config.warmup_steps)
        return peak * static_cast<double>(step + 1) / static_cast<double>(config.warmup_steps);
    const auto share = [](std::int64_t done, std::int64_t all) {
        return std::min(
            1.0, static_cast<double>(done) / static_cast<double>(std::max<std::int64_t>(1, all)));
    };
    const double progress = share(step - config.warmup_steps, total_steps - config.warmup_steps);
    if (config.schedule == "constant") return peak;
    if (config.schedule == "linear") return peak + (low - peak) * progress;
    if (config.schedule == "cosine")
        return low + (peak - low) * 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
    CHECK(config.schedule == "wsd", "schedule {}", config.schedule);
    const std::int64_t decay_from = total_steps - config.decay_steps;
    return step < decay_from ? peak
                             : peak + (low - peak) * share(step - decay_from, config.decay_steps);
}

}  // namespace isthmus::inner
