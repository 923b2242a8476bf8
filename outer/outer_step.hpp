// The arithmetic of a round. Fixed sequences of fp32 operations, compiled without contraction, so
// that every site gets the same bits from the same bytes, whatever its processor.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "outer/messages.hpp"

namespace isthmus::outer {

/// Pseudo-gradient: anchor - local (arXiv:2311.08105, Alg. 1, line 9).
/// SHAPE  all spans: n elements. `out` may be `local`.
/// SIGN   anchor minus local, so that the outer optimizer descends.
void pseudo_gradient(std::span<const float> anchor, std::span<const float> local,
                     std::span<float> out);

/// sum += weight * x. Called in ascending site id on a sum that starts as zero.
void accumulate(std::span<float> sum, float weight, std::span<const float> x);

/// out = anchor - lr * (sum / total_weight): outer SGD, and averaging of the parameters at lr 1.
/// SHAPE  all spans: n elements. `out` may be `sum`.
void outer_sgd(std::span<const float> anchor, std::span<const float> sum, float total_weight,
               float lr, std::span<float> out);

/// Weights added up in the order given, in fp32.
float total_weight(std::span<const float> weights);

/// BLAKE2b over fp32 bytes as they come (libsodium, .7 GB/s).
class StateHasher {
  public:
    StateHasher();
    ~StateHasher();
    void update(std::span<const float> values);
    StateHash finish();

  private:
    struct State;
    std::unique_ptr<State> state_;
};
StateHash hash_state(std::span<const float> values);

}  // namespace isthmus::outer
