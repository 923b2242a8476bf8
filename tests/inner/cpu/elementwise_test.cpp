// Activations, conversions and sums of flat buffers against their definitions in fp64, on every
// instruction set, element type and thread count.
#include <gtest/gtest.h>

#include <functional>

#include "inner/cpu/functions.hpp"
#include "tests/inner/support/cpu_contexts.hpp"
#include "tests/inner/support/guarded.hpp"

namespace isthmus::inner {
namespace {

using namespace test;

constexpr std::uint64_t kSeed = 77;
const std::pair<std::int64_t, std::int64_t> kSizes[] = {{1, 1}, {3, 7}, {5, 16}, {4, 37}, {9, 96}};

/// fp32: an exponential of 2 units in the last place and a few roundings. bf16: one rounding.
double tolerance(DType dtype) {
    return dtype == DType::kF32 ? 6e-7 : 1.01 * rounding(dtype);
}

double silu(double g) {
    return g / (1 + std::exp(-g));
}
double silu_slope(double g) {
    const double s = 1 / (1 + std::exp(-g));
    return s * (1 + g * (1 - s));
}
constexpr double kPi = 3.14159265358979323846;
double gelu_argument(double u) {
    return std::sqrt(2 / kPi) * (u + 0.044715 * u * u * u);
}
/// u (1 + tanh z) / 2, written so that it keeps its digits where tanh is near -1.
double gelu(double u) {
    return u / (1 + std::exp(-2 * gelu_argument(u)));
}
double gelu_slope(double u) {
    const double e = std::exp(-2 * gelu_argument(u));
    return (1 + u * e / (1 + e) * 2 * std::sqrt(2 / kPi) * (1 + 3 * 0.044715 * u * u)) / (1 + e);
}

TEST(ActivationReference, SlopesAreThoseOfTheFunctions) {
    constexpr double kStep = 1e-5;  // central differences: error about 1e-10
    for (double x = -6; x <= 6; x += 0.37) {
        EXPECT_NEAR((silu(x + kStep) - silu(x - kStep)) / (2 * kStep), silu_slope(x), 1e-9);
        EXPECT_NEAR(gelu(x), 0.5 * x * (1 + std::tanh(gelu_argument(x))), 1e-14);
        EXPECT_NEAR((gelu(x + kStep) - gelu(x - kStep)) / (2 * kStep), gelu_slope(x), 1e-9);
    }
}

void for_each_problem(
    const std::function<void(const CpuContext&, DType, std::int64_t, std::int64_t)>& run) {
    for (const CpuContext& context : cpu_contexts())
        for (const DType dtype : {DType::kF32, DType::kBF16})
            for (const auto& [rows, cols] : kSizes) run(context, dtype, rows, cols);
}

TEST(Elementwise, SwigluMatchesTheDefinition) {
    for_each_problem([](const CpuContext& context, DType dtype, std::int64_t rows,
                        std::int64_t cols) {
        const std::string what = describe(context, dtype) + ", " + std::to_string(cols) + " cols";
        Guarded gu(dtype, rows, 2 * cols, 3), da(dtype, rows, cols, 1), a(dtype, rows, cols, 2);
        gu.random(kSeed, 3);
        da.random(kSeed + 1);
        std::vector<double> want, want_gu;
        for (std::int64_t r = 0; r < rows; ++r) {
            for (std::int64_t c = 0; c < cols; ++c)
                want.push_back(silu(gu.at(r, c)) * gu.at(r, cols + c));
            for (std::int64_t c = 0; c < cols; ++c)
                want_gu.push_back(da.at(r, c) * gu.at(r, cols + c) * silu_slope(gu.at(r, c)));
            for (std::int64_t c = 0; c < cols; ++c)
                want_gu.push_back(da.at(r, c) * silu(gu.at(r, c)));
        }
        cpu::swiglu(context, gu.tensor(), a.tensor());
        expect_close(a.values(), want, tolerance(dtype), what);
        Guarded again(dtype, rows, cols, 2), dgu(dtype, rows, 2 * cols, 5);
        cpu::swiglu_backward(context, gu.tensor(), da.tensor(), dgu.tensor(), again.tensor());
        EXPECT_TRUE(again.same_bits(a)) << what << ": the recomputed activation differs";
        expect_close(dgu.values(), want_gu, tolerance(dtype), what + " backward");
        dgu.expect_guards_intact(what);
        a.expect_guards_intact(what);
        // dgu may alias gu.
        cpu::swiglu_backward(context, gu.tensor(), da.tensor(), gu.tensor(), again.tensor());
        EXPECT_EQ(gu.values(), dgu.values()) << what;
        EXPECT_TRUE(again.same_bits(a)) << what;
        gu.expect_guards_intact(what);
    });
}

TEST(Elementwise, GeluMatchesTheDefinition) {
    for_each_problem([](const CpuContext& context, DType dtype, std::int64_t rows,
                        std::int64_t cols) {
        const std::string what = describe(context, dtype) + ", " + std::to_string(cols) + " cols";
        Guarded u(dtype, rows, cols, 3), da(dtype, rows, cols, 1), a(dtype, rows, cols, 2);
        u.random(kSeed, 3);
        da.random(kSeed + 1);
        std::vector<double> want, want_u;
        for (std::int64_t r = 0; r < rows; ++r)
            for (std::int64_t c = 0; c < cols; ++c) {
                want.push_back(gelu(u.at(r, c)));
                want_u.push_back(da.at(r, c) * gelu_slope(u.at(r, c)));
            }
        cpu::gelu(context, u.tensor(), a.tensor());
        expect_close(a.values(), want, tolerance(dtype), what);
        Guarded again(dtype, rows, cols, 2), du(dtype, rows, cols, 5);
        cpu::gelu_backward(context, u.tensor(), da.tensor(), du.tensor(), again.tensor());
        EXPECT_TRUE(again.same_bits(a)) << what << ": the recomputed activation differs";
        expect_close(du.values(), want_u, tolerance(dtype), what + " backward");
        du.expect_guards_intact(what);
        a.expect_guards_intact(what);
        cpu::gelu_backward(context, u.tensor(), da.tensor(), u.tensor(), again.tensor());
        EXPECT_EQ(u.values(), du.values()) << what;
        u.expect_guards_intact(what);
    });
}

TEST(Elementwise, ActivationsFarOutAreFiniteAndNaNStays) {
    const float kFar[] = {-1e30f, -1e10f, -500, -90, -20, 20, 90, 500, 1e10f, 1e30f};
    for (const CpuContext& context : cpu_contexts()) {
        Guarded u(DType::kF32, 1, 11), one(DType::kF32, 1, 11), a(DType::kF32, 1, 11),
            du(DType::kF32, 1, 11), gu(DType::kF32, 1, 22), dgu(DType::kF32, 1, 22);
        one.fill(1);
        gu.fill(1);
        for (int i = 0; i < 10; ++i) {
            u.set(0, i, kFar[i]);
            gu.set(0, i, kFar[i]);
        }
        u.set(0, 10, NAN);
        gu.set(0, 10, NAN);
        cpu::gelu_backward(context, u.tensor(), one.tensor(), du.tensor(), a.tensor());
        for (int i = 0; i < 10; ++i) {
            EXPECT_NEAR(a.at(0, i), std::max(kFar[i], 0.0f), std::abs(kFar[i]) * 1e-6);
            EXPECT_NEAR(du.at(0, i), kFar[i] > 0 ? 1 : 0, 1e-6);
        }
        EXPECT_TRUE(std::isnan(a.at(0, 10)) && std::isnan(du.at(0, 10)));
        cpu::swiglu_backward(context, gu.tensor(), one.tensor(), dgu.tensor(), a.tensor());
        for (int i = 0; i < 10; ++i) {
            EXPECT_NEAR(a.at(0, i), std::max(kFar[i], 0.0f), std::abs(kFar[i]) * 1e-6);
            EXPECT_NEAR(dgu.at(0, i), kFar[i] > 0 ? 1 : 0, 1e-6);
        }
        EXPECT_TRUE(std::isnan(a.at(0, 10)) && std::isnan(dgu.at(0, 10)));
    }
}

TEST(Elementwise, ConvertRoundsToNearestEven) {
    for (const CpuContext& context : cpu_contexts())
        for (const DType from : {DType::kF32, DType::kBF16})
            for (const DType to : {DType::kF32, DType::kBF16})
                for (const std::int64_t padding : {0, 3}) {
                    Guarded x(from, 70, 131, padding), y(to, 70, 131, padding);
                    x.random(kSeed, 5);
                    // Half way between two bf16 numbers, above an even and above an odd one.
                    x.set(0, 0, 1 + 0x1p-8);
                    x.set(0, 1, 1 + 3 * 0x1p-8);
                    x.set(0, 2, INFINITY);
                    cpu::convert(context, x.tensor(), y.tensor());
                    Guarded want(to, 70, 131, padding);
                    for (std::int64_t r = 0; r < 70; ++r)
                        for (std::int64_t c = 0; c < 131; ++c) want.set(r, c, x.at(r, c));
                    EXPECT_TRUE(y.same_bits(want)) << describe(context, to);
                }
}

TEST(Elementwise, AddAndFill) {
    for_each_problem(
        [](const CpuContext& context, DType dtype, std::int64_t rows, std::int64_t cols) {
            Guarded x(DType::kF32, rows, cols, 3), y(dtype, rows, cols, 1),
                want(DType::kF32, rows, cols, 3);
            x.random(kSeed);
            y.random(kSeed + 1);
            for (std::int64_t r = 0; r < rows; ++r)
                for (std::int64_t c = 0; c < cols; ++c)
                    want.set(r, c, float(x.at(r, c)) + float(y.at(r, c)));
            cpu::add(context, x.tensor(), y.tensor());
            EXPECT_TRUE(x.same_bits(want)) << describe(context, dtype);
            Guarded flat(DType::kF32, 1, rows * cols * 100);
            cpu::fill(context, {flat.f32(), static_cast<std::size_t>(rows * cols * 100)}, 2.5f);
            for (const double value : flat.values()) ASSERT_EQ(value, 2.5);
            flat.expect_guards_intact(describe(context, dtype));
        });
}

}  // namespace
}  // namespace isthmus::inner
