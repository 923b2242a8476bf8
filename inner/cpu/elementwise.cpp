// Activations and conversions: rows are split over threads, kernels do the rest.
#include <span>

#include "inner/cpu/dispatch.hpp"
#include "inner/cpu/functions.hpp"
#include "inner/cpu/parallel.hpp"

namespace isthmus::inner::cpu {
namespace {

template <class E>
ActivationKernelArgs<E> activation_args(const Tensor& in, const Tensor& out, const Tensor& dout,
                                        const Tensor& din) {
    return {out.cols,
            {pointer<E>(in), in.stride},
            {pointer<E>(out), out.stride},
            {pointer<E>(dout), dout.stride},
            {pointer<E>(din), din.stride}};
}

/// `pick` names the kernel in ActivationKernels.
template <class Pick>
void run_activation(const CpuContext& context, Pick pick, const Tensor& in, const Tensor& out,
                    const Tensor& dout = {}, const Tensor& din = {}) {
    CHECK(in.dtype == out.dtype);
    if (dout) {
        check_shape(dout, out.rows, out.cols);
        check_shape(din, in.rows, in.cols);
        CHECK(dout.dtype == in.dtype && din.dtype == in.dtype);
    }
    with_type(in.dtype, [&]<class E>(E) {
        const auto args = activation_args<E>(in, out, dout, din);
        const auto kernel = pick(context.kernels->of<E>().activation);
        parallel_blocks(context.threads, out.rows, [&](int, std::int64_t begin, std::int64_t end) {
            kernel(args, begin, end);
        });
    });
}

}  // namespace

void swiglu(const CpuContext& context, const Tensor& gu, const Tensor& a) {
    check_shape(gu, a.rows, 2 * a.cols);
    run_activation(
        context, [](const auto& kernels) { return kernels.swiglu; }, gu, a);
}

void swiglu_backward(const CpuContext& context, const Tensor& gu, const Tensor& da,
                     const Tensor& dgu, const Tensor& a) {
    check_shape(gu, a.rows, 2 * a.cols);
    CHECK(da && dgu);
    run_activation(
        context, [](const auto& kernels) { return kernels.swiglu_backward; }, gu, a, da, dgu);
}

void gelu(const CpuContext& context, const Tensor& u, const Tensor& a) {
    check_shape(u, a.rows, a.cols);
    run_activation(
        context, [](const auto& kernels) { return kernels.gelu; }, u, a);
}

void gelu_backward(const CpuContext& context, const Tensor& u, const Tensor& da, const Tensor& du,
                   const Tensor& a) {
    check_shape(u, a.rows, a.cols);
    CHECK(da && du);
    run_activation(
        context, [](const auto& kernels) { return kernels.gelu_backward; }, u, a, da, du);
}

void fill(const CpuContext& context, std::span<float> x, float value) {
    parallel_blocks(
        context.threads, std::ssize(x),
        [&](int, std::int64_t begin, std::int64_t end) {
            context.kernels->flat.fill(x.data(), value, begin, end);
        },
        kFlatBlock);
}

void convert(const CpuContext& context, const Tensor& from, const Tensor& to) {
    check_shape(from, to.rows, to.cols);
    const auto rows = [&](auto* in, auto* out, auto kernel) {
        // One long row where neither side has gaps: a flat buffer is split as well as a matrix.
        if (from.contiguous() && to.contiguous()) {
            parallel_blocks(
                context.threads, to.rows * to.cols,
                [&](int, std::int64_t begin, std::int64_t end) {
                    kernel(in + begin, out + begin, end - begin);
                },
                kFlatBlock);
            return;
        }
        parallel_blocks(context.threads, to.rows, [&](int, std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row)
                kernel(in + row * from.stride, out + row * to.stride, to.cols);
        });
    };
    const Kernels& kernels = *context.kernels;
    if (from.dtype == DType::kF32 && to.dtype == DType::kF32) {
        rows(from.f32(), to.f32(), kernels.f32.convert.from_float);
    } else if (from.dtype == DType::kF32) {
        rows(from.f32(), to.b16(), kernels.b16.convert.from_float);
    } else if (to.dtype == DType::kF32) {
        rows(from.b16(), to.f32(), kernels.b16.convert.to_float);
    } else {
        rows(from.b16(), to.b16(), kernels.b16.convert.copy);
    }
}

void add(const CpuContext& context, const Tensor& x, const Tensor& y) {
    check_shape(y, x.rows, x.cols);
    float* to = x.f32();
    with_type(y.dtype, [&]<class E>(E) {
        const E* from = pointer<E>(y);
        const auto kernel = context.kernels->of<E>().convert.add;
        parallel_blocks(context.threads, x.rows, [&](int, std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row)
                kernel(to + row * x.stride, from + row * y.stride, x.cols);
        });
    });
}

}  // namespace isthmus::inner::cpu
