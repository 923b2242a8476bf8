#include "launch/progress.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace isthmus::launch {
namespace {

TEST(ProgressLine, SaysEverything) {
    const ProgressView view{.step = 120,
                            .steps = 1000,
                            .loss = 2.34561,
                            .learning_rate = 0.0019,
                            .tokens_per_s = 12345.4,
                            .gemm_share = 0.614,
                            .seconds_left = 92};
    EXPECT_EQ(progress_line(view),
              "step 120/1000  loss 2.3456  lr 1.90e-03  12,345 tokens/s  61 % of GEMM rate  ETA 1 "
              "min 32 s");
}

TEST(ProgressLine, LeavesOutWhatIsNotKnown) {
    EXPECT_EQ(progress_line({.step = 1, .steps = 2, .loss = 1, .learning_rate = 1e-3}),
              "step 1/2  loss 1.0000  lr 1.00e-03  0 tokens/s");
}

TEST(HumanDuration, TwoUnitsAtMost) {
    EXPECT_EQ(human_duration(0.4), "0 s");
    EXPECT_EQ(human_duration(59.4), "59 s");
    EXPECT_EQ(human_duration(59.6), "1 min 0 s");
    EXPECT_EQ(human_duration(7500), "2 h 5 min");
    EXPECT_EQ(human_duration(273600), "3 d 4 h");
    EXPECT_EQ(human_duration(std::nan("")), "?");
}

TEST(WithCommas, GroupsByThree) {
    EXPECT_EQ(with_commas(0), "0");
    EXPECT_EQ(with_commas(999), "999");
    EXPECT_EQ(with_commas(1000), "1,000");
    EXPECT_EQ(with_commas(1234567), "1,234,567");
    EXPECT_EQ(with_commas(-123456), "-123,456");
}

struct Seen {
    std::vector<std::string> plain, redrawn;
    Progress::Options options(bool terminal) {
        return {.steps = 100,
                .gemm_flop_per_step = 1e9,
                .gemm_rate = 1e10,
                .terminal = terminal,
                .plain = [this](const std::string& line) { plain.push_back(line); },
                .redraw = [this](const std::string& line) { redrawn.push_back(line); }};
    }
};

inner::StepReport report(std::int64_t step) {
    return {.step = step, .loss = 2, .gradient_norm = 1, .learning_rate = 1e-3, .tokens = 2048};
}

TEST(Progress, PlainLinesComeEveryFewSecondsAndAtTheEnd) {
    Seen seen;
    Progress progress(seen.options(false));
    for (int i = 1; i <= 100; ++i) progress.step(report(i), i * 0.25, 0.25);  // 25 s
    EXPECT_EQ(seen.plain.size(), 1u + 4u);  // the first step, then at 5.25 s, 10.25 s, ...
    progress.last();
    EXPECT_EQ(seen.plain.size(), 6u);
    EXPECT_NE(seen.plain.back().find("step 100/100"), std::string::npos);
    EXPECT_NE(seen.plain.back().find("8,192 tokens/s"), std::string::npos) << seen.plain.back();
    EXPECT_NE(seen.plain.back().find("40 % of GEMM rate"), std::string::npos) << seen.plain.back();
    EXPECT_NE(seen.plain.back().find("ETA 0 s"), std::string::npos);
    progress.last();
    EXPECT_EQ(seen.plain.size(), 6u);
    EXPECT_TRUE(seen.redrawn.empty());
}

TEST(Progress, ATerminalIsRedrawnAndCleared) {
    Seen seen;
    Progress progress(seen.options(true));
    progress.clear();
    EXPECT_TRUE(seen.redrawn.empty()) << "nothing was drawn that could be cleared";
    progress.step(report(1), 1.0, 1.0);
    progress.step(report(2), 1.1, 0.1);
    EXPECT_EQ(seen.redrawn.size(), 1u);
    progress.clear();
    EXPECT_EQ(seen.redrawn.back(), "");
    EXPECT_TRUE(seen.plain.empty());
    progress.last();
    ASSERT_EQ(seen.plain.size(), 1u) << "the last line stays";
    EXPECT_TRUE(seen.plain.back().starts_with("step 2/100")) << seen.plain.back();
}

TEST(Progress, ASlowFirstStepDoesNotLinger) {
    Seen seen;
    Progress progress(seen.options(false));
    progress.step(report(1), 10.0, 10.0);
    for (int i = 2; i <= 50; ++i) progress.step(report(i), 10.0 + i, 1.0);
    EXPECT_NEAR(progress.smoothed_step_seconds(), 1.0, 1e-9);
}

}  // namespace
}  // namespace isthmus::launch
