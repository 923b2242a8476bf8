// A trainer without a model: its loss falls by rule, its parameters are seven numbers in two units.
#pragma once

#include <array>
#include <limits>

#include "base/error.hpp"
#include "inner/trainer.hpp"

namespace isthmus::test {

class FakeTrainer final : public inner::Trainer {
  public:
    FakeTrainer() {
        layout_.units.push_back({"first", {}, 4});
        layout_.units.push_back({"second", {}, 3});
    }
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
    void set_steps_done(std::int64_t steps) override { steps_ = steps; }
    std::int64_t skipped_steps() const override { return skipped_; }
    SampleNumber position() const override { return SampleNumber(0); }
    std::span<float> parameters(UnitId id) override { return part(values_, id); }
    std::span<float> first_moments(UnitId id) override { return part(first_, id); }
    std::span<float> second_moments(UnitId id) override { return part(second_, id); }
    std::int64_t updates() const override { return updates_; }
    void set_updates(std::int64_t updates) override { updates_ = updates; }
    std::span<const float> gradients(UnitId id) override { return part(values_, id); }
    void parameters_changed() override {}
    double gemm_flop_per_step() const override { return 1e6; }

  private:
    using Values = std::array<float, 7>;
    static std::span<float> part(Values& values, UnitId id) {
        return id == UnitId(0) ? std::span(values).first(4) : std::span(values).last(3);
    }
    inner::Layout layout_;
    inner::MemoryReport memory_;
    Values values_{}, first_{}, second_{};
    std::int64_t updates_ = 0;
    std::int64_t steps_ = 0;
    std::int64_t skipped_ = 0;
};

}  // namespace isthmus::test
