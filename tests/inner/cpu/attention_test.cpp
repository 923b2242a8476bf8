// Attention against its definition in fp64, on every instruction set, element type and thread
// count.
#include <algorithm>

#include "inner/cpu/functions.hpp"
#include "tests/inner/support/attention_reference.hpp"
#include "tests/inner/support/cpu_contexts.hpp"
#include "tests/inner/support/guarded.hpp"

namespace isthmus::inner {
namespace {

using namespace test;

constexpr std::uint64_t kSeed = 20260101;

struct Case {
    const char* what;
    AttentionShape shape;
};

AttentionShape shape(std::int64_t batch, std::int64_t sequence, std::int64_t heads,
                     std::int64_t kv_heads, std::int64_t head_dim, std::int64_t window = 0) {
    return {batch, sequence, heads, kv_heads, head_dim, window, 1 / std::sqrt(double(head_dim))};
}

std::vector<Case> cases() {
    return {{"one token", shape(2, 1, 2, 1, 8)},
            {"one block", shape(1, 32, 2, 2, 32)},
            {"benchmark", shape(2, 64, 2, 2, 64)},
            {"ragged everything", shape(2, 75, 3, 1, 20)},
            {"odd head dim", shape(1, 37, 2, 2, 13)},
            {"head dim 1", shape(1, 9, 1, 1, 1)},
            {"grouped queries", shape(1, 130, 6, 2, 16)},
            {"two segments", shape(1, 300, 2, 1, 8)},
            {"wide head", shape(1, 40, 1, 1, 256)},
            {"window 1", shape(1, 70, 2, 1, 16, 1)},
            {"window 7", shape(1, 101, 2, 1, 12, 7)},
            {"window of a key block", shape(1, 200, 1, 1, 16, 64)},
            {"window over segments", shape(1, 530, 2, 1, 8, 100)},
            {"window wider than the text", shape(1, 50, 1, 1, 16, 1000)}};
}

/// One run of both passes in guarded buffers.
struct BothPasses {
    Guarded qkv, out, dout, dqkv, lse;
    std::vector<std::byte> workspace;

