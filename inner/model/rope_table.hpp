// Cosines and sines of the rotary embedding, with the scalings that long-context models use.
#pragma once

#include <vector>

#include "inner/model/config.hpp"

namespace isthmus::inner {

/// SHAPE  cos, sin: [context, head_dim / 2]; angle(t, i) = t * frequency_i.
struct RopeTable {
    std::vector<float> cos, sin;
};

/// frequency_i = theta^(-2i/head_dim) (arXiv:2104.09864), then by rope_scaling:
///   none    unchanged
///   linear  divided by rope_factor (arXiv:2306.15595)
///   llama3  wavelengths beyond original_context / low_freq_factor divided by rope_factor, those
///   under
///           original_context / high_freq_factor kept, between them a linear blend
///           (arXiv:2407.21783; same arithmetic as Hugging Face's "llama3" rope type)
RopeTable make_rope_table(const ModelConfig&);

}  // namespace isthmus::inner
