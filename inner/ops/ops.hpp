// The op contract: what every backend computes. One table (this class) per backend.
//
// Rules that hold for every op, so that an asynchronous device fits:
//   ASYNC     ops are enqueued on the stream, in order; results are there after
//   synchronize(stream).
//             Host arguments (the structs) are read before the call returns.
//   MEMORY    ops write only where the struct says; outputs need no initial value unless
//   "accumulate".
//             They allocate nothing after their shape's first call; scratch comes in as
//             `workspace`.
//   ERRORS    none: shapes and dtypes are CHECKed, a device fault throws Fatal in synchronize.
//   BITS      same build, kind of processor, thread count and arguments: same bits. Reductions run
//   in
//             a fixed order. Sums are fp32 within a block and never depend on arrival order.
//   DTYPE     "E" is the compute type, fp32 or bf16, one for all E tensors of a call. Arithmetic is
//             fp32 whatever E is; stores to bf16 round to nearest even.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "inner/ops/tensor.hpp"

namespace isthmus::inner {

/// Names an ordered queue of work. The CPU has one, and works at once.
struct Stream {
    std::uint32_t index = 0;
};

/// A weight matrix as GEMMs want it. `plain` is [out, in] in the compute type: for fp32 the master
/// parameters themselves, for bf16 a copy. `packed` is the backend's own layout of the same values.
struct Weight {
    std::int64_t out = 0;
    std::int64_t in = 0;
    Tensor plain;
    void* packed =
        nullptr;  ///< packed_bytes(out, in, dtype) bytes, 64-byte aligned; null if that is 0
};

/// What the loss op needs for a run of rows.
struct CrossEntropyArgs {
    Tensor logits;  ///< fp32 [R, V] (stride may exceed V); may be overwritten
    const std::int32_t* targets = nullptr;  ///< [R]; -1 = not counted (loss 0, gradient 0)
    float gradient_scale = 0;               ///< multiplies (softmax - onehot)
    float* loss = nullptr;                  ///< [R] nats; 0 where the target is -1
    Tensor dlogits;  ///< E [R, V]; may alias logits when E is fp32; null data: loss only
};

/// Norms over the last dimension, fused with the residual add that precedes them.
/// RMSNorm (arXiv:1910.07467): y = x / sqrt(mean(x^2) + eps) * w.  LayerNorm (arXiv:1607.06450):
/// with mean subtracted and bias added. `bias` null selects RMSNorm.
struct NormForwardArgs {
    Tensor x;    ///< fp32 [R, D], the residual stream
    Tensor add;  ///< E [R, D] or null data: added to x first
    Tensor sum;  ///< fp32 [R, D]: x + add; may alias x; null data when add is null
    const float* weight = nullptr;  ///< [D]
    const float* bias = nullptr;    ///< [D] or null
    float eps = 0;
    Tensor y;               ///< E [R, D]
    float* mean = nullptr;  ///< [R], LayerNorm only
    float* rstd = nullptr;  ///< [R]; null when no backward follows
};

struct NormBackwardArgs {
    Tensor dy;  ///< E [R, D]
    Tensor x;   ///< fp32 [R, D]: what was normalised (the `sum` of the forward)
    const float* weight = nullptr;
    const float* mean = nullptr;  ///< null selects RMSNorm
    const float* rstd = nullptr;
    Tensor dx;       ///< fp32 [R, D]: the norm's gradient is ADDED to it
    Tensor dx_copy;  ///< E [R, D] or null data: the final dx, rounded (input of the next GEMM)
    float* dweight = nullptr;    ///< [D], added to
    float* dbias = nullptr;      ///< [D] or null, added to
    float* workspace = nullptr;  ///< norm_workspace_floats(R, D)
};

/// RMSNorm of each head's slice (Qwen3's q/k norm), in place on a column range of qkv.
struct HeadNormArgs {
    Tensor x;  ///< E [R, heads * head_dim], strided view; normalised in place (forward)
    std::int64_t head_dim = 0;
    const float* weight = nullptr;  ///< [head_dim]
    float eps = 0;
    Tensor saved;  ///< E [R, heads * head_dim]: forward stores the input, backward reads it
    float* rstd = nullptr;       ///< [R, heads]
    float* dweight = nullptr;    ///< backward: [head_dim], added to
    float* workspace = nullptr;  ///< backward: norm_workspace_floats(R, head_dim)
};

/// Rotary embedding (arXiv:2104.09864), half-split layout as in Hugging Face's llama:
/// (a, b) = halves of a head; a' = a cos - b sin, b' = b cos + a sin. In place.
struct RopeArgs {
    Tensor x;  ///< E [R, heads * head_dim], strided view
    std::int64_t head_dim = 0;
    std::int64_t sequence = 0;  ///< row r is at position first_position + r % sequence
    std::int64_t first_position = 0;
    const float* cos = nullptr;  ///< [positions, head_dim / 2]
    const float* sin = nullptr;
    bool inverse = false;  ///< true: the backward (rotation by the negative angle)
};

/// Causal grouped-query attention with an optional sliding window (a query sees itself and the
/// window - 1 keys before it; 0 = all). Online softmax in blocks (FlashAttention-2,
/// arXiv:2307.08691).
struct AttentionArgs {
    std::int64_t batch = 0, sequence = 0, heads = 0, kv_heads = 0, head_dim = 0;
    float scale = 0;  ///< usually 1 / sqrt(head_dim)
    std::int64_t window = 0;
    Tensor qkv;  ///< E [B*T, (H + 2 KV) * hd]: q heads, then k heads, then v heads
    Tensor out;  ///< E [B*T, H * hd]; backward reads it
    float* lse =
        nullptr;  ///< [B, H, T] log-sum-exp of scaled scores; null when no backward follows
    void* workspace = nullptr;  ///< attention_workspace_bytes(args)
};
struct AttentionBackwardArgs {
    AttentionArgs forward;
    Tensor dout;  ///< E [B*T, H * hd]
    Tensor dqkv;  ///< E [B*T, (H + 2 KV) * hd], written
};

/// One query row a sequence against a cache of keys and values (generation).
struct AttentionDecodeArgs {
    std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
    float scale = 0;
    std::int64_t window = 0;
    std::int64_t length = 0;     ///< keys in the cache, this position's included
    Tensor q;                    ///< E [1, H * hd]
    Tensor keys;                 ///< E [capacity, KV * hd]
    Tensor values;               ///< E [capacity, KV * hd]
    Tensor out;                  ///< E [1, H * hd]
    float* workspace = nullptr;  ///< length * heads floats
};

/// AdamW with decoupled decay (arXiv:1711.05101) on a run of elements.
///   m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2;  p = p (1 - lr wd) - lr (m/c1) / (sqrt(v/c2) +
///   eps)
/// with g = gradient * gradient_scale and c1, c2 = 1 - b^t.
struct AdamWArgs {
    std::int64_t count = 0;
    float* parameters = nullptr;
    const float* gradients = nullptr;
    float* first_moment = nullptr;
    float* second_moment = nullptr;
    bf16* copy = nullptr;  ///< the new parameters rounded, or null
    float gradient_scale = 1;
    float learning_rate = 0, beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0;
    float correction1 = 1, correction2 = 1;
};

class Ops {
  public:
    virtual ~Ops() = default;

