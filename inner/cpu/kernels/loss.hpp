// Softmax cross-entropy and the token embedding.
#pragma once

#include <cstdint>

#include "base/bf16.hpp"

namespace isthmus::inner {

/// As CrossEntropyArgs; E is the type of dlogits. Strides in elements.
template <class E>
struct CrossEntropyKernelArgs {
    std::int64_t vocab;
    float* logits;
    std::int64_t logits_stride;
    const std::int32_t* targets;
    float gradient_scale;
    float* loss;
    E* dlogits;  ///< or null; may be the logits
    std::int64_t dlogits_stride;
};

template <class E>
struct LossKernels {
    /// Rows [begin, end).
    void (*cross_entropy)(const CrossEntropyKernelArgs<E>&, std::int64_t begin, std::int64_t end);
};

struct EmbeddingKernelArgs {
    const std::int32_t* ids;
    std::int64_t rows;
    std::int64_t cols;
    std::int64_t sequence;
    std::int64_t first_position;
    float* table;
    std::int64_t table_stride;
    float* positions;  ///< or null
    std::int64_t positions_stride;
    float* x;  ///< backward: dx
    std::int64_t x_stride;
};

struct EmbeddingKernels {
    /// x's rows [begin, end).
    void (*forward)(const EmbeddingKernelArgs&, std::int64_t begin, std::int64_t end);
    /// Adds columns [begin, end) of every row of x to table and positions, rows ascending.
    void (*backward)(const EmbeddingKernelArgs&, std::int64_t begin, std::int64_t end);
};

}  // namespace isthmus::inner
