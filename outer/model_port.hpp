// What the outer loop needs of a model. The consumer declares its port: launch/ plugs our engine
// in, a later Python package plugs a PyTorch model in. Nothing of inner/ is visible here: runs of
// floats, and bytes that only the model understands.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.hpp"

namespace isthmus::outer {

/// The parameters that this process holds, by fragment, each a run of fp32 elements; and the inner
/// optimizer's state, which is never averaged, only copied to a site that joins. THREAD  called by
/// the outer loop's thread while the training thread waits for it (at a meeting, or before its
/// first step): one at a time, never beside an inner step.
class ModelPort {
  public:
    virtual ~ModelPort() = default;
    virtual std::uint32_t num_fragments() const = 0;
    /// Sizes of the fragment's units, in order: codec blocks begin at a unit's start.
    virtual std::vector<std::int64_t> unit_elements(FragmentId) const = 0;
    /// Copies local parameters [offset, offset + out.size()) out. May cross units.
    virtual void read(FragmentId, std::int64_t offset, std::span<float> out) = 0;
    /// Replaces local parameters.
    virtual void write(FragmentId, std::int64_t offset, std::span<const float> values) = 0;
    /// After the last write of a change.
    virtual void written() = 0;

    /// The inner optimizer's state as bytes (moments, step count), and back.
    virtual std::int64_t inner_state_bytes() const = 0;
    virtual void read_inner_state(std::span<std::byte> out) = 0;
    virtual void write_inner_state(std::span<const std::byte> in) = 0;
};

}  // namespace isthmus::outer
