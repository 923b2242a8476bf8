// Between our layout and a Hugging Face folder: config.json and tensor names. Text and names only;
// the files themselves are checkpoint/'s, and launch/ brings the two together.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.hpp"
#include "inner/model/config.hpp"
#include "inner/model/layout.hpp"

namespace isthmus::inner {

/// Reads config.json (model_type gpt2, llama, mistral, qwen2, qwen3), in the forms of transformers
/// 4 and 5. Dropout is accepted and not applied (it is a recipe, not the function: published gpt2
/// folders all say 0.1); `notes`, where given, gets a line that says so. ERRORS throws
/// Fatal(kInput): names the model_type or the key whose feature we do not compute, or that is
/// missing; nothing is ignored but keys that cannot change the numbers of training.
ModelConfig from_hugging_face(std::string_view config_json, std::string_view origin,
                              std::vector<std::string>* notes = nullptr);

/// The config.json that transformers (4 and 5) loads as the same model.
/// ERRORS throws Fatal(kUsage): switches that no model_type there has together (qkv_bias with
/// qk_norm).
std::string to_hugging_face(const ModelConfig&);

/// One tensor of the Hugging Face folder and where it lives in our layout.
struct TensorName {
    std::string name;                ///< e.g. "model.layers.0.self_attn.k_proj.weight"
    std::vector<std::int64_t> dims;  ///< as in the file
    UnitId unit;
    std::int64_t offset = 0;  ///< elements from the unit's start
    bool transposed = false;  ///< gpt2's Conv1D: file has [in, out], ours is [out, in]
};

/// Every tensor the folder must hold, in our layout's order; together they cover each element once.
std::vector<TensorName> hugging_face_tensors(const ModelConfig&, const Layout&);

/// Names that such a folder may hold beside them and that carry no parameters of ours
/// (attention masks, rotary tables, a tied lm_head).
bool is_redundant_tensor(const ModelConfig&, std::string_view name);

}  // namespace isthmus::inner
