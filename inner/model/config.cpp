#include "inner/model/config.hpp"

#include <string_view>
#include <utility>

#include "base/error.hpp"

namespace isthmus::inner {
namespace {

/// A published or house shape. num_kv_heads and head_dim stay 0 where they follow from the rest, so
/// that overriding num_heads or d_model does not leave a stale value behind.
struct Preset {
    std::string_view name, family;
    std::int64_t vocab, d_model, num_layers, num_heads, num_kv_heads, head_dim, ffn_dim, context;
    double norm_eps, rope_theta;
    bool tied_head, qk_norm;
};

// tiny and small are byte models for tests and demos; the others are the shapes of
// openai-community/gpt2, gpt2-medium, TinyLlama/TinyLlama-1.1B and Qwen/Qwen3-0.6B (their
// config.json).
constexpr Preset kPresets[] = {
    {"tiny", "llama", 256, 128, 4, 4, 0, 0, 352, 128, 1e-5, 1e4, false, false},
    {"small", "llama", 256, 256, 6, 4, 0, 0, 704, 256, 1e-5, 1e4, false, false},
    {"gpt2", "gpt2", 50257, 768, 12, 12, 0, 0, 3072, 1024, 1e-5, 0, true, false},
    {"gpt2-medium", "gpt2", 50257, 1024, 24, 16, 0, 0, 4096, 1024, 1e-5, 0, true, false},
    {"tinyllama-1.1b", "llama", 32000, 2048, 22, 32, 4, 0, 5632, 2048, 1e-5, 1e4, false, false},
    {"qwen3-0.6b", "llama", 151936, 1024, 28, 16, 8, 128, 3072, 40960, 1e-6, 1e6, true, true},
};

const Preset* find_preset(std::string_view name) {
    for (const Preset& p : kPresets) {
        if (p.name == name) return &p;
    }
    return nullptr;
}

std::vector<std::string> preset_choices() {
    std::vector<std::string> names = model_presets();
    names.push_back("custom");
    return names;
}

template <class T>
void fill(T& field, T value) {
    if (field == T{}) field = value;
}

void apply_preset(ModelConfig& m, const Preset& p) {
    if (!m.family.empty() && m.family != p.family) {
        throw fatal(ExitCode::kUsage,
                    "model.family = \"{}\" contradicts model.preset = \"{}\", which is {}: take "
                    "preset = \"custom\"",
                    m.family, m.preset, p.family);
    }
    m.family = p.family;
    fill(m.vocab, p.vocab);
    fill(m.d_model, p.d_model);
    fill(m.num_layers, p.num_layers);
    fill(m.num_heads, p.num_heads);
    fill(m.num_kv_heads, p.num_kv_heads);
    fill(m.head_dim, p.head_dim);
    fill(m.ffn_dim, p.ffn_dim);
    fill(m.context, p.context);
    fill(m.norm_eps, p.norm_eps);
    fill(m.rope_theta, p.rope_theta);
    fill(m.tied_head, p.tied_head);
    fill(m.qk_norm, p.qk_norm);
}

void require_fields(const ModelConfig& m) {
    if (m.family.empty()) {
        throw fatal(ExitCode::kUsage,
                    "model.family is missing: preset = \"custom\" needs gpt2 or llama");
    }
    if (m.family != "gpt2" && m.family != "llama") {
        throw fatal(ExitCode::kUsage, "model.family = \"{}\" is unknown: gpt2 or llama", m.family);
    }
    const std::pair<const char*, std::int64_t> needed[] = {
        {"vocab", m.vocab},         {"d_model", m.d_model}, {"num_layers", m.num_layers},
        {"num_heads", m.num_heads}, {"ffn_dim", m.ffn_dim}, {"context", m.context}};
    for (const auto& [key, value] : needed) {
        if (value == 0) {
            throw fatal(ExitCode::kUsage, "model.{} is missing: preset = \"custom\" fills nothing",
                        key);
        }
    }
}

/// Largest values that anything below may multiply without overflow; far beyond every real model.
struct Range {
    const char* key;
    std::int64_t value, min, max;
};

void check_ranges(const ModelConfig& m) {
    const Range ranges[] = {{"vocab", m.vocab, 2, 1 << 24},
                            {"d_model", m.d_model, 1, 1 << 17},
                            {"num_layers", m.num_layers, 1, 4096},
                            {"num_heads", m.num_heads, 1, 4096},
                            {"num_kv_heads", m.num_kv_heads, 1, 4096},
                            {"head_dim", m.head_dim, 1, 4096},
                            {"ffn_dim", m.ffn_dim, 1, 1 << 20},
                            {"context", m.context, 1, 1 << 24},
                            {"sliding_window", m.sliding_window, 0, 1 << 24},
                            {"rope_original_context", m.rope_original_context, 1, 1 << 24}};
    for (const Range& r : ranges) {
        if (r.value < r.min || r.value > r.max) {
            throw fatal(ExitCode::kUsage, "model.{} = {} is out of range: {} to {}", r.key, r.value,
                        r.min, r.max);
        }
    }
    if (!(m.norm_eps > 0 && m.norm_eps < 1)) {
        throw fatal(ExitCode::kUsage, "model.norm_eps = {} is out of range: above 0, below 1",
                    m.norm_eps);
    }
}

void check_heads(const ModelConfig& m) {
    if (m.num_heads % m.num_kv_heads != 0) {
        throw fatal(ExitCode::kUsage,
                    "model.num_kv_heads = {} does not divide model.num_heads = {}", m.num_kv_heads,
                    m.num_heads);
    }
    if (!m.is_gpt2() && m.head_dim % 2 != 0) {
        throw fatal(ExitCode::kUsage,
                    "model.head_dim = {} is odd: rotary positions turn pairs, so it must be even",
                    m.head_dim);
    }
}

/// gpt2 has one form; each llama switch that is on is named.
void check_gpt2(const ModelConfig& m) {
    const std::pair<const char*, bool> switches[] = {{"qkv_bias", m.qkv_bias},
                                                     {"qk_norm", m.qk_norm},
                                                     {"sliding_window", m.sliding_window != 0},
                                                     {"rope_theta", m.rope_theta != 0},
                                                     {"rope_scaling", m.rope_scaling != "none"}};
    for (const auto& [key, on] : switches) {
        if (on) {
            throw fatal(ExitCode::kUsage,
                        "model.{} is set but model.family = \"gpt2\" has no such switch: leave it "
                        "out, or take family = \"llama\"",
                        key);
        }
    }
    if (m.num_kv_heads != m.num_heads) {
        throw fatal(ExitCode::kUsage,
                    "model.num_kv_heads = {} and model.num_heads = {} differ: gpt2 has no grouped "
                    "queries",
                    m.num_kv_heads, m.num_heads);
    }
    if (m.q_dim() != m.d_model) {
        throw fatal(ExitCode::kUsage,
                    "model.head_dim = {} times model.num_heads = {} is not model.d_model = {}, as "
                    "gpt2 needs",
                    m.head_dim, m.num_heads, m.d_model);
    }
}

/// Refused here and not first when the trained model is to be written.
void check_switches(const ModelConfig& m) {
    if (m.qk_norm && m.qkv_bias) {
        throw fatal(ExitCode::kUsage,
                    "model.qk_norm and model.qkv_bias are both on: no known model (and no Hugging "
                    "Face model_type) has both, switch one off");
    }
}

void check_rope(const ModelConfig& m) {
    const ModelConfig defaults;
    const bool linear = m.rope_scaling == "linear", llama3 = m.rope_scaling == "llama3";
    if (!linear && !llama3 && m.rope_scaling != "none") {
        throw fatal(ExitCode::kUsage,
                    "model.rope_scaling = \"{}\" is unknown: none, linear, llama3", m.rope_scaling);
    }
    if (!m.is_gpt2() && !(m.rope_theta >= 1 && m.rope_theta <= 1e12)) {
        throw fatal(ExitCode::kUsage, "model.rope_theta = {} is out of range: 1 to 1e12",
                    m.rope_theta);
    }
    if (!linear && !llama3 && m.rope_factor != defaults.rope_factor) {
        throw fatal(
            ExitCode::kUsage,
            "model.rope_factor = {} is set but model.rope_scaling = \"none\": choose linear "
            "or llama3, or leave it out",
            m.rope_factor);
    }
    if (!(m.rope_factor >= 1 && m.rope_factor <= 1e6)) {
        throw fatal(ExitCode::kUsage, "model.rope_factor = {} is out of range: 1 to 1e6",
                    m.rope_factor);
    }
    if (!llama3 && (m.rope_low_freq_factor != defaults.rope_low_freq_factor ||
                    m.rope_high_freq_factor != defaults.rope_high_freq_factor ||
                    m.rope_original_context != defaults.rope_original_context)) {
        throw fatal(ExitCode::kUsage,
                    "model.rope_low_freq_factor, rope_high_freq_factor and rope_original_context "
                    "mean something only with model.rope_scaling = \"llama3\", not \"{}\"",
                    m.rope_scaling);
    }
    if (!(m.rope_low_freq_factor > 0 && m.rope_low_freq_factor < m.rope_high_freq_factor &&
          m.rope_high_freq_factor <= 1e6)) {
        throw fatal(ExitCode::kUsage,
                    "model.rope_low_freq_factor = {} must be above 0 and below "
                    "model.rope_high_freq_factor = {}",
                    m.rope_low_freq_factor, m.rope_high_freq_factor);
    }
}

}  // namespace

std::vector<std::string> model_presets() {
    std::vector<std::string> names;
    for (const Preset& p : kPresets) names.emplace_back(p.name);
    return names;
}

void ModelConfig::describe(ConfigVisitor& v) {
    v.field("preset", preset,
            {.help = "shape that fills the fields left out; \"custom\" fills none",
             .one_of = preset_choices(),
             .allow_empty = false});
    v.field("family", family, {.help = "empty: the preset's", .one_of = {"", "gpt2", "llama"}});
    v.field("vocab", vocab,
            {.help = "token ids are below it; 0: the preset's",
             .unit = "tokens",
             .min = 0,
             .max = 1 << 24});
    v.field("d_model", d_model,
            {.help = "width of the residual stream; 0: the preset's", .min = 0, .max = 1 << 17});
    v.field("num_layers", num_layers, {.help = "blocks; 0: the preset's", .min = 0, .max = 4096});
    v.field("num_heads", num_heads,
            {.help = "query heads; 0: the preset's", .min = 0, .max = 4096});
    v.field("num_kv_heads", num_kv_heads,
            {.help = "key and value heads (grouped queries); 0: the preset's, else num_heads",
             .min = 0,
             .max = 4096});
    v.field("head_dim", head_dim,
            {.help = "0: the preset's, else d_model / num_heads", .min = 0, .max = 4096});
    v.field("ffn_dim", ffn_dim,
            {.help = "width inside the feed-forward; 0: the preset's", .min = 0, .max = 1 << 20});
    v.field("context", context,
            {.help = "longest sequence; gpt2: size of the position table; 0: the preset's",
             .unit = "tokens",
             .min = 0,
             .max = 1 << 24});
    v.field(
        "norm_eps", norm_eps,
        {.help = "added to the variance in norms; 0: the preset's, else 1e-5", .min = 0, .max = 1});
    v.field("rope_theta", rope_theta,
            {.help = "base of the rotary frequencies (llama); 0: the preset's, else 10000",
             .min = 0,
             .max = 1e12});
    v.field("rope_scaling", rope_scaling,
            {.help = "how rotary frequencies are stretched for long contexts (llama)",
             .one_of = {"none", "linear", "llama3"},
             .allow_empty = false});
    v.field("rope_factor", rope_factor,
            {.help = "stretch of linear and llama3 scaling", .min = 1, .max = 1e6});
    v.field("rope_low_freq_factor", rope_low_freq_factor,
            {.help = "llama3 scaling: longer waves are stretched in full", .min = 0, .max = 1e6});
    v.field("rope_high_freq_factor", rope_high_freq_factor,
            {.help = "llama3 scaling: shorter waves stay", .min = 0, .max = 1e6});
    v.field("rope_original_context", rope_original_context,
            {.help = "llama3 scaling: context before the stretch",
             .unit = "tokens",
             .min = 1,
             .max = 1 << 24});
    v.field("tied_head", tied_head,
            {.help = "the output matrix is the token table; always so in gpt2 and in a preset that "
                     "has it"});
    v.field("qkv_bias", qkv_bias, {.help = "biases on q, k and v, as in Qwen2 (llama)"});
    v.field(
        "qk_norm", qk_norm,
        {.help = "RMSNorm of each q and k head, as in Qwen3 (llama); always on in a preset that "
                 "has it"});
    v.field("sliding_window", sliding_window,
            {.help = "tokens a query sees, itself included, as in Mistral (llama); 0: all",
             .unit = "tokens",
             .min = 0,
             .max = 1 << 24});
}

void ModelConfig::resolve() {
    if (preset != "custom") {
        const Preset* p = find_preset(preset);
        if (p == nullptr) {
            const std::string near = nearest_name(preset, preset_choices());
            throw fatal(ExitCode::kUsage, "model.preset = \"{}\" is unknown{}", preset,
                        near.empty() ? std::string() : fmt::format(": did you mean \"{}\"?", near));
        }
        apply_preset(*this, *p);
    }
    require_fields(*this);
    fill(norm_eps, 1e-5);
    if (num_kv_heads == 0) num_kv_heads = num_heads;
    if (head_dim == 0) {
        if (num_heads < 1 || d_model % num_heads != 0) {
            throw fatal(ExitCode::kUsage,
                        "model.num_heads = {} does not divide model.d_model = {}: change one, or "
                        "give head_dim",
                        num_heads, d_model);
        }
        head_dim = d_model / num_heads;
    }
    if (is_gpt2()) {
        tied_head = true;
    } else {
        fill(rope_theta, 1e4);
    }
    check_ranges(*this);
    check_heads(*this);
    if (is_gpt2()) check_gpt2(*this);
    check_switches(*this);
    check_rope(*this);
}

}  // namespace isthmus::inner
