#include "outer/outer_step.hpp"

#include "outer/config.hpp"
#include "outer/samples.hpp"

namespace isthmus::outer {
namespace {

using Vector = std::vector<float>;

Vector averaged(const Vector& anchor, const std::vector<Vector>& locals, const Vector& weights,
                float lr) {
    Vector sum(anchor.size(), 0.0f);
    for (std::size_t s = 0; s < locals.size(); ++s) {
        Vector delta(anchor.size());
        pseudo_gradient(anchor, locals[s], delta);
        accumulate(sum, weights[s], delta);
    }
    outer_sgd(anchor, sum, total_weight(weights), lr, sum);
    return sum;
}

// f = w^2 / 2 from w = 1 with inner lr .1 and H = 2: local .81; outer SGD at lr 1 gives .81 too.
TEST(OuterStep, TwoInnerStepsOnAParabola) {
    float w = 1.0f;
    for (int h = 0; h < 2; ++h) w -= 0.1f * w;
    EXPECT_NEAR(averaged({1.0f}, {{w}}, {1.0f}, 1.0f)[0], 0.81f, 1e-7);
    EXPECT_NEAR(averaged({1.0f}, {{w}}, {1.0f}, 0.5f)[0], 0.905f, 1e-7);
}

// H = 1 with inner SGD at every site is data parallelism: the mean gradient's step. Integers in
// fp32 make it exact.
TEST(OuterStep, OneInnerSgdStepIsDataParallel) {
    const Vector anchor{8, -16, 32, 0};
    const std::vector<Vector> gradients{{4, 8, -12, 16}, {-8, 4, 20, 0}};
    std::vector<Vector> locals(2, anchor);
    Vector expected = anchor;
    for (std::size_t i = 0; i < anchor.size(); ++i) {
        for (std::size_t s = 0; s < 2; ++s) locals[s][i] -= 0.5f * gradients[s][i];
        expected[i] -= 0.5f * ((gradients[0][i] + gradients[1][i]) / 2.0f);
    }
    EXPECT_EQ(averaged(anchor, locals, {1, 1}, 1.0f), expected);
}

TEST(OuterStep, WeightsAreTheDivisor) {
    EXPECT_EQ(averaged({0, 0}, {{4, 8}, {8, 16}}, {3, 1}, 1.0f), (Vector{5, 10}));
}

// The compiler may not fuse: 1 + 2^-12 squared, less its rounded square, is 0 with two roundings
// and 2^-24 with one.
TEST(OuterStep, DoesNotContract) {
    const float a = 1.0f + 0x1p-12f;
    Vector sum{-(a * a)};
    accumulate(sum, a, Vector{a});
    EXPECT_EQ(sum[0], 0.0f);
}

TEST(StateHash, IsBlake2bOfTheBytes) {
    // BLAKE2b-256 of no bytes (RFC 7693's algorithm; b2sum -l 256 </dev/null).
    EXPECT_EQ(hex(hash_state({})),
              "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8");
    const Vector values{1, 2, 3, 4, 5};
    StateHasher parts;
    parts.update(std::span(values).first(2));
    parts.update(std::span(values).subspan(2));
    EXPECT_EQ(parts.finish(), hash_state(values));
    EXPECT_NE(hash_state(Vector{0.0f}), hash_state(Vector{-0.0f}));
}

TEST(Meetings, EveryHAndAfterTheLast) {
    std::vector<int> meetings;
    for (int step = 0; step <= 25; ++step) {
        if (meets_after(step, 25, 10)) meetings.push_back(step);
    }
    EXPECT_EQ(meetings, (std::vector<int>{10, 20, 25}));
    EXPECT_FALSE(meets_after(0, 0, 10));
}

// What all sites train in step t is what data parallelism would: the run's next M*A*B samples.
TEST(Samples, SitesTogetherTrainTheRunsOrder) {
    const std::uint64_t batch = 3, accumulate = 2, sites = 4;
    const std::uint64_t own = batch * accumulate;
    for (std::uint64_t t = 0; t < 5; ++t) {
        std::vector<int> seen(own * sites, 0);
        for (std::uint32_t s = 0; s < sites; ++s) {
            const SampleShare share{SiteId(s), sites, batch};
            for (std::uint64_t i = 0; i < own; ++i) {
                const auto number = site_sample(share, SampleNumber(t * own + i)).value;
                ASSERT_GE(number, t * own * sites);
                ASSERT_LT(number, (t + 1) * own * sites);
                ++seen[number - t * own * sites];
            }
        }
        EXPECT_EQ(seen, std::vector<int>(own * sites, 1));
    }
    EXPECT_EQ(site_sample({SiteId(0), 1, 16}, SampleNumber(12345)).value, 12345u);
    EXPECT_EQ(site_sample({SiteId(1), 2, 3}, SampleNumber(4)).value, 10u);
}

}  // namespace
}  // namespace isthmus::outer
