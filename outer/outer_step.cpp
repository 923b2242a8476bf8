// Compiled with -ffp-contract=off (outer/CMakeLists.txt): a fused multiply-add rounds once where
// other processors round twice.
#include "outer/outer_step.hpp"

#include <sodium.h>

#include "base/check.hpp"

namespace isthmus::outer {

void pseudo_gradient(std::span<const float> anchor, std::span<const float> local,
                     std::span<float> out) {
    CHECK(anchor.size() == local.size() && out.size() == local.size());
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = anchor[i] - local[i];
}

void accumulate(std::span<float> sum, float weight, std::span<const float> x) {
    CHECK(sum.size() == x.size());
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += weight * x[i];
}

void outer_sgd(std::span<const float> anchor, std::span<const float> sum, float total_weight,
               float lr, std::span<float> out) {
    CHECK(anchor.size() == sum.size() && out.size() == sum.size() && total_weight > 0);
    for (std::size_t i = 0; i < out.size(); ++i) {
        out[i] = anchor[i] - lr * (sum[i] / total_weight);
    }
}

float total_weight(std::span<const float> weights) {
    float total = 0;
    for (float w : weights) total += w;
    return total;
}

struct StateHasher::State {
    crypto_generichash_state blake;
};

StateHasher::StateHasher() : state_(std::make_unique<State>()) {
    CHECK(sodium_init() >= 0);
    crypto_generichash_init(&state_->blake, nullptr, 0, std::tuple_size_v<StateHash>);
}
StateHasher::~StateHasher() = default;

void StateHasher::update(std::span<const float> values) {
    crypto_generichash_update(&state_->blake, reinterpret_cast<const unsigned char*>(values.data()),
                              values.size_bytes());
}

StateHash StateHasher::finish() {
    StateHash hash;
    crypto_generichash_final(&state_->blake, reinterpret_cast<unsigned char*>(hash.data()),
                             hash.size());
    return hash;
}

StateHash hash_state(std::span<const float> values) {
    StateHasher hasher;
    hasher.update(values);
    return hasher.finish();
}

}  // namespace isthmus::outer
