// Our own fp32 matrix product: packed panels and a register tile (Goto and van de Geijn 2008;
// BLIS).
//
// It is used where oneDNN has only its older "gemm:jit" (no AVX-512): that one allocates 16 KB
// to 3.5 MB in every call, runs the weight gradient at 60 to 75 per cent of this one's rate and a
// weight with a row stride of 12 KB at half of it.
//
// BITS  an element of C is one chain of multiply-adds over each block of K, blocks added in
// ascending
//       order. Where the caller cuts C into parts (threads) has no influence.
#pragma once

#include <cstdint>

namespace isthmus::inner {

/// K is cut into the fewest equal blocks of at most this: a panel of B is then 24 KB, within L1.
constexpr std::int64_t kGemmBlockK = 384;
constexpr std::int64_t kGemmBlockN = 1024;
constexpr std::int64_t kGemmBlockM = 96;
/// Rows times columns of the widest tile.
constexpr std::int64_t kGemmEdgeFloats = 12 * 32;
/// Packed blocks of A and B, and room for one tile at the edge.
constexpr std::int64_t kGemmScratchFloats =
    kGemmBlockK * (kGemmBlockN + kGemmBlockM) + kGemmEdgeFloats;

/// SHAPE  C[m, n] (+)= A[m, k] B[k, n] (+ bias[n] on every row). Strides in elements.
struct GemmArgs {
    std::int64_t m, n, k;
    const float* a;
    std::int64_t a_stride;
    bool a_transposed;  ///< false: A(i, p) = a[i * a_stride + p]; true: a[p * a_stride + i]
    const float* b;
    std::int64_t b_stride;
    bool b_transposed;  ///< false: B(p, j) = b[p * b_stride + j]; true: b[j * b_stride + p]
    float* c;
    std::int64_t c_stride;
    const float* bias;  ///< or null; REQUIRES !accumulate
    bool accumulate;
    float* scratch;  ///< kGemmScratchFloats, 64-byte aligned
};

struct GemmKernels {
    int tile_rows;  ///< C is best cut at multiples of these
    int tile_cols;
    void (*gemm)(const GemmArgs&);
    /// The same for few rows, as dot products straight from B's rows: reads B once, packs nothing.
    /// REQUIRES !a_transposed, b_transposed, !accumulate. Other bits than gemm.
    void (*dots)(const GemmArgs&);
};

}  // namespace isthmus::inner
