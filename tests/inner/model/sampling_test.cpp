#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <vector>

#include "inner/trainer.hpp"

namespace isthmus::inner {
namespace {

const std::vector<float> kLogits{1.0f, 3.0f, 2.0f, -1.0f, 3.0f};

TEST(Sampling, ZeroTemperatureIsGreedyAndTakesTheFirstOfEquals) {
    SamplingConfig config;
    config.temperature = 0;
    EXPECT_EQ(sample_token(kLogits, config, 0), 1);
}

TEST(Sampling, SameSeedAndDrawSameToken) {
    SamplingConfig config;
    for (std::uint64_t draw = 0; draw < 50; ++draw)
        EXPECT_EQ(sample_token(kLogits, config, draw), sample_token(kLogits, config, draw));
}

TEST(Sampling, FrequenciesFollowTheSoftmax) {
    SamplingConfig config;
    config.temperature = 1;
    std::map<int, int> seen;
    const int draws = 20000;
    for (int draw = 0; draw < draws; ++draw) ++seen[sample_token(kLogits, config, draw)];
    double total = 0;
    for (const float l : kLogits) total += std::exp(l);
    for (int id = 0; id < 5; ++id) {
        const double p = std::exp(kLogits[static_cast<std::size_t>(id)]) / total;
        EXPECT_NEAR(seen[id] / static_cast<double>(draws), p, 5 * std::sqrt(p / draws)) << id;
    }
}

TEST(Sampling, TopKAndTopPCutTheTail) {
    SamplingConfig k;
    k.temperature = 5;
    k.top_k = 2;
    SamplingConfig p;
    p.temperature = 1;
    p.top_p = 0.5;  // the two likeliest hold 0.8 of the mass, one of them 0.4
    for (std::uint64_t draw = 0; draw < 500; ++draw) {
        const int by_k = sample_token(kLogits, k, draw), by_p = sample_token(kLogits, p, draw);
        EXPECT_TRUE(by_k == 1 || by_k == 4) << by_k;
        EXPECT_TRUE(by_p == 1 || by_p == 4) << by_p;
    }
    p.top_p = 0.1;
    for (std::uint64_t draw = 0; draw < 100; ++draw) EXPECT_EQ(sample_token(kLogits, p, draw), 1);
}

}  // namespace
}  // namespace isthmus::inner
