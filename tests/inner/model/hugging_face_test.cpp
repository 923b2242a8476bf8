#include "inner/model/hugging_face.hpp"

#include <nlohmann/json.hpp>

#include "base/error.hpp"

namespace isthmus::inner {
namespace {

using Json = nlohmann::json;

Json gpt2() {
    return {{"model_type", "gpt2"}, {"vocab_size", 64}, {"n_embd", 32},
            {"n_layer", 2},         {"n_head", 4},      {"n_positions", 24}};
}

Json llama(const std::string& type = "llama") {
    return {{"model_type", type},           {"vocab_size", 64},       {"hidden_size", 32},
            {"intermediate_size", 48},      {"num_hidden_layers", 3}, {"num_attention_heads", 4},
            {"num_key_value_heads", 2},     {"rms_norm_eps", 1e-6},   {"hidden_act", "silu"},
            {"max_position_embeddings", 32}};
}

ModelConfig read(const Json& json) {
    return from_hugging_face(json.dump(), "config.json");
}

Json with(Json json, const std::string& key, const Json& value) {
    json[key] = value;
    return json;
}

void expect_refused(const std::string& text, const std::string& part) {
    try {
        from_hugging_face(text, "config.json");
        ADD_FAILURE() << "accepted: " << text;
    } catch (const Fatal& e) {
        EXPECT_EQ(e.code(), ExitCode::kInput);
        const std::string message = e.what();
        EXPECT_NE(message.find(part), std::string::npos) << message;
        EXPECT_EQ(message.find('\n'), std::string::npos) << message;
        EXPECT_EQ(message.rfind("config.json: ", 0), 0u) << message;
    }
}
void expect_refused(const Json& json, const std::string& part) {
    expect_refused(json.dump(), part);
}

TEST(FromHuggingFace, Gpt2) {
    const ModelConfig m = read(with(gpt2(), "n_inner", 100));
    EXPECT_EQ(m.family, "gpt2");
    EXPECT_EQ(m.ffn_dim, 100);
    EXPECT_EQ(m.context, 24);
    EXPECT_EQ(m.norm_eps, 1e-5);
    EXPECT_TRUE(m.tied_head);
    EXPECT_EQ(read(gpt2()).ffn_dim, 128);
}

TEST(FromHuggingFace, LlamaFamilySwitches) {
    const ModelConfig l = read(llama());
    EXPECT_EQ(l.head_dim, 8);
    EXPECT_FALSE(l.tied_head || l.qkv_bias || l.qk_norm);
    EXPECT_EQ(l.sliding_window, 0);
    EXPECT_EQ(l.rope_theta, 10000);
    EXPECT_TRUE(read(llama("qwen2")).qkv_bias);
    const ModelConfig q3 = read(llama("qwen3"));
    EXPECT_TRUE(q3.qk_norm && !q3.qkv_bias);
    EXPECT_EQ(q3.head_dim, 128);  // the default of that model_type, not hidden / heads
    EXPECT_EQ(read(llama("mistral")).sliding_window, 4096);
    EXPECT_EQ(read(with(llama("mistral"), "sliding_window", nullptr)).sliding_window, 0);
    EXPECT_EQ(read(with(llama("mistral"), "sliding_window", 7)).sliding_window, 7);
}

TEST(FromHuggingFace, RopeInBothForms) {
    const Json scaling = {{"rope_type", "llama3"},
                          {"factor", 8.0},
                          {"low_freq_factor", 1.0},
                          {"high_freq_factor", 4.0},
                          {"original_max_position_embeddings", 16}};
    Json old_form = with(llama(), "rope_theta", 5e5);
    old_form["rope_scaling"] = scaling;
    Json new_form = llama();
    new_form["rope_parameters"] = with(scaling, "rope_theta", 5e5);
    Json both = old_form;
    both["rope_parameters"] = new_form["rope_parameters"];
    for (const Json& json : {old_form, new_form, both}) {
        const ModelConfig m = read(json);
        EXPECT_EQ(m.rope_theta, 5e5);
        EXPECT_EQ(m.rope_scaling, "llama3");
        EXPECT_EQ(m.rope_factor, 8);
        EXPECT_EQ(m.rope_original_context, 16);
    }
    both["rope_scaling"]["factor"] = 4.0;
    expect_refused(both, "rope_scaling contradicts rope_parameters");
    both = new_form;
    both["rope_theta"] = 1e4;
    expect_refused(both, "rope_theta contradicts");

    const ModelConfig linear =
        read(with(llama(), "rope_scaling", {{"type", "linear"}, {"factor", 2.0}}));
    EXPECT_EQ(linear.rope_scaling, "linear");
    EXPECT_EQ(linear.rope_factor, 2);
    EXPECT_EQ(read(with(llama(), "rope_scaling", nullptr)).rope_scaling, "none");
}

TEST(FromHuggingFace, RefusesRopeThatIsNotComputed) {
    for (const char* type : {"dynamic", "yarn", "longrope", "mrope", "su"}) {
        expect_refused(with(llama(), "rope_scaling", {{"type", type}, {"factor", 2.0}}), type);
        expect_refused(with(llama(), "rope_parameters", {{"rope_type", type}, {"factor", 2.0}}),
                       "rope_parameters.rope_type");
    }
    expect_refused(with(llama(), "rope_scaling", {{"type", "linear"}}), "rope_scaling.factor");
    expect_refused(with(llama(), "rope_parameters", {{"partial_rotary_factor", 0.5}}),
                   "partial_rotary_factor");
    expect_refused(with(llama(), "partial_rotary_factor", 0.5), "partial_rotary_factor");
    expect_refused(with(llama(), "rope_parameters", {{"full_attention", {{"rope_theta", 1.0}}}}),
                   "rope_parameters.full_attention");
    expect_refused(
        with(llama(), "rope_scaling", {{"type", "linear"}, {"factor", 2}, {"mscale", 1.5}}),
        "rope_scaling.mscale");
}

TEST(FromHuggingFace, QwenWindowsOnlyAlikeInAllLayers) {
    Json json = llama("qwen2");
    json["sliding_window"] = 9;
    EXPECT_EQ(read(json).sliding_window, 0);  // use_sliding_window is off
    json["use_sliding_window"] = true;
    EXPECT_EQ(read(json).sliding_window, 0);  // 28 layers are full by default, more than it has
    json["max_window_layers"] = 0;
    EXPECT_EQ(read(json).sliding_window, 9);
    json["max_window_layers"] = 1;
    expect_refused(json, "max_window_layers = 1");
    const std::string full = "full_attention", sliding = "sliding_attention";
    json["layer_types"] = {sliding, sliding, sliding};
    EXPECT_EQ(read(json).sliding_window, 9);
    json["layer_types"] = {full, full, full};
    EXPECT_EQ(read(json).sliding_window, 0);
    json["layer_types"] = {full, sliding, full};
    expect_refused(json, "layer_types");
    json["layer_types"] = {full};
    expect_refused(json, "layer_types");
    json["layer_types"] = {"linear_attention", "linear_attention", "linear_attention"};
    expect_refused(json, "layer_types");
    expect_refused(with(llama(), "layer_types", {sliding, sliding, sliding}), "layer_types");
}

TEST(FromHuggingFace, RefusesEveryFeatureByItsName) {
    const std::pair<const char*, Json> llama_keys[] = {
        {"attention_bias", true},
        {"mlp_bias", true},
        {"hidden_act", "gelu"},
        {"quantization_config", {{"bits", 4}}},
        {"sliding_window", 128},
        {"use_mrope", true},
        {"attn_logit_softcapping", 50.0},
        {"num_experts", 8},
        {"architectures", {"LlamaForSequenceClassification"}},
        {"pruned_heads", {{"0", {1}}}},
        {"auto_map", {{"AutoModel", "code.py"}}}};
    for (const auto& [key, value] : llama_keys) expect_refused(with(llama(), key, value), key);
    const std::pair<const char*, Json> gpt2_keys[] = {{"activation_function", "relu"},
                                                      {"scale_attn_weights", false},
                                                      {"scale_attn_by_inverse_layer_idx", true},
                                                      {"tie_word_embeddings", false},
                                                      {"add_cross_attention", true},
                                                      {"n_ctx", 7},
                                                      {"rope_theta", 1e4}};
    for (const auto& [key, value] : gpt2_keys) expect_refused(with(gpt2(), key, value), key);
    expect_refused(with(llama(), "model_type", "gemma3"), "gemma3");
}

TEST(FromHuggingFace, HarmlessKeysAndNotedDropout) {
    Json json = gpt2();
    json["attn_pdrop"] = 0.1;
    json["use_cache"] = false;
    json["architectures"] = {"GPT2LMHeadModel"};
    json["reorder_and_upcast_attn"] = true;
    json["some_future_feature"] = nullptr;
    std::vector<std::string> notes;
    from_hugging_face(json.dump(), "config.json", &notes);
    ASSERT_EQ(notes.size(), 1u);
    EXPECT_NE(notes[0].find("attn_pdrop = 0.1"), std::string::npos);
}

TEST(FromHuggingFace, RefusesDamagedText) {
    expect_refused(std::string("{"), "not a JSON object");
    expect_refused(std::string("[1]"), "not a JSON object");
    expect_refused(std::string("{}"), "model_type is missing");
    expect_refused(std::string(R"({"model_type":"gpt2","model_type":"llama"})"),
                   "model_type stands twice");
    expect_refused(std::string(100000, '['), "too deep");
    const Json whole = llama();
    for (const auto& [key, value] : whole.items()) {
        Json json = whole;
        json.erase(key);
        const bool optional = key == "num_key_value_heads" || key == "hidden_act";
        if (!optional) expect_refused(json, key);
        if (value.is_number()) {
            expect_refused(with(llama(), key, "text"), key);
            // Out of range: named in our terms.
            expect_refused(with(llama(), key, -3), "model.");
        }
    }
    expect_refused(with(llama(), "vocab_size", 1ull << 63), "vocab_size");
    expect_refused(with(llama(), "hidden_size", 1.5), "hidden_size");
    expect_refused(with(llama(), "num_hidden_layers", 1ll << 40), "num_layers");
    expect_refused(with(gpt2(), "n_embd", 1ll << 62), "n_embd");
    expect_refused(with(llama("qwen2"), "layer_types", Json::array()), "layer_types");
}

ModelConfig every_switch(const std::string& type) {
    Json json = type == "gpt2" ? gpt2() : llama(type);
    if (type == "gpt2") return read(json);
    json["head_dim"] = 10;
    json["rope_theta"] = 777.0;
    json["tie_word_embeddings"] = type == "qwen3";
    if (type == "mistral") json["sliding_window"] = 5;
    if (type == "llama") json["rope_scaling"] = {{"type", "linear"}, {"factor", 3.0}};
    return read(json);
}

TEST(ToHuggingFace, ReadsBackEqual) {
    const auto dump = [](ModelConfig m) {
        return dump_config([&](ConfigVisitor& v) { v.section("model", m, ""); }, false);
    };
    for (const char* type : {"gpt2", "llama", "mistral", "qwen2", "qwen3"}) {
        ModelConfig m = every_switch(type);
        const std::string text = to_hugging_face(m);
        EXPECT_EQ(Json::parse(text)["model_type"], type);
        EXPECT_EQ(dump(from_hugging_face(text, "back")), dump(m)) << text;
    }
    ModelConfig m = every_switch("qwen2");
    m.sliding_window = 6;
    EXPECT_EQ(dump(from_hugging_face(to_hugging_face(m), "back")), dump(m));
}

TEST(HuggingFaceTensors, CoverEachElementOnce) {
    for (const char* type : {"gpt2", "llama", "mistral", "qwen2", "qwen3"}) {
        const ModelConfig m = every_switch(type);
        const Layout layout = make_layout(m);
        std::size_t unit = 0;
        std::int64_t at = 0;
        for (const TensorName& t : hugging_face_tensors(m, layout)) {
            if (t.unit.value != unit) {
                EXPECT_EQ(at, layout.units[unit].count);
                at = 0;
                ++unit;
            }
            EXPECT_EQ(t.unit.value, unit) << t.name;
            EXPECT_EQ(t.offset, at) << t.name;
            std::int64_t n = 1;
            for (const std::int64_t d : t.dims) n *= d;
            at += n;
        }
        EXPECT_EQ(unit + 1, layout.units.size());
        EXPECT_EQ(at, layout.units.back().count);
    }
}

TEST(HuggingFaceTensors, RedundantOnes) {
    const ModelConfig tied = every_switch("qwen3"), untied = every_switch("llama"),
                      g = every_switch("gpt2");
    EXPECT_TRUE(is_redundant_tensor(tied, "lm_head.weight"));
    EXPECT_FALSE(is_redundant_tensor(untied, "lm_head.weight"));
    EXPECT_TRUE(is_redundant_tensor(untied, "model.layers.0.self_attn.rotary_emb.inv_freq"));
    EXPECT_TRUE(is_redundant_tensor(g, "h.0.attn.bias"));
    EXPECT_TRUE(is_redundant_tensor(g, "transformer.h.11.attn.masked_bias"));
    EXPECT_FALSE(is_redundant_tensor(g, "h.0.attn.c_attn.bias"));
    EXPECT_FALSE(is_redundant_tensor(untied, "model.layers.0.self_attn.q_proj.bias"));
}

}  // namespace
}  // namespace isthmus::inner