    /// e.g. "cpu avx512 bf16, 2 threads".
    virtual std::string name() const = 0;
    virtual void synchronize(Stream) = 0;

    // --- GEMMs
    // ------------------------------------------------------------------------------------
    /// Bytes of `Weight::packed`; 0 when the backend's GEMM is as fast on the plain layout.
    virtual std::int64_t packed_bytes(std::int64_t out, std::int64_t in, DType) const = 0;
    /// Lays `plain` out into `packed`: once an optimizer step, never once a micro-batch.
    virtual void pack(Stream, const Weight&) = 0;
    /// y[M, out] = x[M, in] W^T (+ bias). x: E. y: E or fp32. bias: [out] fp32 or null.
    virtual void linear(Stream, const Tensor& x, const Weight&, const float* bias,
                        const Tensor& y) = 0;
    /// dx[M, in] = dy[M, out] W. dy: E. dx: E or fp32.
    virtual void linear_input_gradient(Stream, const Tensor& dy, const Weight&,
                                       const Tensor& dx) = 0;
    /// dw[out, in] (+)= dy^T x, fp32; dbias[out] (+)= column sums of dy, or null.
    /// accumulate false overwrites. workspace: linear_workspace_bytes(M, out, in, E), 64-byte
    /// aligned.
    virtual void linear_weight_gradient(Stream, const Tensor& dy, const Tensor& x, const Tensor& dw,
                                        float* dbias, bool accumulate, void* workspace) = 0;
    virtual std::int64_t linear_workspace_bytes(std::int64_t m, std::int64_t out, std::int64_t in,
                                                DType) const = 0;

