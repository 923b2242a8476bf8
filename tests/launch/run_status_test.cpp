// What status.json says, how it is shown, and when it is stale.
#include "launch/run_status.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "launch/coordinate.hpp"

namespace isthmus::launch {
namespace {

using Json = nlohmann::ordered_json;
using namespace std::chrono_literals;

class RunStatus : public testing::Test {
  protected:
    void SetUp() override {
        load_config(describe_of(config_), "", "test.toml",
                    {"name=run", "outer.sites=[\"paris\", \"oslo\"]", "outer.codec=int8"});
        config_.resolve();
        state_.options = coordinator_options(config_);
        for (const char* name : {"paris", "oslo"}) {
            outer::CoordinatorState::Site site;
            site.name = name;
            state_.sites.push_back(site);
        }
        auto& paris = state_.sites[0];
        paris.standing = outer::CoordinatorState::Standing::kMember;
        paris.incarnation.number = 1;
        paris.heard = now_ - 2s;
        paris.step = 120;
        paris.figures = {.tokens_per_s = 12345,
                         .loss = 2.5,
                         .train_s = 9,
                         .wait_s = 0.5,
                         .exchange_s = 0.4,
                         .apply_s = 0.1,
                         .bytes_sent = 1'500'000,
                         .bytes_received = 1'500'000};
        state_.started = true;
        state_.newest.round = Round(4);
        state_.meeting = Meeting(4);
    }
    std::string text() {
        return status_json(config_, predict_round(config_, {1'000'000}), state_, now_);
    }
    Json status() { return Json::parse(text()); }
    static StatusView view(const Json& json, double unix_s) {
        const auto view = view_status(json.dump(), unix_s);
        EXPECT_TRUE(view) << view.error().message;
        return *view;
    }

    RunConfig config_;
    outer::CoordinatorState state_;
    outer::TimePoint now_ = outer::TimePoint(100s);
};

TEST_F(RunStatus, HasSitesRoundLossAndPrediction) {
    const Json json = status();
    EXPECT_EQ(json["run"], "run");
    EXPECT_EQ(json["round"], 4);
    EXPECT_EQ(json["meetings"], 10);
    EXPECT_EQ(json["phase"], "training");
    EXPECT_DOUBLE_EQ(json["loss"].get<double>(), 2.5) << "of members only";
    EXPECT_EQ(json["predicted"]["bytes_sent"], 1'000'000 + 4 * 3907);
    const Json& paris = json["sites"][0];
    EXPECT_EQ(paris["state"], "member");
    EXPECT_DOUBLE_EQ(paris["last_seen_s"].get<double>(), 2.0);
    EXPECT_DOUBLE_EQ(paris["utilisation"].get<double>(), 0.9);
    EXPECT_TRUE(json["sites"][1]["last_seen_s"].is_null());
    EXPECT_TRUE(json["sites"][1]["utilisation"].is_null());
}

TEST_F(RunStatus, TheTableShowsMeasuredAbovePredicted) {
    const std::string table = view(status(), unix_seconds()).table;
    for (const char* part :
         {"paris", "12,345", "1.50 MB", "90.0 %", "never", "predicted", "1.02 MB", "round 4"})
        EXPECT_NE(table.find(part), std::string::npos) << part << " in:\n" << table;
}

TEST_F(RunStatus, BeforeTheFirstRoundItIsStarting) {
    state_.started = false;
    EXPECT_EQ(status()["phase"], "starting");
}

TEST_F(RunStatus, IsStaleWhenOldOrWhenItsWriterIsGone) {
    Json json = status();
    const double written = json["unix_s"];
    EXPECT_EQ(view(json, written + 1).stale, "");
    EXPECT_NE(view(json, written + 60).stale.find("written nothing for 60 s"), std::string::npos);
    const pid_t child = ::fork();
    if (child == 0) ::_exit(0);
    ::waitpid(child, nullptr, 0);
    json["pid"] = child;
    EXPECT_NE(view(json, written + 1).stale.find("gone"), std::string::npos);
    json["phase"] = "ended";
    EXPECT_EQ(view(json, written + 60).stale, "");
}

TEST_F(RunStatus, WhatIsNoneIsRefused) {
    for (const char* text : {"", "[]", "{}", "{\"phase\":3}"})
        EXPECT_FALSE(view_status(text, 0)) << text;
}

}  // namespace
}  // namespace isthmus::launch