    BothPasses(const CpuContext& context, const AttentionShape& s, DType dtype, double spread = 1)
        : qkv(dtype, s.batch * s.sequence, s.row(), 3),
          out(dtype, s.batch * s.sequence, s.out_row(), 5),
          dout(dtype, s.batch * s.sequence, s.out_row(), 1),
          dqkv(dtype, s.batch * s.sequence, s.row(), 7),
          lse(DType::kF32, 1, s.batch * s.heads * s.sequence) {
        qkv.random(kSeed, spread);
        dout.random(kSeed + 1);
        AttentionArgs a = {s.batch,      s.sequence,     s.heads,  s.kv_heads,
                           s.head_dim,   float(s.scale), s.window, qkv.tensor(),
                           out.tensor(), lse.f32(),      nullptr};
        // Scratch full of NaN: nothing may be read from it that was not written first.
        workspace.assign(static_cast<std::size_t>(cpu::attention_workspace_bytes(context, a)),
                         std::byte{0xff});
        workspace.resize(workspace.size() + 64, std::byte{0x5a});
        a.workspace = workspace.data();
        cpu::attention(context, a);
        std::fill(workspace.begin(), workspace.end() - 64, std::byte{0xff});
        cpu::attention_backward(context, {a, dout.tensor(), dqkv.tensor()});
    }
    void expect_intact(const std::string& what) const {
        qkv.expect_guards_intact(what + " qkv");
        out.expect_guards_intact(what + " out");
        dout.expect_guards_intact(what + " dout");
        dqkv.expect_guards_intact(what + " dqkv");
        lse.expect_guards_intact(what + " lse");
        EXPECT_TRUE(std::all_of(workspace.end() - 64, workspace.end(),
                                [](std::byte x) { return x == std::byte{0x5a}; }))
            << what << ": wrote beyond the workspace";
    }
};

TEST(Attention, MatchesTheDefinition) {
    RecordProperty("seed", std::to_string(kSeed));
    for (const Case& c : cases()) {
        for (const DType dtype : {DType::kF32, DType::kBF16}) {
            std::vector<double> out, lse, dqkv;
            for (const CpuContext& context : cpu_contexts()) {
                const std::string what =
                    fmt::format("{}, {}, seed {}", c.what, describe(context, dtype), kSeed);
                BothPasses run(context, c.shape, dtype);
                if (out.empty()) {
                    reference_attention(c.shape, run.qkv.values(), out, lse);
                    dqkv =
                        reference_attention_backward(c.shape, run.qkv.values(), run.dout.values());
                }
                // fp32: sums of up to 530 terms of size 1 with rounding 6e-8 each, and exponents up
                // to about 8 whose rounding becomes relative error. bf16: the stored outputs are
                // rounded; delta, a difference of nearly equal numbers, is taken from a rounded
                // out.
                const bool wide = dtype == DType::kF32;
                expect_close(run.out.values(), out, wide ? 3e-6 : 1.01 * rounding(dtype),
                             what + " out");
                expect_close(run.lse.values(), lse, 1e-6, what + " lse");
                expect_close(run.dqkv.values(), dqkv, wide ? 3e-6 : 8 * rounding(dtype),
                             what + " dqkv");
                run.expect_intact(what);
            }
        }
    }
}

TEST(Attention, LargeScoresStayFinite) {
    // Scores in the hundreds: the softmax is nearly one-hot and exponentials underflow.
    const AttentionShape s = shape(1, 90, 2, 1, 32);
    for (const CpuContext& context : cpu_contexts()) {
        BothPasses run(context, s, DType::kF32, 8);
        std::vector<double> out, lse;
        reference_attention(s, run.qkv.values(), out, lse);
        // A score of 500 has a rounding error of 500 * 2^-23, which is its exponential's relative
        // error.
        expect_close(run.out.values(), out, 3e-4, describe(context, DType::kF32) + " out");
        expect_close(run.dqkv.values(),
                     reference_attention_backward(s, run.qkv.values(), run.dout.values()), 1e-3,
                     describe(context, DType::kF32) + " dqkv");
    }
}

TEST(Attention, BitsDoNotDependOnRunsOrThreads) {
    const AttentionShape s = shape(2, 300, 4, 2, 32, 90);
    for (const InstructionSet set : available_instruction_sets()) {
        for (const DType dtype : {DType::kF32, DType::kBF16}) {
            const BothPasses one({&kernels_of(set), 1}, s, dtype);
            for (const int threads : {1, 2, 3}) {
                const BothPasses other({&kernels_of(set), threads}, s, dtype);
                EXPECT_TRUE(one.out.same_bits(other.out)) << to_string(set) << threads;
                EXPECT_TRUE(one.dqkv.same_bits(other.dqkv)) << to_string(set) << threads;
                EXPECT_TRUE(one.lse.same_bits(other.lse)) << to_string(set) << threads;
            }
        }
    }
}

TEST(Attention, NoLogSumExpIsWrittenWhenNoneIsWanted) {
    const AttentionShape s = shape(1, 40, 2, 1, 16);
    const CpuContext context = cpu_contexts().back();
    const BothPasses with(context, s, DType::kF32);
    Guarded qkv(DType::kF32, 40, s.row(), 3), out(DType::kF32, 40, s.out_row(), 5);
    qkv.random(kSeed);
    std::vector<std::byte> workspace(with.workspace.size());
    const AttentionArgs a = {
        1, 40, 2, 1, 16, float(s.scale), 0, qkv.tensor(), out.tensor(), nullptr, workspace.data()};
    cpu::attention(context, a);
    EXPECT_TRUE(out.same_bits(with.out));
}

TEST(AttentionReference, GradientIsThatOfTheForward) {
    // Central differences in fp64 of sum(out * dout): error about h^2 = 1e-8 at h = 1e-4.
    for (const AttentionShape& s : {shape(1, 7, 4, 2, 3), shape(2, 9, 2, 1, 4, 3)}) {
        std::vector<double> qkv(static_cast<std::size_t>(s.batch * s.sequence * s.row()));
        std::vector<double> dout(static_cast<std::size_t>(s.batch * s.sequence * s.out_row()));
        for (std::size_t i = 0; i < qkv.size(); ++i) qkv[i] = random_normal(kSeed, i);
        for (std::size_t i = 0; i < dout.size(); ++i) dout[i] = random_normal(kSeed + 1, i);
        const auto value = [&] {
            std::vector<double> out, lse;
            reference_attention(s, qkv, out, lse);
            return dot(out.data(), dout.data(), static_cast<std::int64_t>(out.size()));
        };
        const std::vector<double> gradient = reference_attention_backward(s, qkv, dout);
        for (std::size_t i = 0; i < qkv.size(); ++i) {
            constexpr double kStep = 1e-4;
            const double kept = qkv[i];
            qkv[i] = kept + kStep;
            const double above = value();
            qkv[i] = kept - kStep;
            const double below = value();
            qkv[i] = kept;
            EXPECT_NEAR((above - below) / (2 * kStep), gradient[i], 1e-6) << "element " << i;
        }
    }
}

TEST(AttentionDecode, EqualsTheLastRowOfAttention) {
    for (const auto& s : {shape(1, 1, 2, 1, 16), shape(1, 77, 4, 2, 20),
                          shape(1, 130, 2, 2, 64, 50), shape(1, 9, 3, 1, 5, 4)}) {
        for (const DType dtype : {DType::kF32, DType::kBF16}) {
            for (const CpuContext& context : cpu_contexts()) {
                const std::string what = describe(context, dtype);
                Guarded qkv(dtype, s.sequence + 3, s.row(), 2), out(dtype, 1, s.out_row(), 4);
                qkv.random(kSeed);
                // Rows beyond `length` of the cache must not count.
                for (std::int64_t r = s.sequence; r < s.sequence + 3; ++r)
                    for (std::int64_t c = 0; c < s.row(); ++c) qkv.set(r, c, NAN);
                Guarded scores(DType::kF32, 1, s.heads * s.sequence);
                AttentionDecodeArgs a;
                a.heads = s.heads;
                a.kv_heads = s.kv_heads;
                a.head_dim = s.head_dim;
                a.scale = float(s.scale);
                a.window = s.window;
                a.length = s.sequence;
                a.q = qkv.tensor().row_range(s.sequence - 1, 1).col_range(0, s.out_row());
                a.keys = qkv.tensor().col_range(s.out_row(), s.kv_heads * s.head_dim);
                a.values = qkv.tensor().col_range((s.heads + s.kv_heads) * s.head_dim,
                                                  s.kv_heads * s.head_dim);
                a.out = out.tensor();
                a.workspace = scores.f32();
                cpu::attention_decode(context, a);
                std::vector<double> want, lse;
                std::vector<double> values = qkv.values();
                values.resize(static_cast<std::size_t>(s.sequence * s.row()));
                reference_attention(s, values, want, lse);
                want.erase(want.begin(), want.end() - s.out_row());
                expect_close(out.values(), want,
                             dtype == DType::kF32 ? 3e-6 : 1.01 * rounding(dtype), what);
                out.expect_guards_intact(what);
                scores.expect_guards_intact(what);
                qkv.expect_guards_intact(what);
            }
        }
    }
}

}  // namespace
}  // namespace isthmus::inner
