// From tensors to the element type of a kernel, and checks that every op makes.
#pragma once

#include <type_traits>

#include "inner/ops/tensor.hpp"

namespace isthmus::inner::cpu {

/// The tensor's elements, or null when it has no data.
template <class E>
E* pointer(const Tensor& t) {
    if constexpr (std::is_same_v<E, float>) {
        return t ? t.f32() : nullptr;
    } else {
        return t ? t.b16() : nullptr;
    }
}

/// Calls fn with a value of the element type: with_type(dtype, [&]<class E>(E) { ... }).
template <class Fn>
void with_type(DType dtype, Fn&& fn) {
    if (dtype == DType::kF32) {
        fn(float{});
    } else {
        fn(bf16{});
    }
}

inline void check_shape(const Tensor& t, std::int64_t rows, std::int64_t cols) {
    CHECK(t.rows == rows && t.cols == cols && t.stride >= cols,
          "{} x {} (stride {}), wanted {} x {}", t.rows, t.cols, t.stride, rows, cols);
}

}  // namespace isthmus::inner::cpu
