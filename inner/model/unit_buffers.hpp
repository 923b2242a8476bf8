// A unit's memory, and its matrices as the ops want them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "inner/model/layout.hpp"
#include "inner/ops/buffer_plan.hpp"
#include "inner/ops/ops.hpp"

namespace isthmus::inner {

/// One unit: fp32 master parameters and gradients, and with bf16 compute a rounded copy of the
/// parameters.
class UnitBuffers {
  public:
    /// Declares the buffers. `training` false: no gradients.
    UnitBuffers(const Unit&, DType compute, bool training, const Ops&, BufferPlan&);
    /// After plan.assign().
    void bind(const BufferPlan&, const Arena&);

    /// Brings copy and packed layouts up to date with the master parameters.
    void refresh(Ops&, Stream);
    /// The same when `copy` was already written (by AdamW).
    void repack(Ops&, Stream);

    const Unit& unit() const { return *unit_; }
    std::span<float> parameters() const { return parameters_; }
    std::span<float> gradients() const { return gradients_; }
    bf16* copy() const { return copy_; }

    // Views are named within the unit: "qkv.weight" for "block.3.qkv.weight".
    bool has(const std::string& view) const { return unit_->find(full(view)) != nullptr; }
    /// A vector's master values; null when the unit has no such view.
    const float* vector(const std::string& view) const;
    float* vector_gradient(const std::string& view) const;
    Weight weight(const std::string& view) const;
    Tensor matrix(const std::string& view) const;           ///< fp32 master
    Tensor matrix_gradient(const std::string& view) const;  ///< fp32

  private:
    struct Packed {
        std::string view;
        BufferId id;
        void* data = nullptr;
    };
    std::string full(const std::string& view) const;

    const Unit* unit_;
    DType compute_;
    BufferId parameters_id_, gradients_id_, copy_id_;
    std::span<float> parameters_, gradients_;
    bf16* copy_ = nullptr;
    std::vector<Packed> packed_;
};

}  // namespace isthmus::inner
