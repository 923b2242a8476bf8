// What a site keeps between rounds: anchor, outer momentum, error-feedback residual; and how a
// committed result changes them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "outer/codec.hpp"
#include "outer/model_port.hpp"
#include "outer/outer_step.hpp"
#include "outer/round_result.hpp"

namespace isthmus::outer {

/// Memory: 4 bytes a parameter for the anchor, 4 for momentum if the optimizer has one, 4 for the
/// residual with error feedback. THREAD  one at a time.
class OuterState {
  public:
    struct Options {
        OuterOptimizer optimizer;
        Codec codec = Codec::kFp32;
        bool error_feedback = false;
        std::uint64_t seed = 0;  ///< of random rounding
    };
    /// At round 0: the anchor is what the model holds; the name's hash is the full digest.
    OuterState(const FragmentLayout&, const Options&, ModelPort&);

    const FragmentLayout& layout() const { return layout_; }
    const Options& options() const { return options_; }
    const StateName& name() const { return name_; }
    std::span<const float> anchor() const { return anchor_; }
    std::span<const float> momentum() const { return momentum_; }  ///< empty without one
    StateHash full_digest() const;

    /// Encodes one piece of this site's input: anchor - local (+ residual), local being read from
    /// the model. Depends on (state, local, site, codec), never on the attempt.
    void encode_input(std::uint32_t piece, SiteId self, ModelPort&, std::span<std::byte> out) const;

    /// Applies a committed result piece by piece: residual (if this site contributed: what its own
    /// encoding left out), outer step, and the model's parameters, which become the new anchor.
    /// REQUIRES  result.info().from is name(); if this site contributed, the model still holds what
    /// was encoded.
    void apply(const RoundResult&, SiteId self, ModelPort&);
    /// Local parameters back to the anchor: the cut is void.
    void reset_model(ModelPort&) const;
    /// Takes over a copy: anchor and momentum (SHAPE the layout's elements each, momentum empty
    /// without one); the residual becomes zero (PROTOCOL 13).
    void replace(const StateName&, std::vector<float> anchor, std::vector<float> momentum,
                 ModelPort&);

  private:
    /// anchor - local (+ residual) of a run of elements.
    void input(const Piece& run, ModelPort&, std::span<float> out) const;
    std::uint64_t key(SiteId self) const;
    void update_residual(const Piece&, SiteId self, ModelPort&, std::span<const std::byte> sent);

    const FragmentLayout& layout_;
    Options options_;
    StateName name_;
    std::vector<float> anchor_, momentum_, residual_;
};

}  // namespace isthmus::outer
