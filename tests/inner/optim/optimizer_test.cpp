#include "inner/optim/optimizer.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/random.hpp"
#include "inner/cpu/cpu_ops.hpp"

namespace isthmus::inner {
namespace {

ModelConfig small_model() {
    ModelConfig config;
    config.preset = "custom";
    config.family = "llama";
    config.vocab = 61;
    config.d_model = 48;
    config.num_layers = 2;
    config.num_heads = 2;
    config.num_kv_heads = 1;
    config.ffn_dim = 80;
    config.context = 16;
    config.resolve();
    return config;
}

/// One replica whose ranks share the buffers: rank r updates its pieces of the same units.
struct Replica {
    Replica(const ModelConfig& config, std::int64_t ranks) : layout(make_layout(config)) {
        ops = make_cpu_ops({});
        for (const Unit& unit : layout.units)
            units.emplace_back(unit, DType::kF32, true, *ops, plan);
        std::vector<ShardPlan> shards;
        // A grain below kGrainElements would cut norm blocks; these units are small, so cut by
        // grains of the norm's own size and let some ranks be empty.
        for (const Unit& unit : layout.units)
            shards.push_back(ShardPlan::balanced(unit.count, kGrainElements, ranks));
        for (std::uint32_t r = 0; r < ranks; ++r)
            optimizers.emplace_back(OptimConfig{}, layout, shards, Rank(r), plan);
        plan.assign();
        arena = std::make_unique<Arena>(plan.total_bytes());
        for (UnitBuffers& unit : units) unit.bind(plan, *arena);
        for (Optimizer& optimizer : optimizers) optimizer.bind(plan, *arena);
        for (std::size_t u = 0; u < units.size(); ++u) {
            initialise(layout.units[u], 3, 0, units[u].parameters());
            for (std::size_t i = 0; i < units[u].gradients().size(); ++i)
                units[u].gradients()[i] = static_cast<float>(random_normal(u + 10, i));
            pointers.push_back(&units[u]);
        }
    }
    std::unique_ptr<Ops> ops;
    Layout layout;
    BufferPlan plan;
    std::vector<UnitBuffers> units;
    std::vector<Optimizer> optimizers;
    std::unique_ptr<Arena> arena;
    std::vector<UnitBuffers*> pointers;
};

TEST(Optimizer, UpdateDoesNotDependOnTheNumberOfShards) {
    const ModelConfig config = small_model();
    Replica whole(config, 1);
    for (const std::int64_t ranks : {2, 3, 5}) {
        Replica cut(config, ranks);
        for (Replica* replica : {&whole, &cut})
            for (std::size_t u = 0; u < replica->units.size(); ++u)
                initialise(replica->layout.units[u], 3, 0, replica->units[u].parameters());
        Replica fresh(config, 1);
        fresh.optimizers[0].update(*fresh.ops, {}, fresh.pointers, 1, 1e-2, 0.5);
        for (Optimizer& optimizer : cut.optimizers)
            optimizer.update(*cut.ops, {}, cut.pointers, 1, 1e-2, 0.5);
        for (std::size_t u = 0; u < cut.units.size(); ++u)
            EXPECT_EQ(
                std::memcmp(fresh.units[u].parameters().data(), cut.units[u].parameters().data(),
                            cut.units[u].parameters().size_bytes()),
                0)
                << "unit " << u << ", ranks " << ranks;
    }
}

TEST(Optimizer, NormCountsEveryElementOnceAndFindsWhatIsNotFinite) {
    Replica replica(small_model(), 3);
    double expected = 0;
    for (const UnitBuffers& unit : replica.units)
        for (const float g : unit.gradients()) expected += static_cast<double>(g) * g;
    double total = 0;
    for (Optimizer& optimizer : replica.optimizers)
        total += optimizer.squared_norm(*replica.ops, {}, replica.pointers);
    EXPECT_NEAR(total, expected, 1e-9 * expected);

    replica.units[1].gradients()[5] = std::nanf("");
    EXPECT_TRUE(std::isnan(replica.optimizers[0].squared_norm(*replica.ops, {}, replica.pointers)));
    EXPECT_EQ(replica.optimizers[0].not_finite(), std::vector<std::string>{"block.0"});
}

TEST(Optimizer, DecaysMatricesOnly) {
    Replica replica(small_model(), 1);
    for (UnitBuffers& unit : replica.units)
        std::fill(unit.gradients().begin(), unit.gradients().end(), 0.0f);
    const std::span<float> head = replica.units.back().parameters();
    const float norm_before = head[0], matrix_before = head[48];
    replica.optimizers[0].update(*replica.ops, {}, replica.pointers, 1, 0.5, 1.0);
    EXPECT_EQ(head[0], norm_before);
    EXPECT_NEAR(head[48], matrix_before * (1 - 0.5f * 0.1f), 1e-7);
}

}  // namespace
}  // namespace isthmus::inner
