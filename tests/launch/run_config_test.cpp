// Each contradictory pair is refused with both keys in one line; what is good resolves.
#include "launch/run_config.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace isthmus::launch {
namespace {

RunConfig config_of(const std::vector<std::string>& overrides) {
    RunConfig config;
    load_config(describe_of(config), "", "test.toml", overrides);
    config.resolve();
    return config;
}

std::string refusal(const std::vector<std::string>& overrides) {
    try {
        config_of(overrides);
    } catch (const Fatal& error) {
        EXPECT_EQ(error.code(), ExitCode::kUsage) << error.what();
        return error.what();
    }
    return "";
}

constexpr const char* kTwo = "outer.sites=[\"paris\", \"oslo\"]";

struct Bad {
    std::vector<std::string> overrides;
    std::vector<std::string> named;  ///< what the message must contain
};

class Contradiction : public testing::TestWithParam<Bad> {};

TEST_P(Contradiction, IsRefusedWithBothKeysInOneLine) {
    const std::string message = refusal(GetParam().overrides);
    ASSERT_NE(message, "");
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    for (const auto& name : GetParam().named)
        EXPECT_NE(message.find(name), std::string::npos) << name << " in: " << message;
}

INSTANTIATE_TEST_SUITE_P(
    Pairs, Contradiction,
    testing::Values(Bad{{"train.sequence=256"}, {"train.sequence = 256", "model.context = 128"}},
                    Bad{{"train.steps=10", "optim.warmup_steps=11"},
                        {"optim.warmup_steps = 11", "train.steps = 10"}},
                    Bad{{"optim.schedule=wsd"}, {"optim.schedule", "optim.decay_steps"}},
                    Bad{{"optim.decay_steps=10"}, {"optim.decay_steps = 10", "cosine"}},
                    Bad{{"optim.schedule=wsd", "train.steps=100", "optim.warmup_steps=60",
                         "optim.decay_steps=50"},
                        {"optim.warmup_steps + optim.decay_steps = 110", "train.steps = 100"}},
                    Bad{{"train.emulate_bf16=true"}, {"train.emulate_bf16", "fp32"}},
                    Bad{{"train.eval_windows=0"},
                        {"train.eval_windows = 0", "train.eval_every = 200"}},
                    Bad{{kTwo, "train.steps=100", "optim.warmup_steps=0",
                         "outer.sync_every_steps=101"},
                        {"outer.sync_every_steps = 101", "train.steps = 100"}},
                    Bad{{kTwo, "net.round_budget_s=60", "net.join_budget_s=30"},
                        {"net.join_budget_s = 30", "net.round_budget_s = 60"}},
                    Bad{{kTwo, "net.rates=[\"osla 20mbit\"]"}, {"net.rates", "oslo"}},
                    Bad{{kTwo, "net.coordinator_listen=*:7000"},
                        {"net.coordinator_listen", "net.keys"}},
                    Bad{{kTwo, "link.latency=50ms"}, {"link.rate", "latency"}},
                    Bad{{kTwo, "outer.momentum=0.9"}, {"outer.momentum", "averaging"}},
                    Bad{{kTwo, "outer.min_sites=3"}, {"outer.min_sites = 3", "2 sites"}},
                    Bad{{"outer.sites=[\"a\", \"a\"]"}, {"outer.sites", "twice"}},
                    Bad{{"outer.sites=[\"coordinator\", \"a\"]"}, {"outer.sites"}},
                    Bad{{"name=a/b"}, {"a/b"}}, Bad{{"name=.."}, {".."}}));

struct BadKey {
    std::string override_text;
    std::string named;
};

class Key : public testing::TestWithParam<BadKey> {};

TEST_P(Key, IsRefusedByName) {
    const std::string message = refusal({GetParam().override_text});
    EXPECT_NE(message.find(GetParam().named), std::string::npos) << message;
}

INSTANTIATE_TEST_SUITE_P(Keys, Key,
                         testing::Values(BadKey{"train.stesp=5", "train.steps"},
                                         BadKey{"optim.warm_up_steps=5", "optim.warmup_steps"},
                                         BadKey{"train.dtype=fp16", "bf16"},
                                         BadKey{"train.batch=0", "train.batch"},
                                         BadKey{"train.batch=many", "train.batch"},
                                         BadKey{"optim.beta2=1", "optim.beta2"},
                                         BadKey{"optim.schedule=cosin", "cosine"},
                                         BadKey{"outer.sites=2", "outer.sites"}));

TEST(RunConfig, SequenceAndFolderFollowFromModelAndName) {
    const RunConfig config = config_of({"name=first", "train.batch=3", "train.accumulate=2"});
    EXPECT_EQ(config.sequence(), config.model.context);
    EXPECT_EQ(config.folder(), Path("runs/first"));
    EXPECT_EQ(config.tokens_per_step(), 3 * 2 * config.model.context);
}

TEST(RunConfig, AWarmUpAsLongAsTheRunIsAllowed) {
    EXPECT_EQ(refusal({"train.steps=10", "optim.warmup_steps=10"}), "");
}

TEST(RunConfig, DataIsRequiredOnlyByWhoTrains) {
    EXPECT_THROW(config_of({}).require_data(), Fatal);
    EXPECT_NO_THROW(config_of({"data=d"}).require_data());
}

TEST(RunConfig, FewerThanTwoSitesTrainAlone) {
    EXPECT_FALSE(config_of({}).several_sites());
    EXPECT_FALSE(config_of({"outer.sites=[\"paris\"]"}).several_sites());
    EXPECT_TRUE(config_of({kTwo}).several_sites());
}

TEST(RunConfig, TheRunsNumberFollowsNameAndCoordinatorKeyUnlessGiven) {
    const auto number = [](const std::vector<std::string>& overrides) {
        return config_of(overrides).run_number();
    };
    EXPECT_EQ(number({"name=a"}), number({"name=a", "run_folder=elsewhere", "train.steps=500"}));
    EXPECT_NE(number({"name=a"}), number({"name=b"}));
    EXPECT_EQ(number({"name=a", "run_id=one"}), number({"name=b", "run_id=one"}));
    EXPECT_NE(number({"run_id=one"}), number({"run_id=two"}));
}

TEST(RunConfig, MeetingsEndWithTheRun) {
    EXPECT_EQ(config_of({kTwo, "train.steps=100", "outer.sync_every_steps=40"}).meetings(),
              (std::vector<std::int64_t>{40, 80, 100}));
}

// The file in a run's folder starts the same run again.
TEST(RunConfig, AResolvedConfigReadsBackEqual) {
    RunConfig config =
        config_of({"name=x", "model.preset=small", "train.seed=7", "optim.lr=0.00123", kTwo,
                   "outer.optimizer=nesterov", "net.rates=[\"paris 25mbit\"]", "link.rate=20mbit"});
    const std::string text = dump_config(describe_of(config), true);
    RunConfig again;
    load_config(describe_of(again), text, "config.toml");
    again.resolve();
    EXPECT_EQ(dump_config(describe_of(again), true), text);
}

}  // namespace
}  // namespace isthmus::launch
