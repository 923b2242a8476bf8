// The GEMM ops against their definition in fp64, on every instruction set, element type and thread
// count.
#include "inner/cpu/linear.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <thread>

#include "inner/cpu/onednn.hpp"
#include "tests/inner/support/allocations.hpp"
#include "tests/inner/support/cpu_contexts.hpp"
#include "tests/inner/support/guarded.hpp"

namespace isthmus::inner {
namespace {

using namespace test;

constexpr std::uint64_t kSeed = 31;

struct Shape {
    std::int64_t rows, out, in;
};

// Single elements, fewer rows than a tile (dot products), ragged tiles, more than one block of each
// side.
const Shape kShapes[] = {{1, 1, 1},    {1, 300, 70},    {3, 17, 5},      {4, 16, 8},   {7, 33, 65},
                         {64, 48, 64}, {101, 130, 401}, {97, 1050, 390}, {390, 70, 97}};

/// a(i, p) and b(p, j) are functions.
std::vector<double> product(std::int64_t m, std::int64_t n, std::int64_t k, auto&& a, auto&& b) {
    std::vector<double> right;
    for (std::int64_t p = 0; p < k; ++p)
        for (std::int64_t j = 0; j < n; ++j) right.push_back(b(p, j));
    std::vector<double> c(static_cast<std::size_t>(m * n));
    for (std::int64_t i = 0; i < m; ++i) {
        double* row = c.data() + i * n;
        for (std::int64_t p = 0; p < k; ++p) {
            const double left = a(i, p);
            for (std::int64_t j = 0; j < n; ++j)
                row[j] += left * right[static_cast<std::size_t>(p * n + j)];
        }
    }
    return c;
}

/// Whether bf16 GEMMs are emulated in this test: where there is hardware both are run.
std::vector<bool> emulations(DType dtype) {
    if (dtype == DType::kF32) return {false};
    return cpu_has_bf16() ? std::vector<bool>{true, false} : std::vector<bool>{true};
}

/// One way to run a problem.
struct Case {
    std::string what;
    int threads;
    bool onednn;
    std::unique_ptr<cpu::Linear> ops;
};

std::vector<Case> cases(DType dtype, const Shape& shape) {
    std::vector<Case> all;
    for (const InstructionSet set : available_instruction_sets())
        for (const int threads : {1, 3})
            for (const bool emulate : emulations(dtype)) {
                const CpuContext context{&kernels_of(set), threads};
                CpuOptions options;
                options.threads = threads;
                options.instruction_set = set;
                options.emulate_bf16 = emulate;
                all.push_back({fmt::format("{}, {} x {} x {}, seed {}", describe(context, dtype),
                                           shape.rows, shape.out, shape.in, kSeed),
                               threads,
                               dtype == DType::kBF16 ? !emulate : set == InstructionSet::kAvx512,
                               std::make_unique<cpu::Linear>(context, options)});
            }
    return all;
}

void for_each_problem(const std::function<void(DType, const Shape&)>& run) {
    for (const DType dtype : {DType::kF32, DType::kBF16})
        for (const Shape& shape : kShapes) run(dtype, shape);
}

/// fp32: up to 1050 terms, each partial sum rounded to 2^-24: about 2^-24 sqrt(k) of the largest
/// result at 5 sigma. bf16: the same, then one rounding where the result is stored as bf16.
double tolerance(DType stored) {
    return stored == DType::kF32 ? 1e-6 : 1.01 * rounding(DType::kBF16);
}

/// Packed weights, as a trainer keeps them.
struct Packed {
    std::vector<std::byte> memory;
    Packed(cpu::Linear& ops, Weight& w) {
        const std::int64_t bytes = ops.packed_bytes(w.out, w.in, w.plain.dtype);
        if (bytes == 0) return;
        memory.resize(static_cast<std::size_t>(bytes + 64));
        const auto start = reinterpret_cast<std::uintptr_t>(memory.data());
        w.packed = memory.data() + (64 - start % 64) % 64;
        ops.pack(w);
    }
};

TEST(Linear, ForwardAndInputGradientMatchTheDefinition) {
    for_each_problem([](DType dtype, const Shape& shape) {
        const auto [rows, out, in] = shape;
        Guarded x(dtype, rows, in, 3), w(dtype, out, in, 5), bias(DType::kF32, 1, out);
        Guarded dy(dtype, rows, out, 1);
        x.random(kSeed);
        w.random(kSeed + 1);
        bias.random(kSeed + 2, 10);
        dy.random(kSeed + 3);
        const auto forward = product(
            rows, out, in, [&](auto i, auto p) { return x.at(i, p); },
            [&](auto p, auto j) { return w.at(j, p); });
        auto with_bias = forward;
        for (std::size_t i = 0; i < with_bias.size(); ++i)
            with_bias[i] += bias.at(0, static_cast<std::int64_t>(i) % out);
        const auto backward = product(
            rows, in, out, [&](auto i, auto p) { return dy.at(i, p); },
            [&](auto p, auto j) { return w.at(p, j); });
        for (Case& c : cases(dtype, shape)) {
            Weight weight{out, in, w.tensor(), nullptr};
            const Packed packed(*c.ops, weight);
            for (const DType stored : {DType::kF32, dtype}) {
                Guarded y(stored, rows, out, 2), y_bias(stored, rows, out), dx(stored, rows, in, 7);
                c.ops->linear(x.tensor(), weight, nullptr, y.tensor());
                c.ops->linear(x.tensor(), weight, bias.f32(), y_bias.tensor());
                c.ops->linear_input_gradient(dy.tensor(), weight, dx.tensor());
                expect_close(y.values(), forward, tolerance(stored), c.what + " y");
                expect_close(y_bias.values(), with_bias, tolerance(stored), c.what + " y + bias");
                expect_close(dx.values(), backward, tolerance(stored), c.what + " dx");
                y.expect_guards_intact(c.what + " y");
                y_bias.expect_guards_intact(c.what + " y + bias");
                dx.expect_guards_intact(c.what + " dx");
            }
        }
    });
}

TEST(Linear, WeightGradientOverwritesOrAccumulates) {
    for_each_problem([](DType dtype, const Shape& shape) {
        const auto [rows, out, in] = shape;
        Guarded dy(dtype, rows, out, 5), x(dtype, rows, in, 3);
        dy.random(kSeed);
        x.random(kSeed + 1);
        const auto gradient = product(
            out, in, rows, [&](auto i, auto p) { return dy.at(p, i); },
            [&](auto p, auto j) { return x.at(p, j); });
        const auto sums = product(
            1, out, rows, [](auto, auto) { return 1.0; },
            [&](auto p, auto j) { return dy.at(p, j); });
        for (Case& c : cases(dtype, shape)) {
            for (const bool accumulate : {false, true}) {
                Guarded dw(DType::kF32, out, in, 2), dbias(DType::kF32, 1, out);
                auto want = gradient;
                auto want_bias = sums;
                if (accumulate) {
                    dw.random(kSeed + 2);
                    dbias.random(kSeed + 3);
                    const auto before = dw.values();
                    const auto before_bias = dbias.values();
                    for (std::size_t i = 0; i < want.size(); ++i) want[i] += before[i];
                    for (std::size_t i = 0; i < want_bias.size(); ++i)
                        want_bias[i] += before_bias[i];
                }
                c.ops->linear_weight_gradient(dy.tensor(), x.tensor(), dw.tensor(), dbias.f32(),
                                              accumulate, nullptr);
                expect_close(dw.values(), want, tolerance(DType::kF32), c.what + " dw");
                expect_close(dbias.values(), want_bias, tolerance(DType::kF32), c.what + " dbias");
                dw.expect_guards_intact(c.what + " dw");
                dbias.expect_guards_intact(c.what + " dbias");
            }
        }
    });
}

/// y, dx, dw of one shape, in fp32.
struct AllThree {
    Guarded y, dx, dw;
    AllThree(const CpuContext& context, const CpuOptions& options, const Shape& s)
        : y(DType::kF32, s.rows, s.out),
          dx(DType::kF32, s.rows, s.in),
          dw(DType::kF32, s.out, s.in) {
        cpu::Linear ops(context, options);
        Guarded x(DType::kF32, s.rows, s.in, 3), w(DType::kF32, s.out, s.in, 5);
        x.random(kSeed);
        w.random(kSeed + 1);
        Weight weight{s.out, s.in, w.tensor(), nullptr};
        const Packed packed(ops, weight);
        ops.linear(x.tensor(), weight, nullptr, y.tensor());
        ops.linear_input_gradient(y.tensor(), weight, dx.tensor());
        ops.linear_weight_gradient(y.tensor(), x.tensor(), dw.tensor(), nullptr, false, nullptr);
    }
    bool same_bits(const AllThree& other) const {
        return y.same_bits(other.y) && dx.same_bits(other.dx) && dw.same_bits(other.dw);
    }
};

CpuOptions options_of(InstructionSet set, int threads) {
    CpuOptions options;
    options.instruction_set = set;
    options.threads = threads;
    return options;
}

TEST(Linear, BitsDoNotDependOnRunsOrThreads) {
    for (const InstructionSet set : available_instruction_sets()) {
        for (const Shape& shape : kShapes) {
            const AllThree one({&kernels_of(set), 1}, options_of(set, 1), shape);
            for (const int threads : {1, 2, 5}) {
                // oneDNN's bits do depend on the number of threads.
                if (threads > 1 && set == InstructionSet::kAvx512) continue;
                const AllThree other({&kernels_of(set), threads}, options_of(set, threads), shape);
                EXPECT_TRUE(one.same_bits(other))
                    << to_string(set) << ", " << threads << " threads, " << shape.rows << " rows";
            }
        }
    }
}

TEST(Linear, TwoOfThemWorkInTwoThreads) {
    const InstructionSet set = available_instruction_sets().back();
    const CpuContext context{&kernels_of(set), 1};
    const Shape shape = {300, 120, 90};
    const AllThree alone(context, options_of(set, 1), shape);
    bool same[2] = {false, false};
    std::vector<std::thread> threads;
    for (bool& mine : same)
        threads.emplace_back([&] {
            mine = true;
            for (int i = 0; i < 10; ++i)
                mine &= alone.same_bits(AllThree(context, options_of(set, 1), shape));
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(same[0]);
    EXPECT_TRUE(same[1]);
}

TEST(Linear, AllocatesNothingLargeAfterTheFirstCall) {
    if (!can_count_allocations()) GTEST_SKIP() << "the sanitizer owns the allocator";
    for_each_problem([](DType dtype, const Shape& shape) {
        const auto [rows, out, in] = shape;
        Guarded x(dtype, rows, in), w(dtype, out, in), y(dtype, rows, out);
        Guarded dw(DType::kF32, out, in), dbias(DType::kF32, 1, out);
        x.random(kSeed);
        w.random(kSeed);
        for (Case& c : cases(dtype, shape)) {
            Weight weight{out, in, w.tensor(), nullptr};
            const Packed packed(*c.ops, weight);
            const auto step = [&] {
                c.ops->linear(x.tensor(), weight, dbias.f32(), y.tensor());
                c.ops->linear_input_gradient(y.tensor(), weight, x.tensor());
                c.ops->linear_weight_gradient(y.tensor(), x.tensor(), dw.tensor(), dbias.f32(),
                                              false, nullptr);
            };
            step();
            start_counting_allocations();
            step();
            const AllocationCount count = stop_counting_allocations();
            EXPECT_EQ(count.large, 0) << c.what << ": " << count.largest_bytes << " bytes";
            // oneDNN makes a few tiny ones, and so does OpenMP where the number of threads changes.
            if (!c.onednn && c.threads == 1) {
                EXPECT_EQ(count.calls, 0) << c.what;
            }
        }
    });
}

TEST(OneDnn, EveryFormMatchesTheDefinition) {
    for (const int threads : {1, 2}) {
        cpu::OneDnn onednn(threads);
        for (const Shape& s : kShapes) {
            const std::string what = fmt::format("{} x {} x {}", s.rows, s.out, s.in);
            Guarded a(DType::kF32, s.rows, s.in, 3), at(DType::kF32, s.in, s.rows, 2);
            Guarded b(DType::kF32, s.in, s.out, 5), bt(DType::kF32, s.out, s.in, 1);
            Guarded bias(DType::kF32, 1, s.out);
            a.random(kSeed);
            b.random(kSeed + 1);
            bias.random(kSeed + 2);
            for (std::int64_t p = 0; p < s.in; ++p) {
                for (std::int64_t i = 0; i < s.rows; ++i) at.set(p, i, a.at(i, p));
                for (std::int64_t j = 0; j < s.out; ++j) bt.set(j, p, b.at(p, j));
            }
            const auto plain = product(
                s.rows, s.out, s.in, [&](auto i, auto p) { return a.at(i, p); },
                [&](auto p, auto j) { return b.at(p, j); });
            std::vector<std::byte> packed;
            const std::int64_t packed_bytes = onednn.packed_bytes(s.in, s.out, DType::kF32);
            if (packed_bytes > 0) {
                packed.resize(static_cast<std::size_t>(packed_bytes));
                onednn.pack(s.in, s.out, DType::kF32, b.f32(), b.tensor().stride, false,
                            packed.data());
            }
            for (int form = 0; form < 32; ++form) {
                cpu::Matmul m{.m = s.rows, .n = s.out, .k = s.in};
                m.a_transposed = form & 1;
                m.b_transposed = form & 2;
                m.accumulate = form & 4;
                m.bias = form & 8;
                m.b_packed = form & 16;
                if (m.b_packed && packed_bytes == 0) continue;
                Guarded& left = m.a_transposed ? at : a;
                Guarded& right = m.b_transposed ? bt : b;
                Guarded c(DType::kF32, s.rows, s.out, 4);
                auto want = plain;
                if (m.accumulate) c.random(kSeed + 3);
                const std::vector<double> before = c.values();
                for (std::size_t i = 0; i < want.size(); ++i) {
                    if (m.accumulate) want[i] += before[i];
                    if (m.bias) want[i] += bias.at(0, static_cast<std::int64_t>(i) % s.out);
                }
                m.a_stride = left.tensor().stride;
                m.b_stride = m.b_packed ? 0 : right.tensor().stride;
                m.c_stride = c.tensor().stride;
                if (onednn.is_slow(m)) {
                    // The caller turns to the plain weights.
                    EXPECT_TRUE(m.b_packed) << what << " form " << form;
                    continue;
                }
                onednn.run(m, left.f32(),
                           m.b_packed ? static_cast<void*>(packed.data()) : right.f32(),
                           m.bias ? bias.f32() : nullptr, c.f32());
                expect_close(c.values(), want, tolerance(DType::kF32),
                             fmt::format("{} form {}", what, form));
                c.expect_guards_intact(what);
            }
        }
    }
}

}  // namespace
}  // namespace isthmus::inner
