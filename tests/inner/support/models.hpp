// Small models of every switch, for tests.
#pragma once

#include <string>
#include <vector>

#include "inner/model/config.hpp"

namespace isthmus::inner::testing {

inline ModelConfig base_model(const std::string& family) {
    ModelConfig config;
    config.preset = "custom";
    config.family = family;
    config.vocab = 37;
    config.d_model = 32;
    config.num_layers = 2;
    config.num_heads = 4;
    config.num_kv_heads = family == "gpt2" ? 4 : 2;
    config.ffn_dim = 72;
    config.context = 24;
    config.tied_head = family == "gpt2";
    return config;
}

struct NamedModel {
    std::string name;
    ModelConfig config;
};

inline std::vector<NamedModel> all_models() {
    std::vector<NamedModel> models;
    const auto add = [&](const std::string& name, ModelConfig config) {
        config.resolve();
        models.push_back({name, config});
    };
    add("gpt2", base_model("gpt2"));
    add("llama", base_model("llama"));
    ModelConfig config = base_model("llama");
    config.tied_head = true;
    config.rope_scaling = "llama3";
    config.rope_factor = 4;
    config.rope_original_context = 16;
    add("llama3 tied", config);
    config = base_model("llama");
    config.qkv_bias = true;
    add("qwen2", config);
    config = base_model("llama");
    config.qk_norm = true;
    config.head_dim = 16;
    add("qwen3", config);
    config = base_model("llama");
    config.sliding_window = 5;
    add("mistral", config);
    return models;
}

}  // namespace isthmus::inner::testing
