// AdamW over what this rank owns of each unit, and the global norm that clips it.
//
// The norm is the square root of a sum over fixed blocks of kGrainElements in unit coordinates,
// fp64, in ascending order: it does not depend on how units are cut into shards (ACCEPTANCE
// "clipping").
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "inner/model/unit_buffers.hpp"
#include "inner/ops/ops.hpp"
#include "inner/optim/config.hpp"
#include "inner/parallel/shard_plan.hpp"

namespace isthmus::inner {

class Optimizer {
  public:
    /// One plan a unit; `rank` owns its piece of each. Declares the moments, fp32, in `plan`.
    Optimizer(const OptimConfig&, const Layout&, std::vector<ShardPlan>, Rank, BufferPlan& plan);
    void bind(const BufferPlan&, const Arena&);

    /// Squared norm of the owned gradients; NaN or Inf where one is.
    double squared_norm(Ops&, Stream, const std::vector<UnitBuffers*>&);
    /// Units whose owned gradients are not finite, after squared_norm: for the diagnosis.
    std::vector<std::string> not_finite() const;

    /// Update number `update` (from 1) with gradients times `gradient_scale`.
    void update(Ops&, Stream, const std::vector<UnitBuffers*>&, std::int64_t update,
                double learning_rate, double gradient_scale);

    std::span<float> first_moments(UnitId) const;
    std::span<float> second_moments(UnitId) const;

  private:
    struct Owned {
        const Unit* unit = nullptr;
        Range piece;
        std::vector<ViewRange> parts;
        BufferId first_id, second_id, norms_id;
        std::span<float> first, second;  ///< moments of the piece
        std::span<double> norms;         ///< squared norm of each block
        double squared = 0;
    };
    OptimConfig config_;
    std::vector<Owned> owned_;
};

}  // namespace isthmus::inner
