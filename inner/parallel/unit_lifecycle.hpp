// When a unit's parameters are whole and its gradients final: the hooks at which sharding works.
//
// The model announces each use; what has to happen then (all-gather, pack, free, reduce-scatter) is
// the mode's business. A site of one rank keeps every unit resident, so that ResidentUnits has
// nothing to do.
#pragma once

#include "base/ids.hpp"

namespace isthmus::inner {

class UnitLifecycle {
  public:
    virtual ~UnitLifecycle() = default;
    virtual void before_forward(UnitId) = 0;  ///< parameters must be whole and packed from here
    virtual void after_forward(UnitId) = 0;
    virtual void before_backward(UnitId) = 0;  ///< parameters must be whole again
    virtual void after_backward(UnitId) = 0;   ///< this micro-batch's gradients are complete
};

class ResidentUnits final : public UnitLifecycle {
  public:
    void before_forward(UnitId) override {}
    void after_forward(UnitId) override {}
    void before_backward(UnitId) override {}
    void after_backward(UnitId) override {}
};

}  // namespace isthmus::inner
