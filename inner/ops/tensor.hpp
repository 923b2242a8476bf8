// What ops work on: 2-D row-major views into buffers that were planned beforehand. Views own
// nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bf16.hpp"
#include "base/check.hpp"

namespace isthmus::inner {

enum class DType : std::uint8_t { kF32, kBF16 };

constexpr std::int64_t bytes_of(DType dtype) {
    return dtype == DType::kF32 ? 4 : 2;
}

/// SHAPE  rows x cols elements of dtype; row r starts at element r * stride.
struct Tensor {
    void* data = nullptr;
    DType dtype = DType::kF32;
    std::int64_t rows = 0;
    std::int64_t cols = 0;
    std::int64_t stride = 0;

    float* f32() const {
        CHECK(dtype == DType::kF32);
        return static_cast<float*>(data);
    }
    bf16* b16() const {
        CHECK(dtype == DType::kBF16);
        return static_cast<bf16*>(data);
    }
    bool contiguous() const { return stride == cols; }
    explicit operator bool() const { return data != nullptr; }

    /// Rows [first, first + count) of this tensor.
    Tensor row_range(std::int64_t first, std::int64_t count) const {
        CHECK(first >= 0 && count >= 0 && first + count <= rows);
        auto* at = static_cast<std::byte*>(data) + first * stride * bytes_of(dtype);
        return {at, dtype, count, cols, stride};
    }
    /// Columns [first, first + count) of this tensor, as a strided view.
    Tensor col_range(std::int64_t first, std::int64_t count) const {
        CHECK(first >= 0 && count >= 0 && first + count <= cols);
        auto* at = static_cast<std::byte*>(data) + first * bytes_of(dtype);
        return {at, dtype, rows, count, stride};
    }
};

inline Tensor tensor_of(float* data, std::int64_t rows, std::int64_t cols) {
    return {data, DType::kF32, rows, cols, cols};
}
inline Tensor tensor_of(bf16* data, std::int64_t rows, std::int64_t cols) {
    return {data, DType::kBF16, rows, cols, cols};
}

}  // namespace isthmus::inner
