// AdamW and sums of squares against their definitions in fp64, on every instruction set and thread
// count.
#include <gtest/gtest.h>

#include "inner/cpu/functions.hpp"
#include "tests/inner/support/cpu_contexts.hpp"
#include "tests/inner/support/guarded.hpp"

namespace isthmus::inner {
namespace {

using namespace test;

constexpr std::uint64_t kSeed = 123;

struct State {
    Guarded p, g, m, v, copy;
    explicit State(std::int64_t n)
        : p(DType::kF32, 1, n),
          g(DType::kF32, 1, n),
          m(DType::kF32, 1, n),
          v(DType::kF32, 1, n),
          copy(DType::kBF16, 1, n) {
        p.random(kSeed);
        g.random(kSeed + 1, 3);
        m.random(kSeed + 2, 0.1);
        v.random(kSeed + 3, 0.1);
        for (std::int64_t i = 0; i < n; ++i) v.set(0, i, std::abs(v.at(0, i)));
    }
    AdamWArgs args(int step, float decay) {
        AdamWArgs a;
        a.count = p.cols();
        a.parameters = p.f32();
        a.gradients = g.f32();
        a.first_moment = m.f32();
        a.second_moment = v.f32();
        a.copy = copy.tensor().b16();
        a.gradient_scale = 0.25f;
        a.learning_rate = 3e-2f;
        a.beta1 = 0.9f;
        a.beta2 = 0.95f;
        a.eps = 1e-8f;
        a.weight_decay = decay;
        a.correction1 = float(1 - std::pow(0.9, step));
        a.correction2 = float(1 - std::pow(0.95, step));
        return a;
    }
};

TEST(AdamW, MatchesTheDefinition) {
    for (const CpuContext& context : cpu_contexts()) {
        for (const std::int64_t n : {1, 5, 16, 1003, 9001}) {
            for (const float decay : {0.0f, 0.1f}) {
                const std::string what =
                    fmt::format("{}, {} elements", describe(context, DType::kF32), n);
                State s(n);
                for (int step = 1; step <= 3; ++step) {
                    const AdamWArgs a = s.args(step, decay);
                    std::vector<double> p, m, v;
                    for (std::int64_t i = 0; i < n; ++i) {
                        const double g = s.g.at(0, i) * a.gradient_scale;
                        m.push_back(a.beta1 * s.m.at(0, i) + (1.0 - a.beta1) * g);
                        v.push_back(a.beta2 * s.v.at(0, i) + (1.0 - a.beta2) * g * g);
                        p.push_back(s.p.at(0, i) * (1.0 - double(a.learning_rate) * decay) -
                                    a.learning_rate * (m.back() / a.correction1) /
                                        (std::sqrt(v.back() / a.correction2) + a.eps));
                    }
                    cpu::adamw(context, a);
                    // A few roundings each of numbers about as large as the largest result.
                    expect_close(s.m.values(), m, 3e-7, what + " m");
                    expect_close(s.v.values(), v, 3e-7, what + " v");
                    expect_close(s.p.values(), p, 3e-7, what + " p");
                    for (std::int64_t i = 0; i < n; ++i)
                        ASSERT_EQ(s.copy.at(0, i), to_float(to_bf16(float(s.p.at(0, i))))) << what;
                }
                for (const Guarded* buffer : {&s.p, &s.g, &s.m, &s.v, &s.copy})
                    buffer->expect_guards_intact(what);
            }
        }
    }
}

TEST(AdamW, BitsDoNotDependOnThreadsNorOnHowTheBufferIsCut) {
    for (const InstructionSet set : available_instruction_sets()) {
        State whole(20011);
        cpu::adamw({&kernels_of(set), 1}, whole.args(1, 0.1f));
        State threaded(20011);
        cpu::adamw({&kernels_of(set), 3}, threaded.args(1, 0.1f));
        State pieces(20011);
        for (std::int64_t at = 0, n = 1; at < 20011; at += n, n = std::min(2 * n + 1, 20011 - at)) {
            AdamWArgs a = pieces.args(1, 0.1f);
            a.count = n;
            a.parameters += at;
            a.gradients += at;
            a.first_moment += at;
            a.second_moment += at;
            a.copy += at;
            cpu::adamw({&kernels_of(set), 1}, a);
        }
        for (const State* other : {&threaded, &pieces}) {
            EXPECT_TRUE(whole.p.same_bits(other->p)) << to_string(set);
            EXPECT_TRUE(whole.m.same_bits(other->m)) << to_string(set);
            EXPECT_TRUE(whole.v.same_bits(other->v)) << to_string(set);
            EXPECT_TRUE(whole.copy.same_bits(other->copy)) << to_string(set);
        }
    }
}

TEST(AdamW, WithoutDecayOrGradientNothingMoves) {
    for (const CpuContext& context : cpu_contexts()) {
        State s(37);
        s.g.fill(0);
        s.m.fill(0);
        s.v.fill(0);
        const auto before = s.p.values();
        AdamWArgs a = s.args(1, 0);
        a.copy = nullptr;
        cpu::adamw(context, a);
        EXPECT_EQ(s.p.values(), before);
        EXPECT_TRUE(std::isnan(s.copy.at(0, 0))) << "the copy was written though none was wanted";
    }
}

TEST(BlockSumSquares, IsTheFp64SumWithTheSameBitsOnEveryInstructionSet) {
    for (const std::int64_t n : {1, 15, 16, 17, 1000, 4096, 10007}) {
        for (const std::int64_t block : {1, 16, 1000, 4096}) {
            Guarded x(DType::kF32, 1, n);
            x.random(kSeed, 100);
            const auto blocks = static_cast<std::size_t>((n + block - 1) / block);
            std::vector<double> first;
            for (const CpuContext& context : cpu_contexts()) {
                std::vector<double> out(blocks + 1, -1);
                cpu::block_sum_squares(context, {x.f32(), static_cast<std::size_t>(n)}, block,
                                       out.data());
                EXPECT_EQ(out.back(), -1);
                for (std::size_t b = 0; b < blocks; ++b) {
                    long double want = 0;
                    for (std::int64_t i = static_cast<std::int64_t>(b) * block;
                         i < std::min(n, (static_cast<std::int64_t>(b) + 1) * block); ++i)
                        want += static_cast<long double>(x.at(0, i)) * x.at(0, i);
                    // Up to 4096 / 16 + 4 roundings of 1.1e-16 in a chain.
                    EXPECT_NEAR(out[b], double(want), double(want) * 1e-14);
                }
                if (first.empty()) first = out;
                EXPECT_EQ(out, first) << describe(context, DType::kF32);
            }
        }
    }
}

TEST(BlockSumSquares, NaNAndInfinityAreSeenInTheirBlockAlone) {
    for (const CpuContext& context : cpu_contexts()) {
        Guarded x(DType::kF32, 1, 100);
        x.random(kSeed);
        x.set(0, 35, NAN);
        x.set(0, 99, INFINITY);
        double out[4];
        cpu::block_sum_squares(context, {x.f32(), 100}, 30, out);
        EXPECT_TRUE(std::isfinite(out[0]) && std::isnan(out[1]) && std::isfinite(out[2]) &&
                    std::isinf(out[3]));
        // Squares beyond fp32 are finite in fp64.
        x.fill(1e30);
        cpu::block_sum_squares(context, {x.f32(), 100}, 100, out);
        EXPECT_NEAR(out[0], 1e62, 1e56);
    }
}

}  // namespace
}  // namespace isthmus::inner
