#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "inner/optim/config.hpp"

namespace isthmus::inner {
namespace {

OptimConfig with_schedule(const std::string& schedule) {
    OptimConfig config;
    config.lr = 2.0;
    config.warmup_steps = 10;
    config.final_lr_fraction = 0.1;
    config.schedule = schedule;
    return config;
}

TEST(Schedule, WarmUpRisesLinearlyInEverySchedule) {
    for (const char* name : {"constant", "linear", "cosine", "wsd"}) {
        const OptimConfig config = with_schedule(name);
        EXPECT_DOUBLE_EQ(learning_rate(config, 0, 100), 0.2) << name;
        EXPECT_DOUBLE_EQ(learning_rate(config, 9, 100), 2.0) << name;
    }
}

TEST(Schedule, CosineIsThePeersFormula) {
    const OptimConfig config = with_schedule("cosine");
    for (std::int64_t step = 10; step < 100; ++step) {
        const double expected =
            2.0 *
            (0.1 + 0.45 * (1 + std::cos(std::numbers::pi * static_cast<double>(step - 10) / 90)));
        EXPECT_NEAR(learning_rate(config, step, 100), expected, 1e-12) << step;
    }
}

TEST(Schedule, LinearEndsAtTheFinalFraction) {
    const OptimConfig config = with_schedule("linear");
    EXPECT_NEAR(learning_rate(config, 55, 100), 1.1, 1e-12);
    EXPECT_NEAR(learning_rate(config, 100, 100), 0.2, 1e-12);
    EXPECT_NEAR(learning_rate(config, 500, 100), 0.2, 1e-12);
}

TEST(Schedule, WsdIsStableThenDecays) {
    OptimConfig config = with_schedule("wsd");
    config.decay_steps = 20;
    EXPECT_DOUBLE_EQ(learning_rate(config, 79, 100), 2.0);
    EXPECT_NEAR(learning_rate(config, 90, 100), 1.1, 1e-12);
    EXPECT_NEAR(learning_rate(config, 100, 100), 0.2, 1e-12);
}

}  // namespace
}  // namespace isthmus::inner
