// One description for both model families and every switch between them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/config.hpp"

namespace isthmus::inner {

/// A decoder-only transformer. With family "gpt2": LayerNorm, learned positions, GELU-tanh, biases
/// on every linear layer, tied head. With family "llama": RMSNorm, rotary positions, SwiGLU, no
/// biases but the switches below; these make Qwen2 (qkv_bias), Qwen3 (qk_norm, head_dim apart from
/// d_model / num_heads) and Mistral (sliding_window).
struct ModelConfig {
    /// Fills the fields below that stay 0, "" or false (so a preset's true cannot be turned off);
    /// "custom" fills none.
    std::string preset = "tiny";
    std::string family;
    std::int64_t vocab = 0, d_model = 0, num_layers = 0, num_heads = 0, num_kv_heads = 0;
    std::int64_t head_dim = 0;  ///< 0: d_model / num_heads
    std::int64_t ffn_dim = 0;
    std::int64_t context = 0;  ///< longest sequence; gpt2: also the size of the position table
    double norm_eps = 0;       ///< 0: the preset's, else 1e-5
    double rope_theta = 0;     ///< 0: the preset's, else 10000; stays 0 in gpt2
    std::string rope_scaling = "none";                               ///< none, linear, llama3
    double rope_factor = 1.0;                                        ///< linear, llama3
    double rope_low_freq_factor = 1.0, rope_high_freq_factor = 4.0;  ///< llama3
    std::int64_t rope_original_context = 8192;                       ///< llama3
    bool tied_head = false;
    bool qkv_bias = false;
    bool qk_norm = false;
    std::int64_t sliding_window = 0;  ///< tokens a query sees, itself included; 0: all

    void describe(ConfigVisitor&);
    /// Applies the preset and derived defaults, then checks: what contradicts is refused by name.
    /// ERRORS throws Fatal(kUsage).
    void resolve();

    bool is_gpt2() const { return family == "gpt2"; }
    std::int64_t q_dim() const { return num_heads * head_dim; }
    std::int64_t kv_dim() const { return num_kv_heads * head_dim; }
    std::int64_t qkv_dim() const { return q_dim() + 2 * kv_dim(); }
};

/// tiny, small, gpt2, ... (README has the table).
std::vector<std::string> model_presets();

}  // namespace isthmus::inner
