// The GEMM ops: which matrix product runs, and the state it keeps (primitives by shape, scratch).
#pragma once

#include <memory>

#include "inner/cpu/kernels.hpp"
#include "inner/ops/ops.hpp"

namespace isthmus::inner::cpu {

/// The GEMM ops of inner/ops/ops.hpp.
/// THREAD  one at a time.
class Linear {
  public:
    Linear(const CpuContext&, const CpuOptions&);
    ~Linear();

    std::int64_t packed_bytes(std::int64_t out, std::int64_t in, DType) const;
    void pack(const Weight&);
    void linear(const Tensor& x, const Weight&, const float* bias, const Tensor& y);
    void linear_input_gradient(const Tensor& dy, const Weight&, const Tensor& dx);
    void linear_weight_gradient(const Tensor& dy, const Tensor& x, const Tensor& dw, float* dbias,
                                bool accumulate, void* workspace);
    std::int64_t linear_workspace_bytes(std::int64_t m, std::int64_t out, std::int64_t in,
                                        DType) const;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace isthmus::inner::cpu
