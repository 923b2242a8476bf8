#include <gtest/gtest.h>

#include "base/error.hpp"
#include "inner/trainer.hpp"

namespace isthmus::inner {
namespace {

std::string refusal(TrainConfig config, std::int64_t replicas) {
    try {
        config.resolve_batch(replicas);
    } catch (const Fatal& error) {
        EXPECT_EQ(error.code(), ExitCode::kUsage);
        return error.what();
    }
    return "";
}

// ACCEPTANCE "global batch": B 256, b 32: N 1 → A 8, N 4 → A 2.
TEST(TrainConfig, GlobalBatchDecidesAccumulation) {
    TrainConfig config;
    config.batch = 32;
    config.global_batch = 256;
    TrainConfig four = config;
    config.resolve_batch(1);
    four.resolve_batch(4);
    EXPECT_EQ(config.accumulate, 8);
    EXPECT_EQ(four.accumulate, 2);
    config.resolve_batch(1);  // a resolved configuration resolves to itself
    EXPECT_EQ(config.accumulate, 8);
}

TEST(TrainConfig, ABatchThatDoesNotDivideNamesTheNumbers) {
    TrainConfig config;
    config.batch = 32;
    config.global_batch = 250;
    EXPECT_EQ(refusal(config, 4),
              "train.global_batch = 250 is not a multiple of train.batch x sites = 32 x 4 = 128: "
              "the nearest that are: 128 and 256");
    config.global_batch = 256;
    config.accumulate = 3;
    EXPECT_NE(refusal(config, 4).find("train.accumulate = 3 contradicts train.global_batch = 256"),
              std::string::npos);
}

}  // namespace
}  // namespace isthmus::inner