    // --- Fused remainder
    // ---------------------------------------------------------------------------
    virtual void norm(Stream, const NormForwardArgs&) = 0;
    virtual void norm_backward(Stream, const NormBackwardArgs&) = 0;
    virtual void head_norm(Stream, const HeadNormArgs&) = 0;
    /// x holds dy on entry and dx on exit (E, in place).
    virtual void head_norm_backward(Stream, const HeadNormArgs&) = 0;
    virtual std::int64_t norm_workspace_floats(std::int64_t rows, std::int64_t dim) const = 0;
    virtual void rope(Stream, const RopeArgs&) = 0;

    virtual void attention(Stream, const AttentionArgs&) = 0;
    virtual void attention_backward(Stream, const AttentionBackwardArgs&) = 0;
    virtual std::int64_t attention_workspace_bytes(const AttentionArgs&) const = 0;
    virtual void attention_decode(Stream, const AttentionDecodeArgs&) = 0;

    /// a[R, F] = silu(g) * u with gu[R, 2F] = (g | u) (arXiv:2002.05202). All E.
    virtual void swiglu(Stream, const Tensor& gu, const Tensor& a) = 0;
    /// dgu from da; also rewrites a (recomputed, so that the forward need not keep it). dgu may
    /// alias gu, a may alias da.
    virtual void swiglu_backward(Stream, const Tensor& gu, const Tensor& da, const Tensor& dgu,
                                 const Tensor& a) = 0;
    /// a = gelu_tanh(u) (arXiv:1606.08415, tanh form). All E.
    virtual void gelu(Stream, const Tensor& u, const Tensor& a) = 0;
    /// du from da; also rewrites a. du may alias u, a may alias da.
    virtual void gelu_backward(Stream, const Tensor& u, const Tensor& da, const Tensor& du,
                               const Tensor& a) = 0;

    /// x[r] = tokens_table[ids[r]] + positions_table[first_position + r % sequence]
    /// (positions_table null data: none). Tables fp32, x fp32.
    virtual void embedding(Stream, const std::int32_t* ids, const Tensor& table,
                           const Tensor& positions, std::int64_t sequence,
                           std::int64_t first_position, const Tensor& x) = 0;
    /// dtable[ids[r]] += dx[r] in ascending r; dpositions[r % sequence] += dx[r]. All fp32.
    virtual void embedding_backward(Stream, const std::int32_t* ids, const Tensor& dx,
                                    const Tensor& dtable, const Tensor& dpositions,
                                    std::int64_t sequence) = 0;

    virtual void cross_entropy(Stream, const CrossEntropyArgs&) = 0;

    // --- Flat buffers
    // ------------------------------------------------------------------------------
    virtual void adamw(Stream, const AdamWArgs&) = 0;
    /// out[i] = sum of squares of block i of `block` elements (the last may be short), fp64.
    virtual void block_sum_squares(Stream, std::span<const float> x, std::int64_t block,
                                   double* out) = 0;
    virtual void fill(Stream, std::span<float> x, float value) = 0;
    /// to = from, converted; same rows and cols.
    virtual void convert(Stream, const Tensor& from, const Tensor& to) = 0;
    /// x[R, D] (fp32) += y[R, D] (E).
    virtual void add(Stream, const Tensor& x, const Tensor& y) = 0;
};

}  // namespace isthmus::inner
