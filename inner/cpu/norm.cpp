// Norm, head norm and rotary ops: rows are split over threads, kernels do the rest.
#include <algorithm>

#include "inner/cpu/dispatch.hpp"
#include "inner/cpu/functions.hpp"
#include "inner/cpu/parallel.hpp"

namespace isthmus::inner::cpu {
namespace {

std::int64_t blocks_of(std::int64_t rows) {
    return (rows + kNormBlockRows - 1) / kNormBlockRows;
}

/// out[i] += partial[0][i] + partial[1][i] + ..., in ascending order of blocks.
void add_partials(const float* partial, std::int64_t blocks, std::int64_t stride, std::int64_t n,
                  float* out) {
    for (std::int64_t block = 0; block < blocks; ++block)
        for (std::int64_t i = 0; i < n; ++i) out[i] += partial[block * stride + i];
}

template <class E>
void norm_typed(const CpuContext& context, const NormForwardArgs& a) {
    const NormKernelArgs<E> args = {a.x.cols,        a.x.f32(),
                                    a.x.stride,      pointer<E>(a.add),
                                    a.add.stride,    pointer<float>(a.sum),
                                    a.sum.stride,    a.weight,
                                    a.bias,          a.eps,
                                    pointer<E>(a.y), a.y.stride,
                                    a.mean,          a.rstd};
    const auto kernel = context.kernels->of<E>().norm.forward;
    parallel_blocks(context.threads, a.x.rows,
                    [&](int, std::int64_t begin, std::int64_t end) { kernel(args, begin, end); });
}

template <class E>
void norm_backward_typed(const CpuContext& context, const NormBackwardArgs& a) {
    const std::int64_t rows = a.x.rows;
    const std::int64_t dim = a.x.cols;
    const NormBackwardKernelArgs<E> args = {dim,
                                            pointer<E>(a.dy),
                                            a.dy.stride,
                                            a.x.f32(),
                                            a.x.stride,
                                            a.weight,
                                            a.mean,
                                            a.rstd,
                                            a.dx.f32(),
                                            a.dx.stride,
                                            pointer<E>(a.dx_copy),
                                            a.dx_copy.stride,
                                            a.workspace};
    const auto kernel = context.kernels->of<E>().norm.backward;
    parallel_blocks(
        context.threads, rows,
        [&](int, std::int64_t begin, std::int64_t end) { kernel(args, begin, end); },
        kNormBlockRows);
    add_partials(a.workspace, blocks_of(rows), 2 * dim, dim, a.dweight);
    if (a.dbias != nullptr) add_partials(a.workspace + dim, blocks_of(rows), 2 * dim, dim, a.dbias);
}

template <class E>
HeadNormKernelArgs<E> head_norm_args(const HeadNormArgs& a) {
    return {a.x.cols / a.head_dim, a.head_dim,     pointer<E>(a.x), a.x.stride, a.weight, a.eps,
            pointer<E>(a.saved),   a.saved.stride, a.rstd,          a.workspace};
}

}  // namespace

void norm(const CpuContext& context, const NormForwardArgs& a) {
    check_shape(a.y, a.x.rows, a.x.cols);
    if (a.add) {
        check_shape(a.add, a.x.rows, a.x.cols);
        check_shape(a.sum, a.x.rows, a.x.cols);
        CHECK(a.add.dtype == a.y.dtype);
    }
    CHECK(a.weight != nullptr);
    with_type(a.y.dtype, [&]<class E>(E) { norm_typed<E>(context, a); });
}

void norm_backward(const CpuContext& context, const NormBackwardArgs& a) {
    check_shape(a.dy, a.x.rows, a.x.cols);
    check_shape(a.dx, a.x.rows, a.x.cols);
    CHECK(a.weight != nullptr && a.rstd != nullptr && a.dweight != nullptr);
    CHECK(a.workspace != nullptr || a.x.rows == 0);
    CHECK(a.dbias == nullptr || a.mean != nullptr, "dbias without LayerNorm's mean");
    if (a.dx_copy) {
        check_shape(a.dx_copy, a.x.rows, a.x.cols);
        CHECK(a.dx_copy.dtype == a.dy.dtype);
    }
    with_type(a.dy.dtype, [&]<class E>(E) { norm_backward_typed<E>(context, a); });
}

void head_norm(const CpuContext& context, const HeadNormArgs& a) {
    CHECK(a.head_dim > 0 && a.x.cols % a.head_dim == 0 && a.weight != nullptr);
    if (a.saved) {
        check_shape(a.saved, a.x.rows, a.x.cols);
        CHECK(a.saved.dtype == a.x.dtype);
    }
    with_type(a.x.dtype, [&]<class E>(E) {
        const auto args = head_norm_args<E>(a);
        const auto kernel = context.kernels->of<E>().norm.head_forward;
        parallel_blocks(context.threads, a.x.rows, [&](int, std::int64_t begin, std::int64_t end) {
            kernel(args, begin, end);
        });
    });
}

void head_norm_backward(const CpuContext& context, const HeadNormArgs& a) {
    CHECK(a.head_dim > 0 && a.x.cols % a.head_dim == 0 && a.weight != nullptr);
    check_shape(a.saved, a.x.rows, a.x.cols);
    CHECK(a.saved.dtype == a.x.dtype && a.rstd != nullptr && a.dweight != nullptr);
    CHECK(a.workspace != nullptr || a.x.rows == 0);
    with_type(a.x.dtype, [&]<class E>(E) {
        const auto args = head_norm_args<E>(a);
        const auto kernel = context.kernels->of<E>().norm.head_backward;
        parallel_blocks(
            context.threads, a.x.rows,
            [&](int, std::int64_t begin, std::int64_t end) { kernel(args, begin, end); },
            kNormBlockRows);
    });
    add_partials(a.workspace, blocks_of(a.x.rows), a.head_dim, a.head_dim, a.dweight);
}

std::int64_t norm_workspace_floats(std::int64_t rows, std::int64_t dim) {
    return blocks_of(rows) * 2 * dim;
}

void rope(const CpuContext& context, const RopeArgs& a) {
    CHECK(a.head_dim > 0 && a.head_dim % 2 == 0 && a.x.cols % a.head_dim == 0 && a.sequence > 0);
    with_type(a.x.dtype, [&]<class E>(E) {
        const RopeKernelArgs<E> args = {
            a.x.cols / a.head_dim, a.head_dim, pointer<E>(a.x), a.x.stride, a.sequence,
            a.first_position,      a.cos,      a.sin,           a.inverse};
        const auto kernel = context.kernels->of<E>().norm.rope;
        parallel_blocks(context.threads, a.x.rows, [&](int, std::int64_t begin, std::int64_t end) {
            kernel(args, begin, end);
        });
    });
}

}  // namespace isthmus::inner::cpu
