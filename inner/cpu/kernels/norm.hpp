// Norm, head norm and rotary kernels, each on rows [begin, end).
#pragma once

#include <cstdint>

#include "base/bf16.hpp"

namespace isthmus::inner {

/// Rows whose weight gradients are summed together; partial sums are then added in ascending order,
/// so the result does not depend on the number of threads.
constexpr std::int64_t kNormBlockRows = 64;

/// As NormForwardArgs and NormBackwardArgs, with plain pointers. Strides in elements.
template <class E>
struct NormKernelArgs {
    std::int64_t dim;
    const float* x;
    std::int64_t x_stride;
    const E* add;
    std::int64_t add_stride;
    float* sum;
    std::int64_t sum_stride;
    const float* weight;
    const float* bias;
    float eps;
    E* y;
    std::int64_t y_stride;
    float* mean;
    float* rstd;
};
template <class E>
struct NormBackwardKernelArgs {
    std::int64_t dim;
    const E* dy;
    std::int64_t dy_stride;
    const float* x;
    std::int64_t x_stride;
    const float* weight;
    const float* mean;
    const float* rstd;
    float* dx;
    std::int64_t dx_stride;
    E* dx_copy;
    std::int64_t dx_copy_stride;
    float* partial;  ///< [blocks, 2, dim]: dweight, dbias of each block of kNormBlockRows rows
};
template <class E>
struct HeadNormKernelArgs {
    std::int64_t heads;
    std::int64_t head_dim;
    E* x;
    std::int64_t x_stride;
    const float* weight;
    float eps;
    E* saved;
    std::int64_t saved_stride;
    float* rstd;
    float* partial;  ///< [blocks, head_dim]
};
template <class E>
struct RopeKernelArgs {
    std::int64_t heads;
    std::int64_t head_dim;
    E* x;
    std::int64_t x_stride;
    std::int64_t sequence;
    std::int64_t first_position;
    const float* cos;
    const float* sin;
    bool inverse;
};

/// begin of the backward kernels is a multiple of kNormBlockRows.
template <class E>
struct NormKernels {
    void (*forward)(const NormKernelArgs<E>&, std::int64_t begin, std::int64_t end);
    void (*backward)(const NormBackwardKernelArgs<E>&, std::int64_t begin, std::int64_t end);
    void (*head_forward)(const HeadNormKernelArgs<E>&, std::int64_t begin, std::int64_t end);
    void (*head_backward)(const HeadNormKernelArgs<E>&, std::int64_t begin, std::int64_t end);
    void (*rope)(const RopeKernelArgs<E>&, std::int64_t begin, std::int64_t end);
};

}  // namespace isthmus::inner
