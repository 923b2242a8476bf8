// config.json -> ModelConfig. Every key is either computed, checked to be off, or known to change
// nothing; any other key is refused by its name.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "inner/model/hugging_face.hpp"

namespace isthmus::inner {
namespace {

using Json = nlohmann::json;

/// Keys that cannot change the function or its training: names, token ids, generation, output
/// forms. reorder_and_upcast_attn and pretraining_tp choose between orders of the same arithmetic.
constexpr std::string_view kHarmless[] = {
    "_attn_implementation", "_attn_implementation_autoset", "_commit_hash", "_name_or_path",
    "_num_labels", "bos_token_id", "chunk_size_feed_forward", "dtype", "eos_token_id",
    "finetuning_task", "id2label", "initializer_range", "is_decoder", "is_llama_config",
    "keys_to_ignore_at_inference", "label2id", "output_attentions", "output_hidden_states",
    "pad_token_id", "prefix", "pretraining_tp", "problem_type", "reorder_and_upcast_attn",
    "return_dict", "summary_activation", "summary_first_dropout", "summary_proj_to_labels",
    "summary_type", "summary_use_proj", "task_specific_params", "tokenizer_class", "torch_dtype",
    "torchscript", "transformers.js_config", "transformers_version", "unsloth_fixed",
    "unsloth_version", "use_bfloat16", "use_cache",
    // Generation settings, which old versions wrote here; and when layers recompute in training.
    "bad_words_ids", "begin_suppress_tokens", "decoder_start_token_id", "diversity_penalty",
    "do_sample", "early_stopping", "encoder_no_repeat_ngram_size",
    "exponential_decay_length_penalty", "forced_bos_token_id", "forced_eos_token_id",
    "gradient_checkpointing", "length_penalty", "max_length", "min_length", "no_repeat_ngram_size",
    "num_beam_groups", "num_beams", "num_return_sequences", "output_scores",
    "remove_invalid_values", "repetition_penalty", "return_dict_in_generate", "sep_token_id",
    "suppress_tokens", "temperature", "tf_legacy_loss", "top_k", "top_p", "typical_p"};

/// Features that we do not compute; the key may stand there only to say that they are off.
constexpr std::string_view kMustBeFalse[] = {
    "add_cross_attention",        "attention_bias",
    "is_encoder_decoder",         "mlp_bias",
    "rope_interleaved",           "scale_attn_by_inverse_layer_idx",
    "tie_encoder_decoder",        "use_mrope",
    "use_bidirectional_attention"};

constexpr std::string_view kDropouts[] = {"attention_dropout", "attn_pdrop", "embd_pdrop",
                                          "resid_pdrop", "hidden_dropout"};

/// Reads keys of one JSON object and remembers which were taken. null counts as absent.
class Reader {
  public:
    Reader(const Json& json, std::string_view origin, std::string prefix = {})
        : json_(json), origin_(origin), prefix_(std::move(prefix)) {}

    /// The value, or null when it is absent.
    const Json* take(std::string_view key) {
        taken_.emplace(key);
        const auto it = json_.find(key);
        return it == json_.end() || it->is_null() ? nullptr : &*it;
    }
    bool has(std::string_view key) const { return json_.contains(key); }

    std::optional<std::int64_t> integer(std::string_view key) {
        const Json* v = take(key);
        if (v == nullptr) return std::nullopt;
        const bool fits = v->is_number_integer() &&
                          (!v->is_number_unsigned() || v->get<std::uint64_t>() <= INT64_MAX);
        if (!fits) fail(key, "is not a whole number");
        return v->get<std::int64_t>();
    }
    std::optional<double> number(std::string_view key) {
        const Json* v = take(key);
        if (v == nullptr) return std::nullopt;
        if (!v->is_number()) fail(key, "is not a number");
        return v->get<double>();
    }
    std::optional<bool> boolean(std::string_view key) {
        const Json* v = take(key);
        if (v == nullptr) return std::nullopt;
        if (!v->is_boolean()) fail(key, "is not true or false");
        return v->get<bool>();
    }
    std::optional<std::string> text(std::string_view key) {
        const Json* v = take(key);
        if (v == nullptr) return std::nullopt;
        if (!v->is_string()) fail(key, "is not text");
        return v->get<std::string>();
    }
    template <class T>
    T need(std::string_view key, std::optional<T> value) {
        if (!value) fail(key, "is missing");
        return *value;
    }
    std::int64_t need_integer(std::string_view key) { return need(key, integer(key)); }
    double need_number(std::string_view key) { return need(key, number(key)); }

