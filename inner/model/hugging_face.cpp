// ModelConfig -> config.json, and where each Hugging Face tensor lives in our layout.
#include "inner/model/hugging_face.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.hpp"

namespace isthmus::inner {
namespace {

using Json = nlohmann::ordered_json;

/// Appends tensors of one unit; each names the view it lies in and, for fused views, its first row.
class NameBuilder {
  public:
    NameBuilder(const Layout& layout, UnitId unit) : unit_(layout[unit]), id_(unit) {}

    /// A whole view.
    void whole(const std::string& name, const std::string& view) {
        const View& v = find(view);
        out_.push_back({name, v.dims, id_, v.offset, false});
    }
    /// gpt2's Conv1D: the file holds our matrix transposed.
    void transposed(const std::string& name, const std::string& view) {
        const View& v = find(view);
        out_.push_back({name, {v.dims[1], v.dims[0]}, id_, v.offset, true});
    }
    /// Rows [first, first + count) of a fused matrix or bias.
    void rows(const std::string& name, const std::string& view, std::int64_t first,
              std::int64_t count) {
        const View& v = find(view);
        std::vector<std::int64_t> dims = v.dims;
        dims[0] = count;
        const std::int64_t row = v.dims.size() == 2 ? v.dims[1] : 1;
        out_.push_back({name, std::move(dims), id_, v.offset + first * row, false});
    }
    void append_to(std::vector<TensorName>& all) {
        for (TensorName& t : out_) all.push_back(std::move(t));
    }

  private:
    const View& find(const std::string& view) const { return unit_.view(unit_.name + "." + view); }

