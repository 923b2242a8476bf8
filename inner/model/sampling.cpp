#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.hpp"
#include "base/random.hpp"
#include "inner/trainer.hpp"

namespace isthmus::inner {

std::int32_t sample_token(std::span<const float> logits, const SamplingConfig& config,
                          std::uint64_t draw) {
    CHECK(!logits.empty());
    const auto best = std::max_element(logits.begin(), logits.end());
    if (config.temperature <= 0) return static_cast<std::int32_t>(best - logits.begin());

    // Candidates by falling logit; equal logits by rising id, so that the order is one.
    std::vector<std::int32_t> ids(logits.size());
    std::iota(ids.begin(), ids.end(), 0);
    const auto logit = [&](std::int32_t id) { return logits[static_cast<std::size_t>(id)]; };
    std::sort(ids.begin(), ids.end(), [&](std::int32_t a, std::int32_t b) {
        return logit(a) != logit(b) ? logit(a) > logit(b) : a < b;
    });
    if (config.top_k > 0 && config.top_k < static_cast<std::int64_t>(ids.size()))
        ids.resize(static_cast<std::size_t>(config.top_k));

    std::vector<double> weights(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i)
        weights[i] = std::exp((static_cast<double>(logit(ids[i])) - *best) / config.temperature);
    double total = std::accumulate(weights.begin(), weights.end(), 0.0);
    if (config.top_p < 1.0) {
        // The smallest set of the likeliest tokens whose share reaches top_p (arXiv:1904.09751).
        double kept = 0;
        std::size_t count = 0;
        while (count < weights.size() && kept < config.top_p * total) kept += weights[count++];
        weights.resize(std::max<std::size_t>(1, count));
        total = std::accumulate(weights.begin(), weights.end(), 0.0);
    }
    double at = random_uniform(config.seed, draw) * total;
    for (std::size_t i = 0; i < weights.size(); ++i) {
        at -= weights[i];
        if (at < 0) return ids[i];
    }
    return ids[weights.size() - 1];
}

}  // namespace isthmus::inner