    /// The feature of `key` = value is not computed here.
    [[noreturn]] void refuse(std::string_view key) {
        const auto it = json_.find(key);
        const std::string value = it == json_.end() ? "(absent)" : it->dump(-1, ' ', true);
        throw fatal(ExitCode::kInput, "{}: {}{} = {} is a feature that isthmus does not compute",
                    origin_, prefix_, key, value.substr(0, 120));
    }
    [[noreturn]] void fail(std::string_view key, std::string_view what) {
        throw fatal(ExitCode::kInput, "{}: {}{} {}", origin_, prefix_, key, what);
    }
    void must_be_one_of(std::string_view key, std::initializer_list<std::string_view> allowed) {
        const auto value = text(key);
        if (value && std::find(allowed.begin(), allowed.end(), *value) == allowed.end()) {
            refuse(key);
        }
    }
    /// Refuses the first key that nobody has taken and that is not null.
    void refuse_rest() {
        for (const auto& [key, value] : json_.items()) {
            if (taken_.count(key) == 0 && !value.is_null()) refuse(key);
        }
    }

  private:
    const Json& json_;
    std::string origin_, prefix_;
    std::set<std::string, std::less<>> taken_;
};

struct Rope {
    double theta = 0;  ///< 0: not given here
    std::string scaling = "none";
    double factor = 1.0, low_freq_factor = 1.0, high_freq_factor = 4.0;
    std::int64_t original_context = 8192;
    bool operator==(const Rope&) const = default;
};

/// rope_parameters (transformers 5) or rope_scaling (4): {"rope_type" or "type": ..., factors...}.
Rope read_rope_object(const Json& json, std::string_view key, std::string_view origin) {
    Reader r(json, origin, std::string(key) + ".");
    Rope rope;
    const auto type = r.text("rope_type"), old_type = r.text("type");
    if (type && old_type && type != old_type) r.fail("type", "contradicts rope_type");
    const std::string kind = type.value_or(old_type.value_or("default"));
    rope.theta = r.number("rope_theta").value_or(0);
    if (r.number("partial_rotary_factor").value_or(1.0) != 1.0) r.refuse("partial_rotary_factor");
    if (kind == "linear") {
        rope.scaling = kind;
        rope.factor = r.need_number("factor");
    } else if (kind == "llama3") {
        rope.scaling = kind;
        rope.factor = r.need_number("factor");
        rope.low_freq_factor = r.need_number("low_freq_factor");
        rope.high_freq_factor = r.need_number("high_freq_factor");
        rope.original_context = r.need_integer("original_max_position_embeddings");
    } else if (kind != "default") {
        r.refuse(type ? "rope_type" : "type");
    }
    r.refuse_rest();
    return rope;
}

std::optional<Rope> read_rope_key(Reader& r, std::string_view key, std::string_view origin) {
    const Json* json = r.take(key);
    if (json == nullptr) return std::nullopt;
    if (!json->is_object()) r.fail(key, "is not an object");
    return read_rope_object(*json, key, origin);
}

void read_rope(Reader& r, std::string_view origin, ModelConfig& m) {
    if (r.number("partial_rotary_factor").value_or(1.0) != 1.0) r.refuse("partial_rotary_factor");
    const double theta = r.number("rope_theta").value_or(0);
    auto parameters = read_rope_key(r, "rope_parameters", origin);
    auto scaling = read_rope_key(r, "rope_scaling", origin);
    for (auto* form : {&parameters, &scaling}) {
        if (!*form) continue;
        if ((*form)->theta == 0) (*form)->theta = theta;
        if (theta != 0 && (*form)->theta != theta) {
            r.fail("rope_theta", "contradicts the rope_theta beside the scaling");
        }
    }
    if (parameters && scaling && *parameters != *scaling) {
        r.fail("rope_scaling", "contradicts rope_parameters");
    }
    const Rope rope = parameters ? *parameters : scaling.value_or(Rope{.theta = theta});
    m.rope_theta = rope.theta == 0 ? 10000.0 : rope.theta;  // the default of all four model types
    m.rope_scaling = rope.scaling;
    m.rope_factor = rope.factor;
    m.rope_low_freq_factor = rope.low_freq_factor;
    m.rope_high_freq_factor = rope.high_freq_factor;
    m.rope_original_context = rope.original_context;
}

/// layer_types: all layers alike, or refused. Empty when the key is absent.
std::string read_layer_types(Reader& r, std::int64_t num_layers) {
    const Json* types = r.take("layer_types");
    if (types == nullptr) return {};
    if (!types->is_array() || types->empty() ||
        types->size() != static_cast<std::size_t>(num_layers)) {
        r.fail("layer_types", "is not a list with one entry a layer");
    }
    for (const Json& t : *types) {
        const bool known = t == "full_attention" || t == "sliding_attention";
        if (!known || t != types->front()) r.refuse("layer_types");
    }
    return types->front().get<std::string>();
}

/// Qwen's window: on only with use_sliding_window, and then from layer max_window_layers upward.
void read_qwen_window(Reader& r, ModelConfig& m) {
    const auto window = r.integer("sliding_window");
    const bool use = r.boolean("use_sliding_window").value_or(false);
    const std::int64_t full_layers = r.integer("max_window_layers").value_or(28);
    const std::string types = read_layer_types(r, m.num_layers);
    if (!use || !window) {
        if (types == "sliding_attention") r.refuse("layer_types");
        return;
    }
    if (types == "full_attention") return;
    if (types.empty() && full_layers >= m.num_layers) return;
    if (types.empty() && full_layers > 0) r.refuse("max_window_layers");
    m.sliding_window = *window;
}

/// Mistral's window: on in every layer unless null; absent means transformers' default.
void read_mistral_window(Reader& r, ModelConfig& m) {
    m.sliding_window = r.has("sliding_window") ? r.integer("sliding_window").value_or(0) : 4096;
    const std::string types = read_layer_types(r, m.num_layers);
    const bool sliding = m.sliding_window != 0;
    if (!types.empty() && (types == "sliding_attention") != sliding) r.refuse("layer_types");
}

void read_llama_family(Reader& r, std::string_view type, std::string_view origin, ModelConfig& m) {
    m.family = "llama";
    m.vocab = r.need_integer("vocab_size");
    m.d_model = r.need_integer("hidden_size");
    m.ffn_dim = r.need_integer("intermediate_size");
    m.num_layers = r.need_integer("num_hidden_layers");
    m.num_heads = r.need_integer("num_attention_heads");
    m.context = r.need_integer("max_position_embeddings");
    m.norm_eps = r.need_number("rms_norm_eps");
    const auto kv_heads = r.integer("num_key_value_heads");
    // Only llama's default for this key follows from the others.
    m.num_kv_heads = type == "llama" ? kv_heads.value_or(m.num_heads)
                                     : r.need<std::int64_t>("num_key_value_heads", kv_heads);
    const std::int64_t default_head_dim = type == "qwen3" ? 128 : 0;
    m.head_dim = r.integer("head_dim").value_or(default_head_dim);
    m.tied_head = r.boolean("tie_word_embeddings").value_or(false);
    m.qkv_bias = type == "qwen2";
    m.qk_norm = type == "qwen3";
    r.must_be_one_of("hidden_act", {"silu", "swish"});
    read_rope(r, origin, m);
    if (type == "mistral") {
        read_mistral_window(r, m);
    } else if (type == "llama") {
        if (read_layer_types(r, m.num_layers) == "sliding_attention") r.refuse("layer_types");
    } else {
        read_qwen_window(r, m);
    }
}

void read_gpt2(Reader& r, ModelConfig& m) {
    m.family = "gpt2";
    m.vocab = r.need_integer("vocab_size");
    m.d_model = r.need_integer("n_embd");
    m.num_layers = r.need_integer("n_layer");
    m.num_heads = r.need_integer("n_head");
    m.context = r.need_integer("n_positions");
    const auto inner = r.integer("n_inner");
    if (!inner && (m.d_model < 1 || m.d_model > (1 << 17))) r.fail("n_embd", "is out of range");
    m.ffn_dim = inner.value_or(4 * m.d_model);
    m.norm_eps = r.number("layer_norm_epsilon").value_or(1e-5);
    m.tied_head = true;
    if (!r.boolean("tie_word_embeddings").value_or(true)) r.refuse("tie_word_embeddings");
    if (!r.boolean("scale_attn_weights").value_or(true)) r.refuse("scale_attn_weights");
    if (r.integer("n_ctx").value_or(m.context) != m.context) r.fail("n_ctx", "is not n_positions");
    r.must_be_one_of("activation_function", {"gelu_new", "gelu_pytorch_tanh"});
}

void read_common(Reader& r, std::vector<std::string>* notes, std::string_view origin) {
    for (const std::string_view key : kHarmless) r.take(key);
    for (const std::string_view key : kMustBeFalse) {
        if (r.boolean(key).value_or(false)) r.refuse(key);
    }
    if (const Json* pruned = r.take("pruned_heads"); pruned != nullptr && !pruned->empty()) {
        r.refuse("pruned_heads");
    }
    for (const std::string_view key : kDropouts) {
        const double p = r.number(key).value_or(0);
        if (p != 0 && notes != nullptr) {
            notes->push_back(fmt::format(
                "{}: {} = {} is not applied: isthmus trains without dropout", origin, key, p));
        }
    }
}

/// Classifiers and the like share a model_type with the language model.
void check_architecture(Reader& r) {
    const Json* list = r.take("architectures");
    if (list == nullptr) return;
    for (const Json& name : *list) {
        const std::string s = name.is_string() ? name.get<std::string>() : std::string();
        const auto ends = [&](std::string_view end) { return s.ends_with(end); };
        if (!ends("ForCausalLM") && !ends("LMHeadModel") && !ends("Model")) {
            r.refuse("architectures");
        }
    }
}

Json parse_object(std::string_view text, std::string_view origin) {
    std::set<std::string> seen;
    const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
        if (depth > 16) throw fatal(ExitCode::kInput, "{}: nests too deep for a config", origin);
        if (event == Json::parse_event_t::key && depth == 1 &&
            !seen.insert(parsed.get<std::string>()).second) {
            throw fatal(ExitCode::kInput, "{}: {} stands twice", origin, parsed.get<std::string>());
        }
        return true;
    };
    Json json = Json::parse(text.begin(), text.end(), watch, false);
    if (!json.is_object()) throw fatal(ExitCode::kInput, "{}: not a JSON object", origin);
    return json;
}

}  // namespace

ModelConfig from_hugging_face(std::string_view config_json, std::string_view origin,
                              std::vector<std::string>* notes) {
    const Json json = parse_object(config_json, origin);
    Reader r(json, origin);
    const std::string type = r.need("model_type", r.text("model_type"));
    ModelConfig m;
    m.preset = "custom";
    read_common(r, notes, origin);
    check_architecture(r);
    if (type == "gpt2") {
        read_gpt2(r, m);
    } else if (type == "llama" || type == "mistral" || type == "qwen2" || type == "qwen3") {
        read_llama_family(r, type, origin, m);
    } else {
        throw fatal(ExitCode::kInput,
                    "{}: model_type \"{}\" is not known: gpt2, llama, mistral, qwen2, qwen3",
                    origin, type);
    }
    r.refuse_rest();
    try {
        m.resolve();
    } catch (const Fatal& e) {
        throw fatal(ExitCode::kInput, "{}: {}", origin, e.what());
    }
    return m;
}

}  // namespace isthmus::inner
