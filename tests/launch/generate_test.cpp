// Generation over a predictor that records what it was fed: prompt, sliding window, stopping.
#include "launch/generate.hpp"

#include <gtest/gtest.h>

#include <array>

#include "base/error.hpp"

namespace isthmus::launch {
namespace {

constexpr std::int64_t kVocab = 10;
constexpr std::int64_t kContext = 8;

/// Its likeliest next token is always the last one plus 1, modulo the vocabulary.
class CountingPredictor final : public inner::Predictor {
  public:
    std::vector<std::vector<std::int32_t>> sequences;  ///< one for each reset

    const inner::Layout& layout() const override { return layout_; }
    std::span<float> parameters(UnitId) override { return {}; }
    void parameters_changed() override {}
    double evaluate(inner::TokenFile&, inner::Split, std::int64_t) override { return 0; }
    void logits(std::span<const std::int32_t>, std::span<float>) override {}
    void reset() override { sequences.emplace_back(); }
    std::int64_t length() const override {
        return static_cast<std::int64_t>(sequences.back().size());
    }
    std::span<const float> feed(std::int32_t token) override {
        EXPECT_LT(length(), kContext) << "the context is full";
        sequences.back().push_back(token);
        logits_.fill(0);
        logits_[static_cast<std::size_t>((token + 1) % kVocab)] = 5;
        return logits_;
    }

  private:
    inner::Layout layout_;
    std::array<float, kVocab> logits_{};
};

struct Drawn {
    CountingPredictor predictor;
    std::vector<std::int32_t> tokens;
    std::int64_t run(std::vector<std::int32_t> prompt, std::int64_t count,
                     inner::SamplingConfig sampling = {.temperature = 0},
                     std::int64_t stop_after = 1000) {
        const GenerateSettings settings{std::move(prompt), count, kContext, sampling};
        return generate(
            predictor, settings, [&](std::int32_t t) { tokens.push_back(t); },
            [&] { return static_cast<std::int64_t>(tokens.size()) >= stop_after; });
    }
};

TEST(Generate, GreedyFollowsTheLikeliest) {
    Drawn drawn;
    EXPECT_EQ(drawn.run({3}, 4), 4);
    EXPECT_EQ(drawn.tokens, (std::vector<std::int32_t>{4, 5, 6, 7}));
    EXPECT_EQ(drawn.predictor.sequences.size(), 1u);
}

TEST(Generate, SlidesByHalfTheContextWhenItIsFull) {
    Drawn drawn;
    drawn.run({0}, 12);
    std::vector<std::int32_t> expected;
    for (int i = 1; i <= 12; ++i) expected.push_back(i % 10);
    EXPECT_EQ(drawn.tokens, expected);
    ASSERT_EQ(drawn.predictor.sequences.size(), 2u);
    EXPECT_EQ(drawn.predictor.sequences[0], (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7}));
    EXPECT_EQ(drawn.predictor.sequences[1], (std::vector<std::int32_t>{5, 6, 7, 8, 9, 0, 1}))
        << "the last half (5, 6, 7 and the token just drawn, 8), then what follows";
}

TEST(Generate, APromptThatFillsTheContextIsFedWhole) {
    Drawn drawn;
    drawn.run({0, 1, 2, 3, 4, 5, 6, 7}, 1);
    EXPECT_EQ(drawn.predictor.sequences.back().size(), 8u);
    EXPECT_EQ(drawn.tokens, std::vector<std::int32_t>{8});
}

TEST(Generate, ALongerPromptStartsWithItsLastHalfContext) {
    Drawn drawn;
    drawn.run({9, 8, 0, 1, 2, 3, 4, 5, 6}, 1);
    EXPECT_EQ(drawn.predictor.sequences.back(), (std::vector<std::int32_t>{3, 4, 5, 6}));
}

TEST(Generate, SameSeedSameTokens) {
    const inner::SamplingConfig hot{.temperature = 5, .seed = 7};
    Drawn a, b, c;
    a.run({0}, 50, hot);
    b.run({0}, 50, hot);
    c.run({0}, 50, {.temperature = 5, .seed = 8});
    EXPECT_EQ(a.tokens, b.tokens);
    EXPECT_NE(a.tokens, c.tokens);
}

TEST(Generate, StopsWhenTold) {
    Drawn drawn;
    EXPECT_EQ(drawn.run({0}, 100, {.temperature = 0}, 5), 5);
}

TEST(ParseIds, ReadsNumbersAndRefusesTheRest) {
    EXPECT_EQ(parse_ids("1,2, 3", 10, "--ids"), (std::vector<std::int32_t>{1, 2, 3}));
    for (const char* bad : {"", " , ", "1,x", "1.5", "10", "-1", "99999999999"}) {
        try {
            parse_ids(bad, 10, "--ids");
            ADD_FAILURE() << bad << " was taken";
        } catch (const Fatal& error) {
            EXPECT_EQ(error.code(), ExitCode::kUsage);
            EXPECT_TRUE(std::string(error.what()).starts_with("--ids: ")) << error.what();
        }
    }
}

TEST(ByteTokens, AreUnsigned) {
    EXPECT_EQ(byte_tokens("a\xc3\xa9"), (std::vector<std::int32_t>{97, 195, 169}));
}

}  // namespace
}  // namespace isthmus::launch
