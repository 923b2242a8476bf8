// The CPU's ops as functions of a context: one .cpp a family, each testable without the others.
// CpuOps (cpu_ops.cpp) forwards to them; inner/ops/ops.hpp says what they compute.
// The GEMMs keep oneDNN's state, so they are a class: inner/cpu/linear.hpp.
#pragma once

#include "inner/cpu/kernels.hpp"
#include "inner/ops/ops.hpp"

namespace isthmus::inner::cpu {

// norm.cpp
void norm(const CpuContext&, const NormForwardArgs&);
void norm_backward(const CpuContext&, const NormBackwardArgs&);
void head_norm(const CpuContext&, const HeadNormArgs&);
void head_norm_backward(const CpuContext&, const HeadNormArgs&);
std::int64_t norm_workspace_floats(std::int64_t rows, std::int64_t dim);
void rope(const CpuContext&, const RopeArgs&);

// attention.cpp
void attention(const CpuContext&, const AttentionArgs&);
void attention_backward(const CpuContext&, const AttentionBackwardArgs&);
std::int64_t attention_workspace_bytes(const CpuContext&, const AttentionArgs&);
void attention_decode(const CpuContext&, const AttentionDecodeArgs&);

// elementwise.cpp
void swiglu(const CpuContext&, const Tensor& gu, const Tensor& a);
void swiglu_backward(const CpuContext&, const Tensor& gu, const Tensor& da, const Tensor& dgu,
                     const Tensor& a);
void gelu(const CpuContext&, const Tensor& u, const Tensor& a);
void gelu_backward(const CpuContext&, const Tensor& u, const Tensor& da, const Tensor& du,
                   const Tensor& a);
void fill(const CpuContext&, std::span<float> x, float value);
void convert(const CpuContext&, const Tensor& from, const Tensor& to);
void add(const CpuContext&, const Tensor& x, const Tensor& y);

// embedding.cpp
void embedding(const CpuContext&, const std::int32_t* ids, const Tensor& table,
               const Tensor& positions, std::int64_t sequence, std::int64_t first_position,
               const Tensor& x);
void embedding_backward(const CpuContext&, const std::int32_t* ids, const Tensor& dx,
                        const Tensor& dtable, const Tensor& dpositions, std::int64_t sequence);

// cross_entropy.cpp
void cross_entropy(const CpuContext&, const CrossEntropyArgs&);

// optimizer.cpp
void adamw(const CpuContext&, const AdamWArgs&);
void block_sum_squares(const CpuContext&, std::span<const float> x, std::int64_t block,
                       double* out);

}  // namespace isthmus::inner::cpu
