// AdamW, sums and conversions over flat buffers and rows.
#pragma once

#include <cstdint>

#include "base/bf16.hpp"

namespace isthmus::inner {

/// Threads get flat buffers in multiples of this: less than that is not worth waking one.
constexpr std::int64_t kFlatBlock = 4096;

/// As AdamWArgs, with what is constant over the run worked out: step = learning_rate / correction1.
struct AdamWKernelArgs {
    float* parameters;
    const float* gradients;
    float* first_moment;
    float* second_moment;
    bf16* copy;  ///< or null
    float gradient_scale;
    float one_minus_beta1, one_minus_beta2;
    float eps;
    float decay;  ///< learning_rate * weight_decay
    float step;
    float inverse_correction2;
};

/// Elements [begin, end) throughout.
struct FlatKernels {
    void (*adamw)(const AdamWKernelArgs&, std::int64_t begin, std::int64_t end);
    void (*fill)(float* x, float value, std::int64_t begin, std::int64_t end);
    /// In fp64: element i goes to sum i % 16, and the sixteen are added as a tree. The square of a
    /// float is exact in fp64, so every instruction set gives the same bits.
    double (*sum_squares)(const float* x, std::int64_t n);
};

/// Kernels on E. Row functions work on n elements of one row.
template <class E>
struct ConvertKernels {
    void (*from_float)(const float* from, E* to, std::int64_t n);
    void (*to_float)(const E* from, float* to, std::int64_t n);
    void (*copy)(const E* from, E* to, std::int64_t n);
    /// to += from.
    void (*add)(float* to, const E* from, std::int64_t n);
    /// out[j] (+)= sum over rows of x(row, j), for columns [begin, end). Rows are summed in blocks
    /// of 64, then the blocks, all ascending.
    void (*column_sums)(const E* x, std::int64_t stride, std::int64_t rows, float* out,
                        bool accumulate, std::int64_t begin, std::int64_t end);
};

}  // namespace isthmus::inner
