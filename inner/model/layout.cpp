#include "inner/model/layout.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.hpp"
#include "base/hash.hpp"
#include "base/random.hpp"

namespace isthmus::inner {
namespace {

constexpr double kDeviation = 0.02;  // GPT-2's (radford2019), which llama-shaped models share

/// Appends views to a unit, each behind the one before.
class UnitBuilder {
  public:
    explicit UnitBuilder(std::string name) { unit_.name = std::move(name); }

    void matrix(const std::string& name, std::int64_t out, std::int64_t in,
                double deviation = kDeviation) {
        add(name, {out, in}, {.deviation = deviation});
    }
    void vector(const std::string& name, std::int64_t n, double constant) {
        add(name, {n}, {.constant = constant});
    }
    /// A norm: weight 1 and, in LayerNorm, bias 0.
    void norm(const std::string& name, std::int64_t n, bool bias) {
        vector(name + ".weight", n, 1.0);
        if (bias) vector(name + ".bias", n, 0.0);
    }
    void linear(const std::string& name, std::int64_t out, std::int64_t in, bool bias,
                double deviation = kDeviation) {
        matrix(name + ".weight", out, in, deviation);
        if (bias) vector(name + ".bias", out, 0.0);
    }
    Unit finish() { return std::move(unit_); }

  private:
    void add(const std::string& name, std::vector<std::int64_t> dims, Initial initial) {
        View view;
        view.name = unit_.name + "." + name;
        view.offset = unit_.count;
        view.decay = dims.size() == 2;
        view.dims = std::move(dims);
        view.initial = initial;
        unit_.count += view.count();
        unit_.views.push_back(std::move(view));
    }

    Unit unit_;
};

Unit embedding_unit(const ModelConfig& m) {
    UnitBuilder b("embedding");
    b.matrix("token", m.vocab, m.d_model);
    if (m.is_gpt2()) b.matrix("position", m.context, m.d_model);
    return b.finish();
}

Unit block_unit(const ModelConfig& m, std::int64_t layer) {
    const bool gpt2 = m.is_gpt2();
    // Each block adds two outputs to the residual stream; this keeps its variance independent of
    // depth.
    const double into_residual = kDeviation / std::sqrt(2.0 * static_cast<double>(m.num_layers));
    UnitBuilder b("block." + std::to_string(layer));
    b.norm("norm1", m.d_model, gpt2);
    b.linear("qkv", m.qkv_dim(), m.d_model, gpt2 || m.qkv_bias);
    if (m.qk_norm) {
        b.vector("q_norm", m.head_dim, 1.0);
        b.vector("k_norm", m.head_dim, 1.0);
    }
    b.linear("attention_out", m.d_model, m.q_dim(), gpt2, into_residual);
    b.norm("norm2", m.d_model, gpt2);
    if (gpt2) {
        b.linear("up", m.ffn_dim, m.d_model, true);
    } else {
        b.linear("gate_up", 2 * m.ffn_dim, m.d_model, false);
    }
    b.linear("down", m.d_model, m.ffn_dim, gpt2, into_residual);
    return b.finish();
}

Unit head_unit(const ModelConfig& m) {
    UnitBuilder b("head");
    b.norm("norm", m.d_model, m.is_gpt2());
    if (!m.tied_head) b.matrix("output.weight", m.vocab, m.d_model);
    return b.finish();
}

void initialise_view(const View& view, std::uint64_t seed, std::int64_t first,
                     std::span<float> out) {
    if (view.initial.deviation <= 0) {
        std::fill(out.begin(), out.end(), static_cast<float>(view.initial.constant));
        return;
    }
    const std::uint64_t key = mix64(seed) ^ hash64(view.name);
    const auto n = static_cast<std::int64_t>(out.size());
    // Elements are independent, so threads cannot change the values; gpt2 takes seconds without
    // them.
#pragma omp parallel for schedule(static) if (n >= (std::int64_t{1} << 18))
    for (std::int64_t i = 0; i < n; ++i) {
        const auto element = static_cast<std::uint64_t>(first + i);
        out[static_cast<std::size_t>(i)] =
            static_cast<float>(view.initial.deviation * random_normal(key, element));
    }
}

}  // namespace

const View* Unit::find(const std::string& wanted) const {
    for (const View& v : views) {
        if (v.name == wanted) return &v;
    }
    return nullptr;
}

const View& Unit::view(const std::string& wanted) const {
    const View* found = find(wanted);
    CHECK(found != nullptr, "unit {} has no view {}", name, wanted);
    return *found;
}

std::int64_t Layout::count() const {
    std::int64_t n = 0;
    for (const Unit& u : units) n += u.count;
    return n;
}

Layout make_layout(const ModelConfig& m) {
    Layout layout;
    layout.units.push_back(embedding_unit(m));
    for (std::int64_t l = 0; l < m.num_layers; ++l) layout.units.push_back(block_unit(m, l));
    layout.units.push_back(head_unit(m));
    return layout;
}

void initialise(const Unit& unit, std::uint64_t seed, std::int64_t first, std::span<float> out) {
    const std::int64_t last = first + static_cast<std::int64_t>(out.size());
    CHECK(first >= 0 && last <= unit.count, "unit {}: elements {} to {} of {}", unit.name, first,
          last, unit.count);
    for (const View& view : unit.views) {
        const std::int64_t begin = std::max(first, view.offset);
        const std::int64_t end = std::min(last, view.offset + view.count());
        if (begin >= end) continue;
        initialise_view(view, seed, begin - view.offset,
                        out.subspan(static_cast<std::size_t>(begin - first),
                                    static_cast<std::size_t>(end - begin)));
    }
}

}  // namespace isthmus::inner
