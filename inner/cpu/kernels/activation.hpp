// SwiGLU and GELU, each on rows [begin, end).
#pragma once

#include <cstdint>

#include "base/bf16.hpp"

namespace isthmus::inner {

/// One 2-D operand. Stride in elements.
template <class E>
struct Rows {
    E* data;
    std::int64_t stride;
};

/// SwiGLU: in = (g | u), each `cols` wide. GELU: in = u. Backward: gradient and out_gradient are
/// d loss / d out and d loss / d in; out is written again.
template <class E>
struct ActivationKernelArgs {
    std::int64_t cols;
    Rows<const E> in;
    Rows<E> out;
    Rows<const E> out_gradient;
    Rows<E> in_gradient;
};

template <class E>
struct ActivationKernels {
    void (*swiglu)(const ActivationKernelArgs<E>&, std::int64_t begin, std::int64_t end);
    void (*swiglu_backward)(const ActivationKernelArgs<E>&, std::int64_t begin, std::int64_t end);
    void (*gelu)(const ActivationKernelArgs<E>&, std::int64_t begin, std::int64_t end);
    void (*gelu_backward)(const ActivationKernelArgs<E>&, std::int64_t begin, std::int64_t end);
};

}  // namespace isthmus::inner
