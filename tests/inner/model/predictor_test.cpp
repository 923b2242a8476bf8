#include <gtest/gtest.h>

#include <cmath>

#include "base/random.hpp"
#include "inner/trainer.hpp"
#include "tests/inner/support/memory_tokens.hpp"
#include "tests/inner/support/models.hpp"

namespace isthmus::inner {
namespace {

std::unique_ptr<Predictor> make(const ModelConfig& model, const std::string& dtype) {
    TrainConfig train;
    train.batch = 2;
    train.threads = 1;
    train.dtype = dtype;
    train.emulate_bf16 = true;
    auto predictor = Predictor::create(model, train);
    for (std::uint32_t u = 0; u < predictor->layout().units.size(); ++u) {
        const std::span<float> values = predictor->parameters(UnitId(u));
        initialise(predictor->layout().units[u], 7, 0, values);
        // Larger than at the start of training, so that every part matters.
        for (std::size_t i = 0; i < values.size(); ++i)
            values[i] += 0.1f * static_cast<float>(random_normal(u + 1, i));
    }
    predictor->parameters_changed();
    return predictor;
}

TEST(Predictor, CachedDecodingEqualsTheWholeSequence) {
    for (const std::string dtype : {"fp32", "bf16"}) {
        for (const auto& [name, config] : testing::all_models()) {
            const auto predictor = make(config, dtype);
            std::vector<std::int32_t> tokens;
            for (std::size_t i = 0; i < 20; ++i)
                tokens.push_back(static_cast<std::int32_t>(random_bits(5, i) % 37));
            std::vector<float> whole(tokens.size() * 37);
            predictor->logits(tokens, whole);
            float largest = 0;
            for (const float x : whole) largest = std::max(largest, std::abs(x));
            // The same sums in another order; in bf16 intermediate roundings may fall the other
            // way.
            const float tolerance = largest * (dtype == "fp32" ? 1e-5f : 3e-2f);
            predictor->reset();
            for (std::size_t t = 0; t < tokens.size(); ++t) {
                const std::span<const float> row = predictor->feed(tokens[t]);
                for (std::size_t v = 0; v < 37; ++v)
                    ASSERT_NEAR(row[v], whole[t * 37 + v], tolerance)
                        << name << " " << dtype << " position " << t;
            }
            EXPECT_EQ(predictor->length(), 20);
        }
    }
}

TEST(Predictor, EvaluateIsTheMeanLossOfTheWindows) {
    const ModelConfig config = testing::all_models()[1].config;
    const auto predictor = make(config, "fp32");
    auto data = testing::cycle_tokens(2000, 37, 4);
    // Three windows in micro-batches of two: the last one is short.
    const double mean = predictor->evaluate(data, Split::kTrain, 3);
    double total = 0;
    std::vector<float> logits(24 * 37);
    for (std::size_t w = 0; w < 3; ++w) {
        const std::span<const std::int32_t> tokens(data.tokens().data() + w * 24, 24);
        predictor->logits(tokens, logits);
        for (std::size_t t = 0; t < 24; ++t) {
            double sum = 0;
            for (std::size_t v = 0; v < 37; ++v)
                sum += std::exp(static_cast<double>(logits[t * 37 + v]));
            const auto target = static_cast<std::size_t>(data.tokens()[w * 24 + t + 1]);
            total += std::log(sum) - static_cast<double>(logits[t * 37 + target]);
        }
    }
    EXPECT_NEAR(mean, total / 72, 1e-5);
}

}  // namespace
}  // namespace isthmus::inner
