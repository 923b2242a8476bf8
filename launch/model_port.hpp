// Our engine behind the port that the outer loop declares.
#pragma once

#include <atomic>

#include "inner/trainer.hpp"
#include "outer/model_port.hpp"

namespace isthmus::launch {

/// One fragment: all units, one after the other. The inner state is, in this order: the count of
/// updates (8 bytes), the first moments of all units, the second moments of all units.
/// THREAD  any one at a time, between steps; take_written() by the training thread.
/// The trainer outlives the port.
class TrainerPort : public outer::ModelPort {
  public:
    explicit TrainerPort(inner::Trainer& trainer) : trainer_(trainer) {}
    std::uint32_t num_fragments() const override { return 1; }
    std::vector<std::int64_t> unit_elements(FragmentId) const override;
    void read(FragmentId, std::int64_t offset, std::span<float> out) override;
    void write(FragmentId, std::int64_t offset, std::span<const float> values) override;
    /// Packed copies of the weights are stale now. They are packed anew by the training thread,
    /// whose compute threads that needs: see take_written().
    void written() override { written_ = true; }
    std::int64_t inner_state_bytes() const override;
    void read_inner_state(std::span<std::byte> out) override;
    void write_inner_state(std::span<const std::byte> in) override;

    /// Whether parameters were written since the last call: then call
    /// Trainer::parameters_changed().
    bool take_written() { return written_.exchange(false); }

  private:
    std::uint32_t num_units() const {
        return static_cast<std::uint32_t>(trainer_.layout().units.size());
    }
    inner::Trainer& trainer_;
    std::atomic<bool> written_{false};
};

}  // namespace isthmus::launch
