// The whole model over the op contract: embedding, blocks, head with loss. Forward and backward are
// explicit; every buffer is declared before the first step.
//
// Phases of a step, in which buffers live (L blocks):
//   0 embedding | 1 + l forward of block l | L + 1 head, forward and backward | 2 L + 1 - l
//   backward of block l | 2 L + 2 embedding's backward
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "inner/model/block.hpp"
#include "inner/model/unit_buffers.hpp"
#include "inner/parallel/unit_lifecycle.hpp"

namespace isthmus::inner {

/// One micro-batch. SHAPE tokens, targets: [batch, sequence]; target -1 is not counted.
struct MicroBatch {
    const std::int32_t* tokens = nullptr;
    const std::int32_t* targets = nullptr;
    BatchShape shape;
};

struct TransformerOptions {
    DType compute = DType::kF32;
    BatchShape shape;      ///< the largest micro-batch
    bool training = true;  ///< false: forward only, activations of one block at a time
    bool recompute = false;
};

class Transformer {
  public:
    /// Declares all buffers in `plan`. The references must outlive the object.
    Transformer(const ModelConfig&, const Layout&, const TransformerOptions&, Ops&,
                BufferPlan& plan);

    void bind(const BufferPlan&, const Arena&);

    /// Sum of the losses (nats) of the counted targets. Gradients of `gradient_scale` x that sum
    /// are added to the units' gradients, or overwrite them when `accumulate` is false. REQUIRES
    /// training.
    double forward_backward(Stream, const MicroBatch&, float gradient_scale, bool accumulate,
                            UnitLifecycle&);
    /// Sum of the losses; no gradients.
    double loss(Stream, const MicroBatch&, UnitLifecycle&);
    /// Logits of every position. SHAPE out [rows, vocab] fp32.
    void logits(Stream, const MicroBatch&, float* out, UnitLifecycle&);

    UnitBuffers& unit(UnitId id) { return units_[id.value]; }
    const UnitBuffers& unit(UnitId id) const { return units_[id.value]; }
    /// All units: bf16 copies and packed weights from the master parameters.
    void refresh(Stream);

    Block& block() { return block_; }

    /// The first and last units' parameters, looked up once: views are found by name, and a step
    /// must not build strings.
    struct Ends {
        Tensor token, position, token_gradient, position_gradient;
        Weight output;
        Tensor output_gradient;
        const float *norm = nullptr, *norm_bias = nullptr;
        float *norm_gradient = nullptr, *norm_bias_gradient = nullptr;
    };
    const Ends& ends() const { return ends_; }
    const BlockWeights& block_weights_of(std::int64_t layer) const {
        return weights_[static_cast<std::size_t>(layer)];
    }

  private:
    void bind_ends();
    void declare(BufferPlan&);
    void zero_gradients(Stream);
    void embed(Stream, const MicroBatch&, UnitLifecycle&);
    /// Embedding and blocks; leaves the final norm's output in hidden_.
    void run_forward(Stream, const MicroBatch&, UnitLifecycle&);
    void final_norm(Stream, std::int64_t rows);
    /// The head in chunks of rows: loss, and with `train` dhidden_ and the output matrix's
    /// gradient.
    double head(Stream, const MicroBatch&, bool train, float gradient_scale, bool accumulate);
    void run_backward(Stream, const MicroBatch&, bool accumulate, UnitLifecycle&);
    const BlockActivations& activations(std::int64_t layer) const;

    const ModelConfig& config_;
    const Layout& layout_;
    TransformerOptions options_;
    Ops& ops_;
    RopeTable rope_;
    Block block_;
    std::int64_t head_rows_ = 0;  ///< rows of a chunk of logits

    std::vector<UnitBuffers> units_;
    Ends ends_;
    std::vector<BlockWeights> weights_;
    std::vector<BlockGradients> gradients_;
    std::vector<BlockActivations> activations_;
    BlockScratch scratch_;
    Slot final_x_, hidden_, final_mean_, final_rstd_;
    Slot logits_, dlogits_, losses_, dhidden_, dx_, dx_low_, head_workspace_;
};

}  // namespace isthmus::inner
