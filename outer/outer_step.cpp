#include "outer/outer_step.hpp"

#include <sodium.h>

#include "base/check.hpp"
#include "outer/kernels/kernels.hpp"

namespace isthmus::outer {

void pseudo_gradient(std::span<const float> anchor, std::span<const float> local,
                     std::span<float> out) {
    CHECK(anchor.size() == local.size() && out.size() == local.size());
    kernels().pseudo_gradient(anchor.data(), local.data(), out.data(), out.size());
}

void add(std::span<float> x, std::span<const float> y) {
    CHECK(x.size() == y.size());
    kernels().add(x.data(), y.data(), x.size());
}

void subtract(std::span<const float> d, std::span<const float> sent, std::span<float> e) {
    CHECK(d.size() == sent.size() && e.size() == d.size());
    kernels().subtract(d.data(), sent.data(), e.data(), e.size());
}

void accumulate(std::span<float> sum, float weight, std::span<const float> x) {
    CHECK(sum.size() == x.size());
    kernels().accumulate(sum.data(), weight, x.data(), sum.size());
}

void divide(std::span<float> x, float total) {
    CHECK(total > 0, "the weights add up to {}", total);
    kernels().divide(x.data(), total, x.size());
}

float total_weight(std::span<const float> weights) {
    float total = 0;
    for (const float w : weights) total += w;
    return total;
}

double sum_of_squares(std::span<const float> x) {
    return kernels().sum_of_squares(x.data(), x.size());
}

void outer_step(const OuterOptimizer& o, std::span<float> anchor, std::span<float> momentum,
                std::span<const float> gradient) {
    CHECK(anchor.size() == gradient.size());
    CHECK(momentum.size() == (o.has_momentum() ? anchor.size() : 0));
    const Kernels& k = kernels();
    if (!o.has_momentum()) {
        k.sgd(anchor.data(), gradient.data(), o.lr, anchor.size());
    } else {
        const auto step = o.nesterov ? k.nesterov : k.momentum;
        step(anchor.data(), momentum.data(), gradient.data(), o.lr, o.momentum, anchor.size());
    }
}

struct Digester::State {
    crypto_generichash_state blake;
};

Digester::Digester() : state_(std::make_unique<State>()) {
    CHECK(sodium_init() >= 0);
    crypto_generichash_init(&state_->blake, nullptr, 0, std::tuple_size_v<StateHash>);
}
Digester::~Digester() = default;
Digester::Digester(Digester&&) noexcept = default;
Digester& Digester::operator=(Digester&&) noexcept = default;

void Digester::update(std::span<const std::byte> bytes) {
    if (bytes.empty()) return;
    crypto_generichash_update(&state_->blake, reinterpret_cast<const unsigned char*>(bytes.data()),
                              bytes.size());
}

void Digester::update(std::span<const float> values) {
    update(std::as_bytes(values));
}

StateHash Digester::finish() {
    StateHash hash;
    crypto_generichash_final(&state_->blake, reinterpret_cast<unsigned char*>(hash.data()),
                             hash.size());
    return hash;
}

StateHash digest_of(std::span<const std::byte> bytes) {
    Digester digester;
    digester.update(bytes);
    return digester.finish();
}

StateHash combine(std::span<const StateHash> digests) {
    return digest_of(std::as_bytes(digests));
}

StateHash full_digest(const FragmentLayout& layout, std::span<const float> anchor,
                      std::span<const float> momentum) {
    const auto elements = static_cast<std::size_t>(layout.num_elements());
    CHECK(anchor.size() == elements && (momentum.empty() || momentum.size() == elements));
    std::vector<StateHash> digests;
    for (std::uint32_t p = 0; p < layout.num_pieces(); ++p) {
        const auto offset = static_cast<std::size_t>(layout.piece(p).offset);
        const auto count = static_cast<std::size_t>(layout.piece(p).count);
        Digester digester;
        digester.update(anchor.subspan(offset, count));
        if (!momentum.empty()) digester.update(momentum.subspan(offset, count));
        digests.push_back(digester.finish());
    }
    return combine(digests);
}

}  // namespace isthmus::outer
