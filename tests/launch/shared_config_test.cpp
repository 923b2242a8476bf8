// What must be equal at all sites, and what is a machine's own affair.
#include "launch/shared_config.hpp"

#include <gtest/gtest.h>

#include <map>

namespace isthmus::launch {
namespace {

SharedConfig shared_of(std::vector<std::string> overrides,
                       std::optional<std::uint64_t> fingerprint = 7) {
    overrides.emplace_back("outer.sites=[\"paris\", \"oslo\"]");
    RunConfig config;
    load_config(describe_of(config), "", "test.toml", overrides);
    config.resolve();
    return shared_config(config, fingerprint);
}

TEST(SharedConfig, NamesKeysByTheirSectionAndIsNotEmpty) {
    const SharedConfig shared = shared_of({});
    const std::map<std::string, std::string> map(shared.begin(), shared.end());
    EXPECT_EQ(map.size(), shared.size()) << "a key twice";
    EXPECT_EQ(map.at("outer.codec"), "\"fp32\"");
    EXPECT_EQ(map.at("train.steps"), "1000");
    EXPECT_EQ(map.at("model parameters"),
              std::to_string(inner::make_layout([] {
                                 inner::ModelConfig model;
                                 model.resolve();
                                 return model;
                             }())
                                 .count()));
    EXPECT_EQ(map.at(kDataChecksumKey), "0000000000000007");
}

TEST(SharedConfig, ACoordinatorWithoutDataLeavesTheChecksumOut) {
    for (const auto& [key, value] : shared_of({}, std::nullopt)) EXPECT_NE(key, kDataChecksumKey);
}

class OwnAffair : public testing::TestWithParam<std::string> {};

TEST_P(OwnAffair, IsNotCompared) {
    EXPECT_EQ(shared_of({GetParam()}), shared_of({}));
}

INSTANTIATE_TEST_SUITE_P(
    Keys, OwnAffair,
    testing::Values("data=elsewhere", "run_folder=x", "name=other", "train.threads=3",
                    "train.instruction_set=baseline", "train.eval_every=7", "train.eval_windows=9",
                    "net.coordinator_listen=127.0.0.1:4000", "net.coordinator=[\"127.0.0.1:4000\"]",
                    "net.listen=[\"paris 127.0.0.1:4001\"]", "net.rates=[\"oslo 20mbit\"]",
                    "net.streams=4", "net.window_mb=16", "link.rate=20mbit"));

class Shared : public testing::TestWithParam<std::string> {};

TEST_P(Shared, IsCompared) {
    EXPECT_NE(shared_of({GetParam()}), shared_of({}));
}

INSTANTIATE_TEST_SUITE_P(Keys, Shared,
                         testing::Values("train.steps=999", "train.batch=8", "train.seed=2",
                                         "train.dtype=bf16", "optim.lr=0.001", "model.preset=small",
                                         "outer.codec=int8", "outer.sync_every_steps=10",
                                         "outer.weights=equal", "net.round_budget_s=30"));

}  // namespace
}  // namespace isthmus::launch