    const Unit& unit_;
    UnitId id_;
    std::vector<TensorName> out_;
};

void gpt2_block(NameBuilder& b, const std::string& prefix) {
    for (const char* end : {".weight", ".bias"})
        b.whole(prefix + "ln_1" + end, "norm1" + std::string(end));
    b.transposed(prefix + "attn.c_attn.weight", "qkv.weight");
    b.whole(prefix + "attn.c_attn.bias", "qkv.bias");
    b.transposed(prefix + "attn.c_proj.weight", "attention_out.weight");
    b.whole(prefix + "attn.c_proj.bias", "attention_out.bias");
    for (const char* end : {".weight", ".bias"})
        b.whole(prefix + "ln_2" + end, "norm2" + std::string(end));
    b.transposed(prefix + "mlp.c_fc.weight", "up.weight");
    b.whole(prefix + "mlp.c_fc.bias", "up.bias");
    b.transposed(prefix + "mlp.c_proj.weight", "down.weight");
    b.whole(prefix + "mlp.c_proj.bias", "down.bias");
}

void llama_block(NameBuilder& b, const std::string& prefix, const ModelConfig& m) {
    const std::string attention = prefix + "self_attn.";
    const auto qkv = [&](const std::string& end) {
        b.rows(attention + "q_proj" + end, "qkv" + end, 0, m.q_dim());
        b.rows(attention + "k_proj" + end, "qkv" + end, m.q_dim(), m.kv_dim());
        b.rows(attention + "v_proj" + end, "qkv" + end, m.q_dim() + m.kv_dim(), m.kv_dim());
    };
    b.whole(prefix + "input_layernorm.weight", "norm1.weight");
    qkv(".weight");
    if (m.qkv_bias) qkv(".bias");
    if (m.qk_norm) {
        b.whole(attention + "q_norm.weight", "q_norm");
        b.whole(attention + "k_norm.weight", "k_norm");
    }
    b.whole(attention + "o_proj.weight", "attention_out.weight");
    b.whole(prefix + "post_attention_layernorm.weight", "norm2.weight");
    b.rows(prefix + "mlp.gate_proj.weight", "gate_up.weight", 0, m.ffn_dim);
    b.rows(prefix + "mlp.up_proj.weight", "gate_up.weight", m.ffn_dim, m.ffn_dim);
    b.whole(prefix + "mlp.down_proj.weight", "down.weight");
}

std::string model_type(const ModelConfig& m) {
    if (m.is_gpt2()) return "gpt2";
    CHECK(!(m.qk_norm && m.qkv_bias), "resolve() refuses this");
    if (m.qk_norm) return "qwen3";
    if (m.qkv_bias) return "qwen2";
    return m.sliding_window > 0 ? "mistral" : "llama";
}

void write_gpt2(const ModelConfig& m, Json& json) {
    json["architectures"] = {"GPT2LMHeadModel"};
    json["vocab_size"] = m.vocab;
    json["n_embd"] = m.d_model;
    json["n_layer"] = m.num_layers;
    json["n_head"] = m.num_heads;
    json["n_positions"] = m.context;
    json["n_inner"] = m.ffn_dim;
    json["layer_norm_epsilon"] = m.norm_eps;
    json["activation_function"] = "gelu_new";
    for (const char* key : {"attn_pdrop", "embd_pdrop", "resid_pdrop"}) json[key] = 0.0;
}

/// rope_theta and rope_scaling, transformers 4's form: version 5 reads it too.
void write_rope(const ModelConfig& m, Json& json) {
    json["rope_theta"] = m.rope_theta;
    json["rope_scaling"] = nullptr;
    if (m.rope_scaling == "none") return;
    Json scaling = {{"rope_type", m.rope_scaling}, {"factor", m.rope_factor}};
    if (m.rope_scaling == "llama3") {
        scaling["low_freq_factor"] = m.rope_low_freq_factor;
        scaling["high_freq_factor"] = m.rope_high_freq_factor;
        scaling["original_max_position_embeddings"] = m.rope_original_context;
    }
    json["rope_scaling"] = std::move(scaling);
}

void write_llama_family(const ModelConfig& m, const std::string& type, Json& json) {
    const bool qwen = type == "qwen2" || type == "qwen3";
    json["architectures"] = {type == "llama"     ? "LlamaForCausalLM"
                             : type == "mistral" ? "MistralForCausalLM"
                             : type == "qwen2"   ? "Qwen2ForCausalLM"
                                                 : "Qwen3ForCausalLM"};
    json["vocab_size"] = m.vocab;
    json["hidden_size"] = m.d_model;
    json["intermediate_size"] = m.ffn_dim;
    json["num_hidden_layers"] = m.num_layers;
    json["num_attention_heads"] = m.num_heads;
    json["num_key_value_heads"] = m.num_kv_heads;
    json["head_dim"] = m.head_dim;
    json["max_position_embeddings"] = m.context;
    json["rms_norm_eps"] = m.norm_eps;
    json["hidden_act"] = "silu";
    json["attention_dropout"] = 0.0;
    write_rope(m, json);
    if (type == "mistral") json["sliding_window"] = m.sliding_window;
    if (qwen && m.sliding_window > 0) {
        json["use_sliding_window"] = true;
        json["sliding_window"] = m.sliding_window;
        json["max_window_layers"] = 0;
    } else if (qwen) {
        json["use_sliding_window"] = false;
        json["sliding_window"] = nullptr;
        json["max_window_layers"] = m.num_layers;
    }
}

}  // namespace

std::string to_hugging_face(const ModelConfig& m) {
    const std::string type = model_type(m);
    Json json = {{"model_type", type}};
    if (m.is_gpt2()) {
        write_gpt2(m, json);
    } else {
        write_llama_family(m, type, json);
    }
    json["tie_word_embeddings"] = m.tied_head;
    // transformers' defaults are ids of its own tokenizers, which may lie beyond this vocabulary.
    for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) json[key] = nullptr;
    json["torch_dtype"] = "float32";
    return json.dump(2) + "\n";
}

std::vector<TensorName> hugging_face_tensors(const ModelConfig& m, const Layout& layout) {
    std::vector<TensorName> all;
    const std::string root = m.is_gpt2() ? "transformer." : "model.";
    NameBuilder embedding(layout, layout.embedding());
    embedding.whole(root + (m.is_gpt2() ? "wte.weight" : "embed_tokens.weight"), "token");
    if (m.is_gpt2()) embedding.whole(root + "wpe.weight", "position");
    embedding.append_to(all);
    for (std::int64_t l = 0; l < m.num_layers; ++l) {
        NameBuilder block(layout, layout.block(l));
        if (m.is_gpt2()) {
            gpt2_block(block, root + "h." + std::to_string(l) + ".");
        } else {
            llama_block(block, root + "layers." + std::to_string(l) + ".", m);
        }
        block.append_to(all);
    }
    NameBuilder head(layout, layout.head());
    const std::string norm = root + (m.is_gpt2() ? "ln_f" : "norm");
    head.whole(norm + ".weight", "norm.weight");
    if (m.is_gpt2()) head.whole(norm + ".bias", "norm.bias");
    if (!m.tied_head) head.whole("lm_head.weight", "output.weight");
    head.append_to(all);
    return all;
}

bool is_redundant_tensor(const ModelConfig& m, std::string_view name) {
    if (m.tied_head && name == "lm_head.weight") return true;
    if (m.is_gpt2()) return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
    return name.ends_with("rotary_emb.inv_freq");
}

}  // namespace isthmus::inner
