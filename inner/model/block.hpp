// One transformer block: explicit forward and hand-derived backward over the op contract.
//
//   forward    x1 = x + add;  h1 = norm(x1);  qkv = h1 Wqkv;  [q/k norm];  rope;  att =
//   attention(qkv)
//              x2 = x1 + att Wo;  h2 = norm(x2);  u = h2 Wup;  a = activation(u);  out = a Wdown
// The block's result is the pair (x2, out): the next norm adds the two in its own pass, so that the
// residual stream is read and written once. The stream is fp32 whatever the compute type.
#pragma once

#include <functional>
#include <optional>

#include "inner/model/config.hpp"
#include "inner/model/rope_table.hpp"
#include "inner/model/unit_buffers.hpp"
#include "inner/ops/buffer_plan.hpp"
#include "inner/ops/ops.hpp"

namespace isthmus::inner {

/// A buffer of the plan and, once bound, its tensor.
struct Slot {
    BufferId id;
    DType dtype = DType::kF32;
    std::int64_t rows = 0, cols = 0;
    Tensor tensor;

    static Slot declare(BufferPlan&, const std::string& name, const std::string& group, DType,
                        std::int64_t rows, std::int64_t cols, Lifetime);
    void bind(const BufferPlan&, const Arena&);
    explicit operator bool() const { return static_cast<bool>(id); }
    /// The first `count` rows; a null tensor when the slot was never declared.
    Tensor first(std::int64_t count) const {
        return tensor.data == nullptr ? Tensor{} : tensor.row_range(0, count);
    }
    float* floats() const { return tensor.data == nullptr ? nullptr : tensor.f32(); }
};

/// How many rows the current call works on: at most what was planned.
struct BatchShape {
    std::int64_t batch = 0;
    std::int64_t sequence = 0;
    std::int64_t rows() const { return batch * sequence; }
};

/// A block's parameters and gradients, looked up once.
struct BlockWeights {
    Weight qkv, attention_out, up, down;
    const float *norm1 = nullptr, *norm1_bias = nullptr, *norm2 = nullptr, *norm2_bias = nullptr;
    const float *qkv_bias = nullptr, *attention_out_bias = nullptr, *up_bias = nullptr,
                *down_bias = nullptr, *q_norm = nullptr, *k_norm = nullptr;
};
struct BlockGradients {
    Tensor qkv, attention_out, up, down;
    float *norm1 = nullptr, *norm1_bias = nullptr, *norm2 = nullptr, *norm2_bias = nullptr;
    float *qkv_bias = nullptr, *attention_out_bias = nullptr, *up_bias = nullptr,
          *down_bias = nullptr, *q_norm = nullptr, *k_norm = nullptr;
};
BlockWeights block_weights(const UnitBuffers&, const ModelConfig&);
BlockGradients block_gradients(const UnitBuffers&, const ModelConfig&);

/// What a block's backward needs of its forward.
struct BlockActivations {
    Slot x1, h1, mean1, rstd1, qkv, attention, lse, x2, h2, mean2, rstd2, up;
    Slot q_saved, k_saved, q_rstd, k_rstd;  ///< q/k norm only
    void bind(const BufferPlan&, const Arena&);
};

/// Scratch that blocks take turns with.
struct BlockScratch {
    Slot out;                           ///< E [R, d]: attention_out's and down's output
    Slot activated;                     ///< E [R, f]
    Slot dup, dqkv, dnorm, dattention;  ///< backward only
    Slot attention_workspace, linear_workspace, norm_workspace;  ///< bytes / floats
    void bind(const BufferPlan&, const Arena&);
};

class Block {
  public:
    Block(const ModelConfig& config, const RopeTable& rope, Ops& ops, DType compute)
        : config_(config), rope_(rope), ops_(ops), compute_(compute) {}

    /// The saved activations; x1 lives over `x1_life`, all others over `life`.
    BlockActivations declare(BufferPlan&, const std::string& name, BatchShape, Lifetime x1_life,
                             Lifetime life, bool training) const;
    BlockScratch declare_scratch(BufferPlan&, BatchShape, Lifetime, bool training) const;

    /// Replaces attention over the block's own keys (generation reads a cache instead).
    using Attend = std::function<void(const BlockActivations&, BatchShape)>;

    /// x1 = x + add (add null: x1 holds x already), then the rest. scratch.out gets the block's
    /// output; `with_output` false stops before the down projection (recomputation).
    void forward(Stream, const BlockWeights&, const BlockActivations&, const BlockScratch&,
                 BatchShape, const Tensor& x, const Tensor& add, bool with_output,
                 std::int64_t first_position = 0, const Attend* attend = nullptr) const;

    /// dx [R, d] fp32 holds the gradient of the block's output on entry, of its input on exit;
    /// `dx_low` is its rounded copy (the same tensor when E is fp32).
    void backward(Stream, const BlockWeights&, const BlockGradients&, const BlockActivations&,
                  const BlockScratch&, BatchShape, const Tensor& dx, const Tensor& dx_low,
                  bool accumulate) const;

    AttentionArgs attention_args(const BlockActivations&, const BlockScratch&, BatchShape) const;

  private:
    void mix(Stream, const BlockWeights&, const BlockActivations&, const BlockScratch&, BatchShape,
             std::int64_t first_position, const Attend*) const;
    void rotate(Stream, const Tensor& qkv, BatchShape, std::int64_t first_position,
                bool inverse) const;
    HeadNormArgs head_norm_args(bool query, const Tensor& qkv, const BlockWeights&,
                                const BlockActivations&, std::int64_t rows) const;
    void backward_ffn(Stream, const BlockWeights&, const BlockGradients&, const BlockActivations&,
                      const BlockScratch&, std::int64_t rows, const Tensor& dx,
                      const Tensor& dx_low, bool accumulate) const;
    void backward_attention(Stream, const BlockWeights&, const BlockGradients&,
                            const BlockActivations&, const BlockScratch&, BatchShape,
                            const Tensor& dx, const Tensor& dx_low, bool accumulate) const;

    const ModelConfig& config_;
    const RopeTable& rope_;
    Ops& ops_;
    DType compute_;
};

}  // namespace isthmus::inner
