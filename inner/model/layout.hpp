// The model as units: each a flat fp32 buffer with named views. Everything that shards, saves,
// reduces or exchanges parameters sees only this.
//
// Units in order: "embedding" (token table, gpt2's position table), "block.0" ... "block.L-1",
// "head" (final norm, and the output matrix unless tied). Views stand in the order below, without
// gaps. Fused matrices keep one GEMM one: qkv rows are q heads, k heads, v heads; gate_up rows are
// gate, up.
//   embedding:  token [V, d], position [context, d] (gpt2)
//   block:      norm1.weight (.bias), qkv.weight [q+2kv, d] (.bias), q_norm, k_norm [head_dim],
//               attention_out.weight [d, q] (.bias), norm2.weight (.bias),
//               gate_up.weight [2f, d] (llama) or up.weight [f, d] + .bias (gpt2), down.weight [d,
//               f] (.bias)
//   head:       norm.weight (.bias), output.weight [V, d] (untied)
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "inner/model/config.hpp"

namespace isthmus::inner {

/// How a view starts: a normal distribution with this deviation, or a constant.
struct Initial {
    double deviation = 0;  ///< > 0: normal(0, deviation)
    double constant = 0;
};

struct View {
    std::string name;                ///< "block.3.qkv.weight"
    std::int64_t offset = 0;         ///< elements from the unit's start
    std::vector<std::int64_t> dims;  ///< [out, in] for matrices, [n] for vectors
    Initial initial;
    bool decay = false;  ///< weight decay applies: 2-D only
    std::int64_t count() const {
        std::int64_t n = 1;
        for (auto d : dims) n *= d;
        return n;
    }
};

struct Unit {
    std::string name;
    std::vector<View> views;
    std::int64_t count = 0;                           ///< elements of the flat buffer
    const View& view(const std::string& name) const;  ///< CHECKs that it exists
    const View* find(const std::string& name) const;
};

struct Layout {
    std::vector<Unit> units;
    std::int64_t count() const;  ///< all parameters
    UnitId embedding() const { return UnitId(0); }
    UnitId block(std::int64_t layer) const { return UnitId(static_cast<std::uint32_t>(1 + layer)); }
    UnitId head() const { return UnitId(static_cast<std::uint32_t>(units.size() - 1)); }
    const Unit& operator[](UnitId id) const { return units[id.value]; }
};

Layout make_layout(const ModelConfig&);

/// Grain of every plan that cuts a unit (DESIGN: follows from model and config alone).
inline constexpr std::int64_t kGrainElements = 4096;

/// Writes elements [first, first + out.size()) of a unit's initial values: a pure function of
/// (seed, view name, element), so that any shard of any plan gets the same weights (ACCEPTANCE
/// "sharded initialisation").
void initialise(const Unit&, std::uint64_t seed, std::int64_t first, std::span<float> out);

}  // namespace isthmus::inner
