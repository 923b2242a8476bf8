// What the outer loop needs of a model. The consumer declares its port: launch/ plugs our engine
// in, a later Python package plugs a PyTorch model in. Nothing of inner/ is visible here.
#pragma once

#include <cstdint>
#include <span>

#include "base/ids.hpp"

namespace isthmus::outer {

/// The parameters that this process holds, by fragment, each a run of fp32 elements.
/// THREAD  called by the training thread, between inner steps.
class ModelPort {
  public:
    virtual ~ModelPort() = default;
    virtual std::uint32_t num_fragments() const = 0;
    virtual std::int64_t fragment_elements(FragmentId) const = 0;
    /// Copies the local parameters out. REQUIRES out.size() == fragment_elements.
    virtual void read(FragmentId, std::span<float> out) = 0;
    /// Replaces the local parameters. REQUIRES values.size() == fragment_elements.
    virtual void write(FragmentId, std::span<const float> values) = 0;
};

}  // namespace isthmus::outer
