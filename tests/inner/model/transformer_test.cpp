#include "inner/model/transformer.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.hpp"
#include "inner/cpu/cpu_ops.hpp"
#include "tests/inner/support/models.hpp"

namespace isthmus::inner {
namespace {

/// A model with its buffers and nothing around it.
struct Bare {
    Bare(const ModelConfig& config, BatchShape shape)
        : layout(make_layout(config)),
          ops(make_cpu_ops({})),
          model(config, layout, {DType::kF32, shape, true, false}, *ops, plan) {
        plan.assign();
        arena = std::make_unique<Arena>(plan.total_bytes());
        model.bind(plan, *arena);
        for (std::uint32_t u = 0; u < layout.units.size(); ++u) {
            const std::span<float> values = model.unit(UnitId(u)).parameters();
            initialise(layout.units[u], 7, 0, values);
            for (std::size_t i = 0; i < values.size(); ++i)
                values[i] += 0.05f * static_cast<float>(random_normal(u + 1, i));
        }
        model.refresh({});
    }
    std::vector<float> gradients() {
        std::vector<float> all;
        for (std::uint32_t u = 0; u < layout.units.size(); ++u) {
            const auto g = model.unit(UnitId(u)).gradients();
            all.insert(all.end(), g.begin(), g.end());
        }
        return all;
    }
    Layout layout;
    std::unique_ptr<Ops> ops;
    BufferPlan plan;
    Transformer model;
    std::unique_ptr<Arena> arena;
    ResidentUnits resident;
};

std::vector<std::int32_t> random_tokens(std::size_t count, std::uint64_t seed) {
    std::vector<std::int32_t> tokens(count);
    for (std::size_t i = 0; i < count; ++i)
        tokens[i] = static_cast<std::int32_t>(random_bits(seed, i) % 37);
    return tokens;
}

// ACCEPTANCE "Loss": every counted token weighs the same, also in micro-batches with unequal counts
// (100 tokens of mean loss 3 and 200 of 1.5 make 2.0, not 2.25).
TEST(Transformer, UnequalMicroBatchesWeighTheirTokens) {
    for (const auto& [name, config] : testing::all_models()) {
        const auto tokens = random_tokens(48, 1);
        auto targets = random_tokens(48, 2);
        for (std::size_t i = 4; i < 24; ++i) targets[i] = -1;  // 4 counted tokens against 24
        const float scale = 1.0f / 28;

        Bare whole(config, {2, 24});
        const double loss = whole.model.forward_backward(
            {}, {tokens.data(), targets.data(), {2, 24}}, scale, false, whole.resident);
        Bare parts(config, {1, 24});
        const double first = parts.model.forward_backward(
            {}, {tokens.data(), targets.data(), {1, 24}}, scale, false, parts.resident);
        const double second = parts.model.forward_backward(
            {}, {tokens.data() + 24, targets.data() + 24, {1, 24}}, scale, true, parts.resident);
        EXPECT_NEAR((first + second) / 28, loss / 28, 1e-5) << name;
        EXPECT_GT(std::abs((first / 4 + second / 24) / 2 - loss / 28), 1e-4) << name;

        const auto expected = whole.gradients(), sum = parts.gradients();
        float largest = 0;
        for (const float g : expected) largest = std::max(largest, std::abs(g));
        for (std::size_t i = 0; i < sum.size(); ++i)
            ASSERT_NEAR(sum[i], expected[i], 2e-5f * largest) << name << " element " << i;
    }
}

// The hand-derived backward against central differences of the loss, along random directions a
// view.
TEST(Transformer, GradientsAreTheLossesSlope) {
    for (const auto& [name, config] : testing::all_models()) {
        Bare bare(config, {2, 24});
        const auto tokens = random_tokens(48, 3), targets = random_tokens(48, 4);
        const MicroBatch batch{tokens.data(), targets.data(), {2, 24}};
        bare.model.forward_backward({}, batch, 1.0f, false, bare.resident);
        for (std::uint32_t u = 0; u < bare.layout.units.size(); ++u) {
            const UnitBuffers& unit = bare.model.unit(UnitId(u));
            for (const View& view : bare.layout.units[u].views) {
                const auto at = static_cast<std::size_t>(view.offset);
                const auto n = static_cast<std::size_t>(view.count());
                std::vector<float> kept(n), direction(n);
                double slope = 0;
                for (std::size_t i = 0; i < n; ++i) {
                    kept[i] = unit.parameters()[at + i];
                    direction[i] = static_cast<float>(random_normal(99, i));
                    slope += static_cast<double>(direction[i]) * unit.gradients()[at + i];
                }
                const float h = 2e-3f;
                const auto loss_at = [&](float step) {
                    for (std::size_t i = 0; i < n; ++i)
                        unit.parameters()[at + i] = kept[i] + step * direction[i];
                    bare.model.refresh({});
                    return bare.model.loss({}, batch, bare.resident);
                };
                const double difference = (loss_at(h) - loss_at(-h)) / (2.0 * h);
                loss_at(0);
                // fp32 losses of 48 tokens carry about 1e-5, divided by 2h.
                EXPECT_NEAR(slope, difference, 0.02 * std::abs(difference) + 0.02)
                    << name << " " << view.name;
            }
        }
    }
}

}  // namespace
}  // namespace isthmus::inner
