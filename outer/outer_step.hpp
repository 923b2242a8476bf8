// The arithmetic of a round: pseudo-gradient, weighted mean, outer optimizer, digests. Fixed
// sequences of fp32 operations, without contraction, the same bits on every instruction set.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "outer/layout.hpp"
#include "outer/names.hpp"
#include "outer/outer_optimizer.hpp"

namespace isthmus::outer {

/// Pseudo-gradient: anchor - local (arXiv:2311.08105, Alg. 1, line 9).
/// SHAPE  all spans: n elements. `out` may be `local`.
/// SIGN   anchor minus local, so that the outer optimizer descends.
void pseudo_gradient(std::span<const float> anchor, std::span<const float> local,
                     std::span<float> out);

/// x += y: what error feedback adds to a pseudo-gradient before it is encoded (arXiv:1809.07599).
void add(std::span<float> x, std::span<const float> y);
/// e = d - sent: what the codec left out. `e` may be `d`.
void subtract(std::span<const float> d, std::span<const float> sent, std::span<float> e);

/// sum += weight * x. Called in ascending site id on a sum that starts as zero.
void accumulate(std::span<float> sum, float weight, std::span<const float> x);
/// x /= total
void divide(std::span<float> x, float total);
/// Weights added up in the order given, in fp32.
float total_weight(std::span<const float> weights);

/// Sum of squares in fp64, in a fixed order (eight interleaved sums); NaN or Inf if any element is.
double sum_of_squares(std::span<const float> x);

/// One step of the outer optimizer.
/// SHAPE  all n elements; `momentum` empty if the optimizer has none.
void outer_step(const OuterOptimizer&, std::span<float> anchor, std::span<float> momentum,
                std::span<const float> gradient);

/// BLAKE2b-256 (libsodium, .7 GB/s) of bytes as they come.
class Digester {
  public:
    Digester();
    ~Digester();
    Digester(Digester&&) noexcept;
    Digester& operator=(Digester&&) noexcept;
    void update(std::span<const std::byte>);
    void update(std::span<const float>);
    StateHash finish();

  private:
    struct State;
    std::unique_ptr<State> state_;
};
StateHash digest_of(std::span<const std::byte>);
/// Digest of digests: pieces may be digested in any order, by anyone.
StateHash combine(std::span<const StateHash>);

/// Full digest of anchor and outer momentum by the layout's pieces; equal states, equal digests,
/// however they were sharded.
StateHash full_digest(const FragmentLayout&, std::span<const float> anchor,
                      std::span<const float> momentum);

}  // namespace isthmus::outer
