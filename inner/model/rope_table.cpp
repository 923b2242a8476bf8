#include "inner/model/rope_table.hpp"

#include <cmath>
#include <numbers>

#include "base/check.hpp"

namespace isthmus::inner {
namespace {

float llama3_scaled(float frequency, const ModelConfig& config) {
    const auto original = static_cast<double>(config.rope_original_context);
    const double low_wavelength = original / config.rope_low_freq_factor;
    const double high_wavelength = original / config.rope_high_freq_factor;
    const double wavelength = 2.0 * std::numbers::pi / static_cast<double>(frequency);
    if (wavelength < high_wavelength) return frequency;
    if (wavelength > low_wavelength) return static_cast<float>(frequency / config.rope_factor);
    const double smooth = (original / wavelength - config.rope_low_freq_factor) /
                          (config.rope_high_freq_factor - config.rope_low_freq_factor);
    return static_cast<float>((1.0 - smooth) * frequency / config.rope_factor + smooth * frequency);
}

}  // namespace

RopeTable make_rope_table(const ModelConfig& config) {
    RopeTable table;
    if (config.is_gpt2()) return table;
    const std::int64_t half = config.head_dim / 2;
    std::vector<float> frequency(static_cast<std::size_t>(half));
    for (std::int64_t i = 0; i < half; ++i) {
        const double exponent =
            -2.0 * static_cast<double>(i) / static_cast<double>(config.head_dim);
        float f = static_cast<float>(std::pow(config.rope_theta, exponent));
        if (config.rope_scaling == "linear") f = static_cast<float>(f / config.rope_factor);
        if (config.rope_scaling == "llama3") f = llama3_scaled(f, config);
        frequency[static_cast<std::size_t>(i)] = f;
    }
    table.cos.reserve(static_cast<std::size_t>(config.context * half));
    table.sin.reserve(static_cast<std::size_t>(config.context * half));
    for (std::int64_t t = 0; t < config.context; ++t) {
        for (const float f : frequency) {
            // The product in fp32, as PyTorch forms it: at long contexts this decides the last
            // bits.
            const float angle = static_cast<float>(t) * f;
            table.cos.push_back(static_cast<float>(std::cos(static_cast<double>(angle))));
            table.sin.push_back(static_cast<float>(std::sin(static_cast<double>(angle))));
        }
    }
    return table;
}

}  // namespace isthmus::inner
