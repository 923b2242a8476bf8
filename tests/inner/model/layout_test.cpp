#include "inner/model/layout.hpp"

#include <cmath>

namespace isthmus::inner {
namespace {

ModelConfig config(const std::string& family) {
    ModelConfig m;
    m.preset = "custom";
    m.family = family;
    m.vocab = 50;
    m.d_model = 24;
    m.num_layers = 3;
    m.num_heads = 4;
    m.ffn_dim = 40;
    m.context = 16;
    return m;
}

std::vector<std::string> names(const Unit& u) {
    std::vector<std::string> all;
    for (const View& v : u.views) all.push_back(v.name);
    return all;
}

TEST(Layout, LlamaWithEverySwitch) {
    ModelConfig m = config("llama");
    m.num_kv_heads = 2;
    m.head_dim = 8;
    m.qkv_bias = true;
    m.resolve();
    m.qk_norm = true;  // resolve() refuses both together; the layout has room for both
    const Layout layout = make_layout(m);
    ASSERT_EQ(layout.units.size(), 5u);
    EXPECT_EQ(names(layout[layout.embedding()]), (std::vector<std::string>{"embedding.token"}));
    EXPECT_EQ(names(layout[layout.block(1)]),
              (std::vector<std::string>{"block.1.norm1.weight", "block.1.qkv.weight",
                                        "block.1.qkv.bias", "block.1.q_norm", "block.1.k_norm",
                                        "block.1.attention_out.weight", "block.1.norm2.weight",
                                        "block.1.gate_up.weight", "block.1.down.weight"}));
    EXPECT_EQ(names(layout[layout.head()]),
              (std::vector<std::string>{"head.norm.weight", "head.output.weight"}));
    const Unit& block = layout[layout.block(0)];
    EXPECT_EQ(block.view("block.0.qkv.weight").dims, (std::vector<std::int64_t>{64, 24}));
    EXPECT_EQ(block.view("block.0.attention_out.weight").dims, (std::vector<std::int64_t>{24, 32}));
    EXPECT_EQ(block.view("block.0.gate_up.weight").dims, (std::vector<std::int64_t>{80, 24}));
    EXPECT_EQ(block.find("block.0.up.weight"), nullptr);
}

TEST(Layout, Gpt2HasPositionsBiasesAndATiedHead) {
    ModelConfig m = config("gpt2");
    m.resolve();
    const Layout layout = make_layout(m);
    EXPECT_EQ(names(layout[layout.embedding()]),
              (std::vector<std::string>{"embedding.token", "embedding.position"}));
    EXPECT_EQ(names(layout[layout.head()]),
              (std::vector<std::string>{"head.norm.weight", "head.norm.bias"}));
    const Unit& block = layout[layout.block(2)];
    EXPECT_EQ(block.view("block.2.up.bias").count(), 40);
    EXPECT_EQ(block.views.size(), 12u);
}

TEST(Layout, ViewsStandWithoutGapsAndOnlyMatricesDecay) {
    for (const char* family : {"gpt2", "llama"}) {
        ModelConfig m = config(family);
        m.resolve();
        for (const Unit& u : make_layout(m).units) {
            std::int64_t at = 0;
            for (const View& v : u.views) {
                EXPECT_EQ(v.offset, at) << v.name;
                EXPECT_EQ(v.decay, v.dims.size() == 2) << v.name;
                at += v.count();
            }
            EXPECT_EQ(at, u.count);
        }
    }
}

TEST(Initialise, AnyPieceHasTheValuesOfTheWhole) {
    ModelConfig m = config("gpt2");
    m.resolve();
    const Layout layout = make_layout(m);
    const Unit& unit = layout[layout.block(1)];
    std::vector<float> whole(static_cast<std::size_t>(unit.count));
    initialise(unit, 7, 0, whole);
    for (const std::int64_t size : {1, 7, 64, 1000}) {
        std::vector<float> pieces;
        for (std::int64_t at = 0; at < unit.count; at += size) {
            std::vector<float> piece(static_cast<std::size_t>(std::min(size, unit.count - at)));
            initialise(unit, 7, at, piece);
            pieces.insert(pieces.end(), piece.begin(), piece.end());
        }
        EXPECT_EQ(pieces, whole) << size;
    }
}

TEST(Initialise, DistributionsAreThePeers) {
    ModelConfig m;
    m.preset = "gpt2";
    m.vocab = 512;
    m.resolve();
    const Layout layout = make_layout(m);
    const Unit& unit = layout[layout.block(0)];
    std::vector<float> values(static_cast<std::size_t>(unit.count));
    initialise(unit, 1, 0, values);
    const auto deviation = [&](const char* name) {
        const View& v = unit.view(name);
        double sum = 0, squares = 0;
        for (std::int64_t i = v.offset; i < v.offset + v.count(); ++i) {
            const double x = values[static_cast<std::size_t>(i)];
            sum += x;
            squares += x * x;
        }
        const auto n = static_cast<double>(v.count());
        EXPECT_LT(std::abs(sum / n), 5 * 0.02 / std::sqrt(n)) << name;
        return std::sqrt(squares / n);
    };
    EXPECT_NEAR(deviation("block.0.qkv.weight"), 0.02, 1e-4);
    EXPECT_NEAR(deviation("block.0.up.weight"), 0.02, 1e-4);
    EXPECT_NEAR(deviation("block.0.attention_out.weight"), 0.02 / std::sqrt(24), 1e-4);
    EXPECT_NEAR(deviation("block.0.down.weight"), 0.02 / std::sqrt(24), 1e-4);
    EXPECT_EQ(values[static_cast<std::size_t>(unit.view("block.0.norm2.weight").offset)], 1.0f);
    EXPECT_EQ(values[static_cast<std::size_t>(unit.view("block.0.down.bias").offset)], 0.0f);
}

TEST(Initialise, SeedsAndViewsAreIndependent) {
    ModelConfig m = config("llama");
    m.resolve();
    const Layout layout = make_layout(m);
    const auto count = static_cast<std::size_t>(layout[layout.block(0)].count);
    std::vector<float> a(count), b(count), c(count);
    initialise(layout[layout.block(0)], 1, 0, a);
    initialise(layout[layout.block(1)], 1, 0, b);
    initialise(layout[layout.block(0)], 2, 0, c);
    const auto at =
        static_cast<std::size_t>(layout[layout.block(0)].view("block.0.qkv.weight").offset);
    EXPECT_NE(a[at], b[at]);
    EXPECT_NE(a[at], c[at]);
}

}  // namespace
}  // namespace isthmus::inner
