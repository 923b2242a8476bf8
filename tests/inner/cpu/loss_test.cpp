// Cross-entropy and embeddings against their definitions in fp64, on every instruction set, element
// type and thread count.
#include <gtest/gtest.h>

#include "inner/cpu/functions.hpp"
#include "tests/inner/support/cpu_contexts.hpp"
#include "tests/inner/support/guarded.hpp"

namespace isthmus::inner {
namespace {

using namespace test;

constexpr std::uint64_t kSeed = 99;

std::int32_t draw(std::uint64_t counter, std::int64_t limit) {
    return static_cast<std::int32_t>(random_bits(kSeed, counter) %
                                     static_cast<std::uint64_t>(limit));
}

double reference_loss(const double* logits, std::int64_t vocab, std::int32_t target) {
    const double top = *std::max_element(logits, logits + vocab);
    double sum = 0;
    for (std::int64_t i = 0; i < vocab; ++i) sum += std::exp(logits[i] - top);
    return std::log(sum) + top - logits[target];
}
double reference_gradient(const double* logits, std::int64_t vocab, std::int32_t target,
                          std::int64_t at) {
    double sum = 0;
    for (std::int64_t i = 0; i < vocab; ++i) sum += std::exp(logits[i] - logits[at]);
    return 1 / sum - (at == target ? 1 : 0);
}

TEST(CrossEntropyReference, GradientIsThatOfTheLoss) {
    std::vector<double> logits;
    for (std::uint64_t i = 0; i < 13; ++i) logits.push_back(2 * random_normal(kSeed, i));
    for (std::int64_t at = 0; at < 13; ++at) {
        constexpr double kStep = 1e-5;
        auto above = logits, below = logits;
        above[static_cast<std::size_t>(at)] += kStep;
        below[static_cast<std::size_t>(at)] -= kStep;
        EXPECT_NEAR((reference_loss(above.data(), 13, 4) - reference_loss(below.data(), 13, 4)) /
                        (2 * kStep),
                    reference_gradient(logits.data(), 13, 4, at), 1e-9);
    }
}

TEST(CrossEntropy, MatchesTheDefinition) {
    for (const CpuContext& context : cpu_contexts()) {
        for (const DType dtype : {DType::kF32, DType::kBF16}) {
            for (const std::int64_t vocab : {1, 5, 16, 97, 256, 1003}) {
                const std::string what =
                    fmt::format("{}, vocab {}", describe(context, dtype), vocab);
                constexpr std::int64_t kRows = 6;
                Guarded logits(DType::kF32, kRows, vocab, 3), dlogits(dtype, kRows, vocab, 2);
                Guarded loss(DType::kF32, 1, kRows), loss_only(DType::kF32, 1, kRows);
                logits.random(kSeed, 4, 20);
                std::vector<std::int32_t> targets;
                for (std::uint64_t r = 0; r < kRows; ++r) targets.push_back(draw(r, vocab));
                targets[2] = -1;
                const float scale = 0.37f;
                std::vector<double> want_loss, want;
                const auto all = logits.values();
                for (std::int64_t r = 0; r < kRows; ++r) {
                    const std::int32_t target = targets[static_cast<std::size_t>(r)];
                    const double* row = all.data() + r * vocab;
                    want_loss.push_back(target < 0 ? 0 : reference_loss(row, vocab, target));
                    for (std::int64_t i = 0; i < vocab; ++i)
                        want.push_back(
                            target < 0 ? 0 : scale * reference_gradient(row, vocab, target, i));
                }
                CrossEntropyArgs args;
                args.logits = logits.tensor();
                args.targets = targets.data();
                args.gradient_scale = scale;
                args.loss = loss_only.f32();
                cpu::cross_entropy(context, args);
                EXPECT_EQ(logits.values(), all) << what << ": loss alone changed the logits";
                args.loss = loss.f32();
                args.dlogits = dlogits.tensor();
                const Guarded kept = logits;
                cpu::cross_entropy(context, args);
                EXPECT_EQ(loss.values(), loss_only.values()) << what;
                // Logits near 30 have a rounding error of 1e-6 in x - max, which is the
                // exponential's relative error.
                expect_close(loss.values(), want_loss, 1e-6, what + " loss");
                expect_close(dlogits.values(), want,
                             dtype == DType::kF32 ? 2e-6 : 1.1 * rounding(dtype), what);
                loss.expect_guards_intact(what);
                dlogits.expect_guards_intact(what);
                logits.expect_guards_intact(what);
                if (dtype != DType::kF32) continue;
                Guarded in_place = kept;
                args.logits = args.dlogits = in_place.tensor();
                cpu::cross_entropy(context, args);
                EXPECT_EQ(in_place.values(), dlogits.values()) << what << " in place";
            }
        }
    }
}

TEST(CrossEntropy, BadLogitsReachTheLoss) {
    for (const CpuContext& context : cpu_contexts())
        for (const float bad : {NAN, INFINITY})
            for (const std::int64_t where : {0, 8, 18}) {
                Guarded logits(DType::kF32, 1, 19), loss(DType::kF32, 1, 1);
                logits.random(kSeed);
                logits.set(0, where, bad);
                const std::int32_t target = 3;
                CrossEntropyArgs args;
                args.logits = logits.tensor();
                args.targets = &target;
                args.loss = loss.f32();
                cpu::cross_entropy(context, args);
                EXPECT_FALSE(std::isfinite(loss.at(0, 0))) << bad << " at " << where;
            }
}

TEST(CrossEntropy, ExtremeLogitsStayFinite) {
    for (const CpuContext& context : cpu_contexts()) {
        Guarded logits(DType::kF32, 2, 33), loss(DType::kF32, 1, 2), dlogits(DType::kF32, 2, 33);
        logits.fill(-1e4);
        logits.set(0, 5, 1e4);
        logits.set(1, 5, 1e4);
        const std::int32_t targets[] = {5, 6};
        CrossEntropyArgs args{logits.tensor(), targets, 1, loss.f32(), dlogits.tensor()};
        cpu::cross_entropy(context, args);
        EXPECT_EQ(loss.at(0, 0), 0);
        EXPECT_EQ(loss.at(0, 1), 2e4);
        EXPECT_EQ(dlogits.at(0, 5), 0);
        EXPECT_EQ(dlogits.at(1, 5), 1);
        EXPECT_EQ(dlogits.at(1, 6), -1);
        EXPECT_EQ(dlogits.at(1, 7), 0);
    }
}

TEST(Embedding, MatchesTheDefinition) {
    for (const CpuContext& context : cpu_contexts()) {
        for (const std::int64_t cols : {1, 7, 16, 33, 80}) {
            for (const bool with_positions : {false, true}) {
                const std::string what =
                    fmt::format("{}, {} cols, positions {}", describe(context, DType::kF32), cols,
                                with_positions);
                constexpr std::int64_t kRows = 21, kVocab = 5, kSequence = 7, kFirst = 2;
                Guarded table(DType::kF32, kVocab, cols, 3), x(DType::kF32, kRows, cols, 1);
                Guarded positions(DType::kF32, kSequence + kFirst, cols, 2);
                table.random(kSeed);
                positions.random(kSeed + 1);
                std::vector<std::int32_t> ids;
                for (std::uint64_t r = 0; r < kRows; ++r) ids.push_back(draw(r, kVocab));
                Guarded want(DType::kF32, kRows, cols, 1);
                for (std::int64_t r = 0; r < kRows; ++r)
                    for (std::int64_t c = 0; c < cols; ++c) {
                        float sum = float(table.at(ids[static_cast<std::size_t>(r)], c));
                        if (with_positions) sum += float(positions.at(kFirst + r % kSequence, c));
                        want.set(r, c, sum);
                    }
                const Tensor none;
                cpu::embedding(context, ids.data(), table.tensor(),
                               with_positions ? positions.tensor() : none, kSequence, kFirst,
                               x.tensor());
                EXPECT_TRUE(x.same_bits(want)) << what;

                // Backward: exact, since the order of the sums is part of the contract.
                Guarded dx(DType::kF32, kRows, cols, 4), dtable(DType::kF32, kVocab, cols, 5);
                Guarded dpositions(DType::kF32, kSequence, cols, 6);
                dx.random(kSeed + 2);
                dtable.random(kSeed + 3);
                dpositions.random(kSeed + 4);
                Guarded want_table = dtable, want_positions = dpositions;
                for (std::int64_t r = 0; r < kRows; ++r)
                    for (std::int64_t c = 0; c < cols; ++c) {
                        const auto id = ids[static_cast<std::size_t>(r)];
                        want_table.set(id, c, float(want_table.at(id, c)) + float(dx.at(r, c)));
                        if (with_positions)
                            want_positions.set(
                                r % kSequence, c,
                                float(want_positions.at(r % kSequence, c)) + float(dx.at(r, c)));
                    }
                cpu::embedding_backward(context, ids.data(), dx.tensor(), dtable.tensor(),
                                        with_positions ? dpositions.tensor() : none, kSequence);
                EXPECT_TRUE(dtable.same_bits(want_table)) << what;
                EXPECT_TRUE(dpositions.same_bits(want_positions)) << what;
            }
        }
    }
}

TEST(EmbeddingDeathTest, TokensAndTargetsBeyondTheVocabularyAreRefused) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const CpuContext context{&kernels_of(InstructionSet::kBaseline), 1};
    Guarded table(DType::kF32, 3, 4), x(DType::kF32, 1, 4), loss(DType::kF32, 1, 1);
    table.fill(1);
    const std::int32_t three = 3;
    EXPECT_DEATH(cpu::embedding(context, &three, table.tensor(), {}, 1, 0, x.tensor()),
                 "token 3 in row 0, vocabulary 3");
    x.fill(0);
    const std::int32_t four = 4;
    EXPECT_DEATH(cpu::cross_entropy(context, {x.tensor(), &four, 1, loss.f32(), {}}),
                 "target 4 in row 0, vocabulary 4");
}

}  // namespace
}  // namespace isthmus::inner
