#include "inner/model/config.hpp"

#include "base/error.hpp"
#include "inner/model/layout.hpp"

namespace isthmus::inner {
namespace {

ModelConfig resolved(const std::string& toml) {
    ModelConfig m;
    load_config([&](ConfigVisitor& v) { v.section("model", m, ""); }, "[model]\n" + toml, "test");
    m.resolve();
    return m;
}

constexpr const char* kCustomLlama =
    "preset = 'custom'\nfamily = 'llama'\nvocab = 64\nd_model = 48\nnum_layers = 2\nnum_heads = 6\n"
    "ffn_dim = 96\ncontext = 32\n";
constexpr const char* kCustomGpt2 =
    "preset = 'custom'\nfamily = 'gpt2'\nvocab = 64\nd_model = 48\nnum_layers = 2\nnum_heads = 6\n"
    "ffn_dim = 96\ncontext = 32\n";

/// The message of the refusal, which must be a kUsage.
std::string refusal(const std::string& toml) {
    try {
        resolved(toml);
    } catch (const Fatal& e) {
        EXPECT_EQ(e.code(), ExitCode::kUsage);
        EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos);
        return e.what();
    }
    return "accepted";
}

void expect_refused(const std::string& toml, const std::vector<std::string>& parts) {
    const std::string message = refusal(toml);
    for (const std::string& part : parts) {
        EXPECT_NE(message.find(part), std::string::npos) << toml << "\n-> " << message;
    }
}

TEST(ModelConfig, PresetsHaveThePublishedParameterCounts) {
    // small: shared with the PyTorch peer; gpt2 and the others: their model cards.
    const std::pair<const char*, std::int64_t> counts[] = {{"tiny", 869'504},
                                                           {"small", 4'951'296},
                                                           {"gpt2", 124'439'808},
                                                           {"gpt2-medium", 354'823'168},
                                                           {"tinyllama-1.1b", 1'100'048'384},
                                                           {"qwen3-0.6b", 596'049'920}};
    ASSERT_EQ(std::size(counts), model_presets().size());
    for (const auto& [preset, count] : counts) {
        const ModelConfig m = resolved("preset = '" + std::string(preset) + "'");
        EXPECT_EQ(make_layout(m).count(), count) << preset;
    }
}

TEST(ModelConfig, PresetFillsOnlyWhatIsLeftOut) {
    const ModelConfig m = resolved("preset = 'tiny'\nvocab = 300\nnum_heads = 8\ncontext = 64");
    EXPECT_EQ(m.vocab, 300);
    EXPECT_EQ(m.num_heads, 8);
    EXPECT_EQ(m.num_kv_heads, 8);  // follows the heads, not the preset's 4
    EXPECT_EQ(m.head_dim, 16);
    EXPECT_EQ(m.context, 64);
    EXPECT_EQ(m.ffn_dim, 352);
    EXPECT_EQ(m.norm_eps, 1e-5);
    EXPECT_EQ(m.rope_theta, 1e4);
}

TEST(ModelConfig, ResolvingTwiceChangesNothing) {
    for (const std::string& preset : model_presets()) {
        ModelConfig m = resolved("preset = '" + preset + "'");
        const auto dump = [&] {
            return dump_config([&](ConfigVisitor& v) { v.section("model", m, ""); }, false);
        };
        const std::string once = dump();
        m.resolve();
        EXPECT_EQ(dump(), once);
    }
}

TEST(ModelConfig, Gpt2IsTiedAndHasNoRotation) {
    const ModelConfig m = resolved(kCustomGpt2);
    EXPECT_TRUE(m.tied_head);
    EXPECT_EQ(m.rope_theta, 0);
}

TEST(ModelConfig, RefusesByName) {
    const std::string llama = kCustomLlama, gpt2 = kCustomGpt2;
    expect_refused("preset = 'custom'", {"model.family", "missing"});
    expect_refused("preset = 'custom'\nfamily = 'llama'", {"model.vocab", "missing"});
    expect_refused("preset = 'gpt2'\nfamily = 'llama'", {"model.family", "llama", "gpt2"});
    expect_refused("preset = 'tiny'\nnum_heads = 5", {"num_heads = 5", "d_model = 128"});
    expect_refused(llama + "num_kv_heads = 4", {"num_kv_heads = 4", "num_heads = 6"});
    expect_refused(llama + "head_dim = 7", {"head_dim = 7", "even"});
    expect_refused(llama + "rope_factor = 2", {"rope_factor = 2", "rope_scaling"});
    expect_refused(llama + "rope_scaling = 'linear'\nrope_low_freq_factor = 2",
                   {"rope_low_freq_factor", "llama3"});
    expect_refused(llama + "rope_scaling = 'llama3'\nrope_factor = 8\nrope_low_freq_factor = 4",
                   {"rope_low_freq_factor = 4", "rope_high_freq_factor = 4"});
    expect_refused(llama + "qkv_bias = true\nqk_norm = true", {"qk_norm", "qkv_bias"});
    expect_refused(llama + "rope_theta = 0.5", {"rope_theta = 0.5"});
    for (const char* on : {"qkv_bias = true", "qk_norm = true", "sliding_window = 4",
                           "rope_theta = 10000", "rope_scaling = 'linear'"}) {
        const std::string key(on, std::string(on).find(' '));
        expect_refused(gpt2 + on, {"model." + key, "gpt2"});
    }
    expect_refused(gpt2 + "num_kv_heads = 3", {"num_kv_heads = 3", "gpt2"});
    expect_refused(gpt2 + "head_dim = 16", {"head_dim = 16", "d_model = 48"});
}

TEST(ModelConfig, UnknownPresetNamesTheNearest) {
    ModelConfig m;
    m.preset = "tinny";
    try {
        m.resolve();
        FAIL();
    } catch (const Fatal& e) {
        EXPECT_NE(std::string(e.what()).find("did you mean \"tiny\""), std::string::npos)
            << e.what();
    }
}

}  // namespace
}  // namespace isthmus::inner
