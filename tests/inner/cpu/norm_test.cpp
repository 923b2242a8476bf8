// Norms, head norms and rotary embedding against fp64, on every instruction set, type and thread
// count.
#include <cmath>

#include "inner/cpu/functions.hpp"
#include "tests/inner/support/cpu_contexts.hpp"
#include "tests/inner/support/guarded.hpp"

namespace isthmus::inner {
namespace {

using namespace test;
using Values = std::vector<double>;

constexpr std::uint64_t kSeed = 20260202;
constexpr double kEps = 1e-5;

/// A norm of rows of `dim` values in fp64, forward and backward. Sizes follow from the vectors.
struct NormReference {
    Values x, weight, bias;  // bias empty: RMSNorm
    double eps = kEps;

    std::size_t dim() const { return weight.size(); }
    std::size_t rows() const { return x.size() / dim(); }
    double mean(std::size_t row) const {
        double sum = 0;
        for (std::size_t i = 0; i < dim(); ++i) sum += x[row * dim() + i];
        return bias.empty() ? 0 : sum / double(dim());
    }
    double rstd(std::size_t row) const {
        const double m = mean(row);
        double sum = 0;
        for (std::size_t i = 0; i < dim(); ++i) sum += std::pow(x[row * dim() + i] - m, 2);
        return 1 / std::sqrt(sum / double(dim()) + eps);
    }
    Values forward() const {
        Values y;
        for (std::size_t r = 0; r < rows(); ++r)
            for (std::size_t i = 0; i < dim(); ++i)
                y.push_back((x[r * dim() + i] - mean(r)) * rstd(r) * weight[i] +
                            (bias.empty() ? 0 : bias[i]));
        return y;
    }
    struct Gradients {
        Values dx, dweight, dbias;
    };
    Gradients backward(const Values& dy) const {
        const std::size_t n = dim();
        Gradients g = {Values(x.size()), Values(n), Values(n)};
        for (std::size_t r = 0; r < rows(); ++r) {
            const double m = mean(r), s = rstd(r);
            double sum_g = 0, sum_gh = 0;
            for (std::size_t i = 0; i < n; ++i) {
                const double h = (x[r * n + i] - m) * s;
                sum_g += dy[r * n + i] * weight[i];
                sum_gh += dy[r * n + i] * weight[i] * h;
                g.dweight[i] += dy[r * n + i] * h;
                g.dbias[i] += dy[r * n + i];
            }
            if (bias.empty()) sum_g = 0;
            for (std::size_t i = 0; i < n; ++i) {
                const double h = (x[r * n + i] - m) * s;
                g.dx[r * n + i] =
                    s * (dy[r * n + i] * weight[i] - sum_g / double(n) - h * sum_gh / double(n));
            }
        }
        return g;
    }
};

Values plus(Values a, const Values& b) {
    for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
    return a;
}

struct NormCase {
    std::int64_t rows, dim;
    bool layer_norm, fused_add, in_place;
    double offset;
};
std::vector<NormCase> norm_cases() {
    return {{1, 1, false, false, false, 0},    {3, 7, true, false, false, 0},
            {5, 64, false, true, true, 0},     {70, 33, true, true, false, 0},
            {129, 48, true, true, true, 0},    {200, 100, false, true, false, 0},
            {4, 768, true, false, false, 100}, {64, 16, false, false, false, 0}};
}

/// One run of both passes in guarded buffers.
struct NormRun {
    Guarded x, add, sum, y, weight, bias, mean, rstd, dy, dx, copy, dweight, dbias, workspace;
    Values x_before, dx_before, dweight_before, dbias_before;

