// Rates of the attention and norm kernels on one thread, beside what the core can do at most.
//   ninja -C build kernel_bench && build/experiments/kernel_bench
// Attention counts the multiply-adds a causal mask leaves: 2 products forward, 5 backward.
#include <fmt/core.h>

#include <time.h>

#include <vector>

#include "base/random.hpp"
#include "inner/cpu/functions.hpp"

namespace isthmus::inner {
namespace {

/// Processor time of this thread: a machine busy with others disturbs it less than the clock on the
/// wall.
double now() {
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// Best of several runs, in seconds a call.
template <class Fn>
double time_of(Fn&& fn) {
    const auto once = [&](int calls) {
        const double begin = now();
        for (int i = 0; i < calls; ++i) fn();
        return (now() - begin) / calls;
    };
    const int calls = static_cast<int>(0.0005 / (once(1) + 1e-9)) + 1;
    double best = once(calls);
    for (int i = 0; i < 200; ++i) best = std::min(best, once(calls));
    return best;
}

struct Buffer {
    explicit Buffer(DType type, std::int64_t rows_, std::int64_t cols_)
        : dtype(type), rows(rows_), cols(cols_) {
        bytes.resize(static_cast<std::size_t>(rows * cols * 4));
        for (std::int64_t i = 0; i < rows * cols; ++i) {
            const auto x =
                static_cast<float>(random_uniform(1, static_cast<std::uint64_t>(i)) * 2 - 1);
            if (dtype == DType::kF32) {
                reinterpret_cast<float*>(bytes.data())[i] = x;
            } else {
                reinterpret_cast<bf16*>(bytes.data())[i] = to_bf16(x);
            }
        }
    }
    Tensor tensor() { return {bytes.data(), dtype, rows, cols, cols}; }
    DType dtype;
    std::int64_t rows, cols;
    std::vector<std::byte> bytes;
};

void bench_attention(const CpuContext& context, DType dtype, std::int64_t batch, std::int64_t t,
                     std::int64_t heads, std::int64_t dim) {
    Buffer qkv(dtype, batch * t, 3 * heads * dim), out(dtype, batch * t, heads * dim);
    Buffer dout(dtype, batch * t, heads * dim), dqkv(dtype, batch * t, 3 * heads * dim);
    std::vector<float> lse(static_cast<std::size_t>(batch * heads * t));
    AttentionArgs a = {batch,        t,          heads,  heads, dim, 1.0f / 8, 0, qkv.tensor(),
                       out.tensor(), lse.data(), nullptr};
    std::vector<std::byte> workspace(
        static_cast<std::size_t>(cpu::attention_workspace_bytes(context, a)));
    a.workspace = workspace.data();
    const double forward = time_of([&] { cpu::attention(context, a); });
    const AttentionBackwardArgs b = {a, dout.tensor(), dqkv.tensor()};
    const double backward = time_of([&] { cpu::attention_backward(context, b); });
    const double flops = 2.0 * static_cast<double>(batch * heads * dim * t * (t + 1) / 2);
    fmt::print("  T {:5} hd {:4}  forward {:6.1f}  backward {:6.1f} GFLOP/s\n", t, dim,
               2 * flops / forward * 1e-9, 5 * flops / backward * 1e-9);
}

void bench_norm(const CpuContext& context, DType dtype, std::int64_t rows, std::int64_t dim) {
    Buffer x(DType::kF32, rows, dim), y(dtype, rows, dim), dx(DType::kF32, rows, dim),
        add(dtype, rows, dim);
    std::vector<float> weight(static_cast<std::size_t>(dim), 1.0f), bias(weight), dweight(weight),
        dbias(weight);
    std::vector<float> mean(static_cast<std::size_t>(rows)), rstd(mean);
    std::vector<float> workspace(static_cast<std::size_t>(cpu::norm_workspace_floats(rows, dim)));
    NormForwardArgs f;
    f.x = f.sum = x.tensor();
    f.add = add.tensor();
    f.weight = weight.data();
    f.bias = bias.data();
    f.eps = 1e-5f;
    f.y = y.tensor();
    f.mean = mean.data();
    f.rstd = rstd.data();
    const double forward = time_of([&] { cpu::norm(context, f); });
    NormBackwardArgs b;
    b.dy = y.tensor();
    b.x = x.tensor();
    b.weight = weight.data();
    b.mean = mean.data();
    b.rstd = rstd.data();
    b.dx = dx.tensor();
    b.dweight = dweight.data();
    b.dbias = dbias.data();
    b.workspace = workspace.data();
    const double backward = time_of([&] { cpu::norm_backward(context, b); });
    const double count = static_cast<double>(rows * dim) * 1e-9;
    fmt::print("  layer norm {} x {}  forward {:.3f}  backward {:.3f} ns an element\n", rows, dim,
               forward / count, backward / count);
}

}  // namespace
}  // namespace isthmus::inner

int main() {
    using namespace isthmus::inner;
    for (const InstructionSet set : available_instruction_sets()) {
        const CpuContext context = {&kernels_of(set), 1};
        for (const DType dtype : {DType::kF32, DType::kBF16}) {
            fmt::print("{} {}\n", to_string(set), dtype == DType::kF32 ? "fp32" : "bf16");
            for (const std::int64_t dim : {32, 64})
                for (const std::int64_t t : {64, 128, 256})
                    bench_attention(context, dtype, 2, t, 4, dim);
            bench_norm(context, dtype, 1024, 768);
        }
    }
    return 0;
}
