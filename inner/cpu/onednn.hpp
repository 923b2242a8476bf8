// oneDNN's matrix product, with the primitives made for each shape. onednn.cpp alone includes its
// header: version 3 has another way of describing operations.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>

#include "inner/ops/tensor.hpp"

namespace isthmus::inner::cpu {

/// SHAPE  C[m, n] = A[m, k] B[k, n], plus bias[n] (fp32) on every row, plus C itself. Strides in
///        elements, of the matrix as it lies in memory: a transposed A is [k, m] there.
struct Matmul {
    std::int64_t m = 0, n = 0, k = 0;
    std::int64_t a_stride = 0, b_stride = 0, c_stride = 0;
    bool a_transposed = false;
    bool b_transposed = false;
    bool b_packed = false;  ///< b is what pack() wrote; b_stride and b_transposed are unused
    bool bias = false;
    bool accumulate = false;
    DType operands = DType::kF32;
    DType result = DType::kF32;
    auto operator<=>(const Matmul&) const = default;
};

/// THREAD  one at a time. Uses `threads` OpenMP threads of the calling thread.
/// ERRORS  throws Fatal(kResources) when oneDNN has no fast implementation of a shape.
class OneDnn {
  public:
    explicit OneDnn(int threads);
    ~OneDnn();

    /// Whether this shape runs on the batch-reduce kernels (AVX-512). The older "gemm:jit"
    /// allocates in every call.
    bool is_fast(const Matmul&);

    /// Whether oneDNN has nothing but plain loops for this shape and it is large: run() refuses it.
    /// That may be few rows times packed weights.
    bool is_slow(const Matmul&);

    /// Bytes of B[k, n] in the layout that the implementation prefers; 0 when that is the plain
    /// one.
    std::int64_t packed_bytes(std::int64_t k, std::int64_t n, DType);
    /// Lays B out. `transposed`: plain is [n, k] in memory.
    void pack(std::int64_t k, std::int64_t n, DType, const void* plain, std::int64_t stride,
              bool transposed, void* packed);

    /// Makes the primitive at a shape's first call and allocates nothing of ours after.
    void run(const Matmul&, const void* a, const void* b, const float* bias, void* c);

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace isthmus::inner::cpu