    NormRun(const CpuContext& context, const NormCase& c, DType dtype)
        : x(DType::kF32, c.rows, c.dim, 3),
          add(dtype, c.rows, c.dim, 1),
          sum(DType::kF32, c.rows, c.dim, 2),
          y(dtype, c.rows, c.dim, 5),
          weight(DType::kF32, 1, c.dim),
          bias(DType::kF32, 1, c.dim),
          mean(DType::kF32, 1, c.rows),
          rstd(DType::kF32, 1, c.rows),
          dy(dtype, c.rows, c.dim, 4),
          dx(DType::kF32, c.rows, c.dim, 6),
          copy(dtype, c.rows, c.dim, 7),
          dweight(DType::kF32, 1, c.dim),
          dbias(DType::kF32, 1, c.dim),
          workspace(DType::kF32, 1, cpu::norm_workspace_floats(c.rows, c.dim)) {
        x.random(kSeed, 1, c.offset);
        add.random(kSeed + 1);
        weight.random(kSeed + 2, 0.3, 1);
        bias.random(kSeed + 3);
        dy.random(kSeed + 4);
        dx.random(kSeed + 5);
        dweight.random(kSeed + 6);
        dbias.random(kSeed + 7);
        x_before = x.values();
        dx_before = dx.values();
        dweight_before = dweight.values();
        dbias_before = dbias.values();
        NormForwardArgs f;
        f.x = x.tensor();
        if (c.fused_add) {
            f.add = add.tensor();
            f.sum = c.in_place ? x.tensor() : sum.tensor();
        }
        f.weight = weight.f32();
        f.bias = c.layer_norm ? bias.f32() : nullptr;
        f.eps = float(kEps);
        f.y = y.tensor();
        f.mean = c.layer_norm ? mean.f32() : nullptr;
        f.rstd = rstd.f32();
        cpu::norm(context, f);
        NormBackwardArgs b;
        b.dy = dy.tensor();
        b.x = c.fused_add ? f.sum : f.x;
        b.weight = weight.f32();
        b.mean = f.mean;
        b.rstd = rstd.f32();
        b.dx = dx.tensor();
        b.dx_copy = copy.tensor();
        b.dweight = dweight.f32();
        b.dbias = c.layer_norm ? dbias.f32() : nullptr;
        b.workspace = workspace.f32();
        cpu::norm_backward(context, b);
    }
    void expect_intact(const std::string& what) const {
        for (const Guarded* g : {&x, &add, &sum, &y, &weight, &bias, &mean, &rstd, &dy, &dx, &copy,
                                 &dweight, &dbias, &workspace})
            g->expect_guards_intact(what);
    }
};

TEST(Norm, MatchesTheDefinition) {
    for (const NormCase& c : norm_cases()) {
        for (const DType dtype : {DType::kF32, DType::kBF16}) {
            for (const CpuContext& context : cpu_contexts()) {
                const std::string what = fmt::format(
                    "{} x {}{}{}, {}, seed {}", c.rows, c.dim, c.layer_norm ? " layer" : " rms",
                    c.fused_add ? " add" : "", describe(context, dtype), kSeed);
                NormRun run(context, c, dtype);
                const Guarded& summed = c.in_place ? run.x : c.fused_add ? run.sum : run.x;
                const Values x = c.fused_add ? plus(run.x_before, run.add.values()) : run.x_before;
                expect_close(summed.values(), x, 1e-7, what + " sum");
                // The kernel normalises the fp32 sum: judge it on that.
                NormReference want = {summed.values(), run.weight.values(), {}};
                if (c.layer_norm) want.bias = run.bias.values();
                // fp32: a few roundings, and the mean of a row at offset 100 is off by 100 * 2^-24.
                const double exact = c.offset == 0 ? 1e-6 : 1e-5;
                expect_close(run.y.values(), want.forward(), exact + 1.01 * rounding(dtype),
                             what + " y");
                const auto gradients = want.backward(run.dy.values());
                const Values dx = plus(gradients.dx, run.dx_before);
                expect_close(run.dx.values(), dx, 2 * exact, what + " dx");
                expect_close(run.copy.values(), dx, 2 * exact + 1.01 * rounding(dtype),
                             what + " copy");
                expect_close(run.dweight.values(), plus(gradients.dweight, run.dweight_before),
                             5 * exact, what + " dweight");
                expect_close(
                    run.dbias.values(),
                    c.layer_norm ? plus(gradients.dbias, run.dbias_before) : run.dbias_before,
                    exact, what + " dbias");
                run.expect_intact(what);
            }
        }
    }
}

TEST(Norm, BitsDoNotDependOnRunsOrThreads) {
    const NormCase c = {333, 50, true, true, false, 0};
    for (const InstructionSet set : available_instruction_sets()) {
        const NormRun one({&kernels_of(set), 1}, c, DType::kBF16);
        for (const int threads : {1, 2, 5}) {
            const NormRun other({&kernels_of(set), threads}, c, DType::kBF16);
            EXPECT_TRUE(one.y.same_bits(other.y)) << to_string(set) << threads;
            EXPECT_TRUE(one.dx.same_bits(other.dx)) << to_string(set) << threads;
            EXPECT_TRUE(one.dweight.same_bits(other.dweight)) << to_string(set) << threads;
            EXPECT_TRUE(one.dbias.same_bits(other.dbias)) << to_string(set) << threads;
        }
    }
}

TEST(NormReference, GradientIsThatOfTheForward) {
    for (const bool layer_norm : {false, true}) {
        NormReference norm;
        Values dy;
        for (std::uint64_t i = 0; i < 3 * 5; ++i) {
            norm.x.push_back(random_normal(kSeed, i));
            dy.push_back(random_normal(kSeed + 1, i));
        }
        for (std::uint64_t i = 0; i < 5; ++i) {
            norm.weight.push_back(random_normal(kSeed + 2, i));
            if (layer_norm) norm.bias.push_back(random_normal(kSeed + 3, i));
        }
        const auto value = [&] {
            const Values y = norm.forward();
            double sum = 0;
            for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * dy[i];
            return sum;
        };
        const auto expect_gradient = [&](Values& of, const Values& gradient, const char* what) {
            for (std::size_t i = 0; i < of.size(); ++i) {
                constexpr double kStep = 1e-5;
                const double kept = of[i];
                of[i] = kept + kStep;
                const double above = value();
                of[i] = kept - kStep;
                const double below = value();
                of[i] = kept;
                EXPECT_NEAR((above - below) / (2 * kStep), gradient[i], 1e-7) << what << i;
            }
        };
        const auto gradients = norm.backward(dy);
        expect_gradient(norm.x, gradients.dx, "dx");
        expect_gradient(norm.weight, gradients.dweight, "dweight");
        expect_gradient(norm.bias, gradients.dbias, "dbias");
    }
}

TEST(HeadNorm, MatchesTheDefinitionOnAColumnRange) {
    struct Case {
        std::int64_t rows, heads, dim;
    };
    for (const Case& c : {Case{1, 1, 2}, Case{67, 3, 10}, Case{130, 2, 64}}) {
        for (const DType dtype : {DType::kF32, DType::kBF16}) {
            for (const CpuContext& context : cpu_contexts()) {
                const std::string what = fmt::format("{} x {} x {}, {}, seed {}", c.rows, c.heads,
                                                     c.dim, describe(context, dtype), kSeed);
                const std::int64_t cols = c.heads * c.dim;
                Guarded x(dtype, c.rows, cols, 9), saved(dtype, c.rows, cols, 1);
                Guarded weight(DType::kF32, 1, c.dim), rstd(DType::kF32, 1, c.rows * c.heads);
                Guarded dweight(DType::kF32, 1, c.dim);
                Guarded workspace(DType::kF32, 1, cpu::norm_workspace_floats(c.rows, c.dim));
                x.random(kSeed);
                weight.random(kSeed + 1, 0.3, 1);
                dweight.random(kSeed + 2);
                const Values before = dweight.values();
                const NormReference want = {x.values(), weight.values(), {}};
                HeadNormArgs a;
                a.x = x.tensor();
                a.head_dim = c.dim;
                a.weight = weight.f32();
                a.eps = float(kEps);
                a.saved = saved.tensor();
                a.rstd = rstd.f32();
                cpu::head_norm(context, a);
                expect_close(saved.values(), want.x, 0, what + " saved");
                expect_close(x.values(), want.forward(), 1e-6 + 1.01 * rounding(dtype),
                             what + " y");
                x.random(kSeed + 3);
                const auto gradients = want.backward(x.values());
                a.dweight = dweight.f32();
                a.workspace = workspace.f32();
                cpu::head_norm_backward(context, a);
                expect_close(x.values(), gradients.dx, 2e-6 + 1.01 * rounding(dtype), what + " dx");
                expect_close(dweight.values(), plus(gradients.dweight, before), 5e-6,
                             what + " dweight");
                for (const Guarded* g : {&x, &saved, &weight, &rstd, &dweight, &workspace})
                    g->expect_guards_intact(what);
            }
        }
    }
}

TEST(Rope, RotatesAndTurnsBack) {
    constexpr std::int64_t kSequence = 11, kFirst = 3;
    for (const std::int64_t dim : {2, 10, 64}) {
        for (const DType dtype : {DType::kF32, DType::kBF16}) {
            for (const CpuContext& context : cpu_contexts()) {
                const std::string what = fmt::format("dim {}, {}", dim, describe(context, dtype));
                const std::int64_t half = dim / 2, rows = 2 * kSequence, heads = 3;
                Guarded x(dtype, rows, heads * dim, 5);
                Guarded cos(DType::kF32, kSequence + kFirst, half);
                Guarded sin(DType::kF32, kSequence + kFirst, half);
                for (std::int64_t p = 0; p < kSequence + kFirst; ++p)
                    for (std::int64_t i = 0; i < half; ++i) {
                        const double angle = double(p) * std::pow(100.0, -double(i) / double(half));
                        cos.set(p, i, std::cos(angle));
                        sin.set(p, i, std::sin(angle));
                    }
                x.random(kSeed);
                const Values before = x.values();
                RopeArgs a;
                a.x = x.tensor();
                a.head_dim = dim;
                a.sequence = kSequence;
                a.first_position = kFirst;
                a.cos = cos.f32();
                a.sin = sin.f32();
                cpu::rope(context, a);
                Values want;
                for (std::int64_t r = 0; r < rows; ++r)
                    for (std::int64_t c = 0; c < heads * dim; ++c) {
                        const std::int64_t i = c % dim % half, head = c / dim * dim;
                        const auto at = [&](std::int64_t col) {
                            return before[std::size_t(r * heads * dim + head + col)];
                        };
                        const double co = cos.at(kFirst + r % kSequence, i);
                        const double si = sin.at(kFirst + r % kSequence, i);
                        want.push_back(c % dim < half ? at(i) * co - at(i + half) * si
                                                      : at(i + half) * co + at(i) * si);
                    }
                expect_close(x.values(), want, 2e-7 + 1.01 * rounding(dtype), what);
                a.inverse = true;
                cpu::rope(context, a);
                expect_close(x.values(), before, 5e-7 + 3 * rounding(dtype), what + " back");
                x.expect_guards_intact(what);
            }
        }
    }
}

}  // namespace
}  // namespace isthmus::inner
