// The outer optimizer's constants (its arithmetic is outer_step.hpp's).
#pragma once

namespace isthmus::outer {

/// Momentum 0: theta <- theta - lr g. Else m <- mu m + g, then theta <- theta - lr m (SGD with
/// momentum) or theta <- theta - lr (g + mu m) (Nesterov, as PyTorch's SGD with dampening 0; FACTS
/// 1).
struct OuterOptimizer {
    float lr = 1.0f;
    float momentum = 0.0f;
    bool nesterov = false;
    bool has_momentum() const { return momentum != 0.0f; }
    /// Averages parameters: what one site alone holds is then the result, without rounding.
    bool averages() const { return lr == 1.0f && momentum == 0.0f; }
    bool operator==(const OuterOptimizer&) const = default;
    template <class A>
    void serialize(A& a) {
        a(lr, momentum, nesterov);
    }
};

}  // namespace isthmus::outer
