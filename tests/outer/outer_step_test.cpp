// The identities of an outer step as executable mathematics (FACTS 1), and its digests.
#include "outer/outer_step.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "base/random.hpp"

namespace isthmus::outer {
namespace {

using Floats = std::vector<float>;

constexpr OuterOptimizer kAveraging{};
constexpr OuterOptimizer kNesterov{.lr = 0.7f, .momentum = 0.9f, .nesterov = true};

/// Anchor after one round: Alg. 1 of arXiv:2311.08105.
Floats round_of(const OuterOptimizer& optimizer, Floats anchor, Floats momentum,
                const std::vector<Floats>& locals, const Floats& weights) {
    Floats mean(anchor.size(), 0.0f), delta(anchor.size());
    for (std::size_t s = 0; s < locals.size(); ++s) {
        pseudo_gradient(anchor, locals[s], delta);
        accumulate(mean, weights[s], delta);
    }
    divide(mean, total_weight(weights));
    outer_step(optimizer, anchor, momentum, mean);
    return anchor;
}

// f = w^2 / 2 from w = 1, inner lr .1, H = 2: local .81. Outer SGD at rate 1 gives .81, the first
// Nesterov step .7473. Accumulating gradients of two micro-batches gives .9: another algorithm.
TEST(OuterStep, TwoInnerStepsOnAParabola) {
    float w = 1.0f;
    for (int h = 0; h < 2; ++h) w -= 0.1f * w;
    EXPECT_NEAR(w, 0.81f, 1e-7);
    EXPECT_NEAR(round_of(kAveraging, {1.0f}, {}, {{w}}, {1.0f})[0], 0.81f, 1e-7);
    EXPECT_NEAR(round_of(kNesterov, {1.0f}, {0.0f}, {{w}}, {1.0f})[0], 0.7473f, 1e-7);
    const float accumulated = 1.0f - 0.1f * (1.0f + 1.0f) / 2;
    EXPECT_NEAR(accumulated, 0.9f, 1e-7);
}

// The first step of SGD with momentum is plain; the second has mu times the first in it.
TEST(OuterStep, MomentumAndNesterovOverTwoSteps) {
    const OuterOptimizer heavy{.lr = 0.5f, .momentum = 0.5f};
    OuterOptimizer nesterov = heavy;
    nesterov.nesterov = true;
    Floats a{8.0f}, m{0.0f};
    outer_step(heavy, a, m, Floats{4.0f});
    EXPECT_EQ(a[0], 6.0f);  // m 4
    outer_step(heavy, a, m, Floats{2.0f});
    EXPECT_EQ(a[0], 4.0f);  // m 4
    a = {8.0f}, m = {0.0f};
    outer_step(nesterov, a, m, Floats{4.0f});
    EXPECT_EQ(a[0], 5.0f);  // g + mu m = 4 + 2
    outer_step(nesterov, a, m, Floats{2.0f});
    EXPECT_EQ(a[0], 3.0f);  // 2 + 2
    EXPECT_EQ(m[0], 4.0f);
}

// H = 1 with inner SGD at every site is data parallelism. Integers make it exact.
TEST(OuterStep, OneInnerSgdStepIsDataParallel) {
    const Floats anchor{8, -16, 32, 0};
    const std::vector<Floats> gradients{{4, 8, -12, 16}, {-8, 4, 20, 0}};
    std::vector<Floats> locals(2, anchor);
    Floats expected = anchor;
    for (std::size_t i = 0; i < anchor.size(); ++i) {
        for (std::size_t s = 0; s < 2; ++s) locals[s][i] -= 0.5f * gradients[s][i];
        expected[i] -= 0.5f * ((gradients[0][i] + gradients[1][i]) / 2.0f);
    }
    EXPECT_EQ(round_of(kAveraging, anchor, {}, locals, {1, 1}), expected);
}

TEST(OuterStep, WeightsAreTheDivisor) {
    EXPECT_EQ(round_of(kAveraging, {0, 0}, {}, {{4, 8}, {8, 16}}, {3, 1}), (Floats{5, 10}));
}

// Against fp64: three sites, unequal weights, ten rounds. An fp32 operation is off by 2^-24; a few
// dozen of them lie between the first and the last number.
TEST(OuterStep, FollowsTheReferenceInFp64) {
    constexpr std::size_t kElements = 1003;
    const Floats weights{3, 1, 4};
    for (const OuterOptimizer o :
         {kAveraging, kNesterov, OuterOptimizer{.lr = 0.4f, .momentum = 0.8f}}) {
        Floats anchor(kElements), m(o.has_momentum() ? kElements : 0), mean(kElements),
            d(kElements);
        for (std::size_t i = 0; i < kElements; ++i)
            anchor[i] = static_cast<float>(random_normal(1, i));
        std::vector<double> a64(anchor.begin(), anchor.end()), m64(kElements);
        for (std::uint64_t round = 0; round < 10; ++round) {
            std::fill(mean.begin(), mean.end(), 0.0f);
            std::vector<double> mean64(kElements);
            for (std::size_t s = 0; s < 3; ++s) {
                for (std::size_t i = 0; i < kElements; ++i) {
                    // What a site did to its parameters, the same for both.
                    d[i] = 0.01f * static_cast<float>(random_normal(round * 3 + s + 2, i));
                    mean64[i] += static_cast<double>(weights[s]) * d[i] / 8;
                }
                accumulate(mean, weights[s], d);
            }
            divide(mean, total_weight(weights));
            outer_step(o, anchor, m, mean);
            for (std::size_t i = 0; i < kElements; ++i) {
                const double mu = o.momentum;
                m64[i] = mu * m64[i] + mean64[i];
                const double step = o.nesterov ? mean64[i] + mu * m64[i] : m64[i];
                a64[i] -= static_cast<double>(o.lr) * (o.has_momentum() ? step : mean64[i]);
            }
        }
        for (std::size_t i = 0; i < kElements; ++i) ASSERT_NEAR(anchor[i], a64[i], 2e-6) << i;
    }
}

TEST(OuterStepDeathTest, RefusesSizesThatDiffer) {
    Floats a(3), m(2);
    EXPECT_DEATH(outer_step(kNesterov, a, m, Floats(3)), "CHECK");
    EXPECT_DEATH(outer_step(kAveraging, a, a, Floats(3)), "CHECK");
    EXPECT_DEATH(divide(a, 0.0f), "the weights add up to 0");
}

TEST(Digester, IsBlake2bOfTheBytes) {
    // BLAKE2b-256 of no bytes (RFC 7693's algorithm; b2sum -l 256 </dev/null).
    EXPECT_EQ(hex(digest_of({})),
              "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8");
    const Floats values{1, 2, 3, 4, 5};
    Digester parts;
    parts.update(std::span(values).first(2));
    parts.update(std::span<const float>());
    parts.update(std::as_bytes(std::span(values).subspan(2)));
    EXPECT_EQ(parts.finish(), digest_of(std::as_bytes(std::span(values))));
    Floats zero{0.0f};
    const StateHash positive = digest_of(std::as_bytes(std::span(zero)));
    zero[0] = -0.0f;
    EXPECT_NE(digest_of(std::as_bytes(std::span(zero))), positive);
}

TEST(Digester, FullDigestSeesEveryBitOfAnchorAndMomentum) {
    const FragmentLayout layout({700, 0, 5}, 256);
    Floats anchor(705, 1.0f), momentum(705, 0.0f);
    const StateHash bare = full_digest(layout, anchor, {});
    const StateHash before = full_digest(layout, anchor, momentum);
    EXPECT_NE(before, bare);
    EXPECT_EQ(before, full_digest(layout, anchor, momentum));
    for (const std::size_t i : {0, 255, 256, 699, 700, 704}) {
        for (Floats* changed : {&anchor, &momentum}) {
            const float old = std::exchange((*changed)[i], -0.0f);
            EXPECT_EQ(full_digest(layout, anchor, {}) == bare, changed == &momentum) << i;
            EXPECT_NE(full_digest(layout, anchor, momentum), before) << i;
            (*changed)[i] = old;
        }
    }
    EXPECT_EQ(full_digest(FragmentLayout({}), {}, {}), combine({}));
}

}  // namespace
}  // namespace isthmus::outer
