// A trainer without a model: its loss falls by rule, its parameters are four numbers.
#pragma once

#include <array>
#include <limits>

#include "base/error.hpp"
#include "inner/trainer.hpp"

namespace isthmus::test {

class FakeTrainer final : public inner::Trainer {
  public:
    FakeTrainer() { layout_.units.push_back({"only", {}, 4}); }
    std::int64_t skip_at = 0;     ///< this step has a NaN loss and is skipped
    std::int64_t diverge_at = 0;  ///< this step throws kDiverged
    std::int64_t evaluations = 0;

    const inner::Layout& layout() const override { return layout_; }
    const inner::MemoryReport& memory() const override { return memory_; }
    std::string device() const override { return "fake"; }
    inner::StepReport step() override {
        ++steps_;
        if (steps_ == diverge_at) throw fatal(ExitCode::kDiverged, "diverged");
        inner::StepReport report{.step = steps_,
                                 .loss = 10.0 / static_cast<double>(steps_),
                                 .gradient_norm = 0.5,
                                 .learning_rate = 1e-3,
                                 .tokens = 64};
        if (steps_ == skip_at) {
            report.loss = std::numeric_limits<double>::quiet_NaN();
            report.skipped = true;
            ++skipped_;
        }
        return report;
    }
    double evaluate(inner::Split, std::int64_t windows) override {
        ++evaluations;
        return static_cast<double>(windows) / static_cast<double>(1 + steps_);
    }
    std::int64_t steps_done() const override { return steps_; }
    std::int64_t skipped_steps() const override { return skipped_; }
    SampleNumber position() const override { return SampleNumber(0); }
    std::span<float> parameters(UnitId) override { return values_; }
    std::span<float> first_moments(UnitId) override { return values_; }
    std::span<float> second_moments(UnitId) override { return values_; }
    std::span<const float> gradients(UnitId) override { return values_; }
    void parameters_changed() override {}
    double gemm_flop_per_step() const override { return 1e6; }

  private:
    inner::Layout layout_;
    inner::MemoryReport memory_;
    std::array<float, 4> values_{};
    std::int64_t steps_ = 0;
    std::int64_t skipped_ = 0;
};

}  // namespace isthmus::test
