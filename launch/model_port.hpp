// Our engine behind the port that the outer loop declares.
#pragma once

#include "inner/trainer.hpp"
#include "outer/model_port.hpp"

namespace isthmus::launch {

/// One fragment: all units, one after the other.
/// THREAD  the training thread, between steps. The trainer outlives the port.
class TrainerPort : public outer::ModelPort {
  public:
    explicit TrainerPort(inner::Trainer& trainer) : trainer_(trainer) {}
    std::uint32_t num_fragments() const override { return 1; }
    std::int64_t fragment_elements(FragmentId) const override;
    void read(FragmentId, std::span<float> out) override;
    /// Tells the trainer, so that it packs its weights anew.
    void write(FragmentId, std::span<const float> values) override;

  private:
    std::uint32_t num_units() const {
        return static_cast<std::uint32_t>(trainer_.layout().units.size());
    }
    inner::Trainer& trainer_;
};

}  // namespace isthmus::launch
