// Bytes and seconds of a round against figures worked out by hand.
#include "launch/prediction.hpp"

#include <gtest/gtest.h>

namespace isthmus::launch {
namespace {

RunConfig config_of(std::vector<std::string> overrides) {
    RunConfig config;
    load_config(describe_of(config), "", "test.toml", overrides);
    config.resolve();
    return config;
}

constexpr const char* kTwo = "outer.sites=[\"a\", \"b\"]";
constexpr const char* kFour = "outer.sites=[\"a\", \"b\", \"c\", \"d\"]";
/// 300 elements are one whole block of 256 and one of 44.
const std::vector<std::int64_t> kUnits{300, 256};

TEST(Prediction, TwoSitesSwapWhatTheCodecWrites) {
    const auto fp32 = predict_round(config_of({kTwo}), kUnits);
    EXPECT_EQ(fp32.encoded_bytes, 4 * 556);
    EXPECT_EQ(fp32.bytes_sent, 4 * 556);
    EXPECT_EQ(fp32.bytes_received, 4 * 556);
    EXPECT_FALSE(fp32.seconds) << "nothing is known of the link";
    const auto int8 = predict_round(config_of({kTwo, "outer.codec=int8"}), kUnits);
    EXPECT_EQ(int8.encoded_bytes, 556 + 3 * 4);
    EXPECT_EQ(predict_round(config_of({kTwo, "outer.codec=bf16"}), kUnits).encoded_bytes, 2 * 556);
}

TEST(Prediction, FourSitesMoveTwoThreeQuartersOfIt) {
    const auto owners = predict_round(config_of({kFour}), kUnits);
    EXPECT_EQ(owners.bytes_sent, 2 * 3 * 4 * 556 / 4);
    const auto all = predict_round(config_of({kFour, "outer.method=all-gather"}), kUnits);
    EXPECT_EQ(all.bytes_sent, 3 * 4 * 556);
}

TEST(Prediction, AnEmulatedLinkGivesSeconds) {
    const auto p = predict_round(config_of({kTwo, "link.rate=1mbit", "link.latency=50ms"}), kUnits);
    ASSERT_TRUE(p.seconds);
    EXPECT_NEAR(*p.seconds, 8 * 4 * 556 / 1e6 + 6 * 0.05, 1e-9);
}

TEST(Prediction, TheSlowestConfiguredRateCountsWithHeaders) {
    EXPECT_FALSE(predict_round(config_of({kTwo, "net.rates=[\"a 1mbit\"]"}), kUnits).seconds);
    const auto p =
        predict_round(config_of({kTwo, "net.rates=[\"a 1mbit\", \"b 100mbit\"]"}), kUnits);
    ASSERT_TRUE(p.seconds);
    EXPECT_NEAR(*p.seconds, 1.0456 * 8 * 4 * 556 / 1e6, 1e-9);
}

TEST(Prediction, MemoryHoldsOnlyWhatTheOptimizerNeeds) {
    const auto memory = [](std::vector<std::string> more) {
        more.emplace_back(kTwo);
        return outer_memory(config_of(more));
    };
    const auto bytes = [&](std::vector<std::string> more) { return memory(std::move(more)).bytes; };
    const OuterMemory plain = memory({});
    std::int64_t parameters = 0;
    for (std::int64_t n : unit_elements(config_of({kTwo}))) parameters += n;
    EXPECT_EQ(plain.parameters, parameters);
    using Groups = std::vector<std::pair<std::string, std::int64_t>>;
    EXPECT_EQ(plain.groups, (Groups{{"anchor", 4 * parameters},
                                    {"encoded cut", 4 * parameters},
                                    {"staged result", 8 * parameters},
                                    {"last result", 8 * parameters},
                                    {"transfers", 4 * parameters}}))
        << "averaging, fp32, two sites that swap, a model smaller than the window";
    EXPECT_EQ(plain.bytes, 28 * parameters);
    EXPECT_EQ(bytes({"outer.optimizer=nesterov"}) - bytes({}), 4 * parameters);
    EXPECT_EQ(
        bytes({"outer.codec=bf16", "outer.error_feedback=true"}) - bytes({"outer.codec=bf16"}),
        4 * parameters);
    EXPECT_EQ(bytes({"model.context=1024", "model.preset=gpt2"}) -
                  memory({"model.context=1024", "model.preset=gpt2"}).parameters * 24,
              8 << 20)
        << "transfers are bounded whatever the model";
}

}  // namespace
}  // namespace isthmus::launch
