#include "inner/trainer.hpp"

#include <algorithm>
#include <cmath>

#include "base/check.hpp"
#include "base/error.hpp"
#include "inner/data/order.hpp"
#include "inner/data/windows.hpp"
#include "inner/engine.hpp"
#include "inner/model/transformer.hpp"
#include "inner/optim/optimizer.hpp"

namespace isthmus::inner {
namespace {

constexpr std::int64_t kSkippedInARow = 3;

/// Everything that has a place in the buffer plan.
struct Machine {
    Machine(const ModelConfig& config, const TrainConfig& train, const OptimConfig& optim)
        : model_config(config),
          ops(make_ops(train)),
          layout(make_layout(model_config)),
          shape(batch_shape(model_config, train)),
          model(model_config, layout, {compute_type(train), shape, true, train.recompute}, *ops,
                plan),
          optimizer(optim, layout, whole_units(layout), Rank(0), plan) {
        plan.assign();
    }
    static std::vector<ShardPlan> whole_units(const Layout& layout) {
        std::vector<ShardPlan> plans;
        for (const Unit& unit : layout.units)
            plans.push_back(ShardPlan::balanced(unit.count, kGrainElements, 1));
        return plans;
    }
    MemoryReport report() const { return {plan.total_bytes(), plan.peak_by_group()}; }

    const ModelConfig model_config;
    std::unique_ptr<Ops> ops;
    const Layout layout;
    const BatchShape shape;
    BufferPlan plan;
    Transformer model;
    Optimizer optimizer;
};

class SiteTrainer final : public Trainer {
  public:
    SiteTrainer(const ModelConfig& model, const TrainConfig& train, const OptimConfig& optim,
                TokenFile& file, NextSamples next)
        : config_(train),
          optim_(optim),
          file_(file),
          next_(std::move(next)),
          machine_(model, train, optim),
          reader_(file, machine_.shape.sequence),
          order_(check_windows(file, model, machine_.shape.sequence),
                 static_cast<std::uint64_t>(train.seed)),
          arena_(machine_.plan.total_bytes()),
          memory_(machine_.report()) {
        machine_.model.bind(machine_.plan, arena_);
        machine_.optimizer.bind(machine_.plan, arena_);
        const auto seed = static_cast<std::uint64_t>(train.seed);
        for (std::uint32_t u = 0; u < machine_.layout.units.size(); ++u) {
            UnitBuffers& unit = machine_.model.unit(UnitId(u));
            initialise(machine_.layout.units[u], seed, 0, unit.parameters());
            units_.push_back(&unit);
        }
        machine_.model.refresh(stream_);
        const auto samples = static_cast<std::size_t>(train.batch * train.accumulate);
        samples_.resize(samples);
        windows_.resize(samples);
        tokens_.resize(samples * static_cast<std::size_t>(machine_.shape.sequence));
        targets_.resize(tokens_.size());
    }

    const Layout& layout() const override { return machine_.layout; }
    const MemoryReport& memory() const override { return memory_; }
    std::string device() const override { return machine_.ops->name(); }

    StepReport step() override {
        read_samples();
        StepReport report;
        report.tokens = std::count_if(targets_.begin(), targets_.end(),
                                      [](std::int32_t target) { return target >= 0; });
        // Every token of the step weighs the same, whichever micro-batch it lies in.
        const float scale = report.tokens > 0 ? 1.0f / static_cast<float>(report.tokens) : 0.0f;
        double total = 0;
        for (std::int64_t m = 0; m < config_.accumulate; ++m)
            total +=
                machine_.model.forward_backward(stream_, micro_batch(m), scale, m > 0, lifecycle_);
        report.loss = report.tokens > 0 ? total / static_cast<double>(report.tokens) : 0.0;
        report.learning_rate = inner::learning_rate(optim_, steps_, config_.steps);
        const double squared = machine_.optimizer.squared_norm(*machine_.ops, stream_, units_);
        report.gradient_norm = std::sqrt(squared);
        report.skipped = !std::isfinite(squared) || !std::isfinite(report.loss);
        report.step = ++steps_;
        if (report.skipped)
            skip(report);
        else
            update(report);
        return report;
    }

    double evaluate(Split split, std::int64_t windows) override {
        return mean_loss(
            file_, split, windows, machine_.shape,
            [&](const std::int32_t* tokens, const std::int32_t* targets, std::int64_t n) {
                const MicroBatch batch{tokens, targets, {n, machine_.shape.sequence}};
                return machine_.model.loss(stream_, batch, lifecycle_);
            });
    }

    std::int64_t steps_done() const override { return steps_; }
    void set_steps_done(std::int64_t steps) override {
        CHECK(steps >= 0);
        steps_ = steps;
    }
    std::int64_t skipped_steps() const override { return skipped_; }
    SampleNumber position() const override { return position_; }

    std::span<float> parameters(UnitId id) override { return units_[id.value]->parameters(); }
    std::span<float> first_moments(UnitId id) override {
        return machine_.optimizer.first_moments(id);
    }
    std::span<float> second_moments(UnitId id) override {
        return machine_.optimizer.second_moments(id);
    }
    std::int64_t updates() const override { return updates_; }
    void set_updates(std::int64_t updates) override {
        CHECK(updates >= 0);
        updates_ = updates;
    }
    std::span<const float> gradients(UnitId id) override { return units_[id.value]->gradients(); }
    void parameters_changed() override { machine_.model.refresh(stream_); }

    double gemm_flop_per_step() const override {
        const ModelConfig& model = machine_.model_config;
        double matrices = static_cast<double>(model.vocab * model.d_model);
        for (std::int64_t l = 0; l < model.num_layers; ++l)
            for (const View& view : machine_.layout[machine_.layout.block(l)].views)
                if (view.dims.size() == 2) matrices += static_cast<double>(view.count());
        const double attention =
            static_cast<double>(model.num_layers * model.q_dim() * machine_.shape.sequence);
        const auto tokens = static_cast<double>(machine_.shape.rows() * config_.accumulate);
        return 6.0 * tokens * (matrices + attention);
    }

  private:
    static std::uint64_t check_windows(const TokenFile& file, const ModelConfig& model,
                                       std::int64_t sequence) {
        const TokenFileInfo& info = file.info();
        if (info.vocab > static_cast<std::uint64_t>(model.vocab))
            throw fatal(ExitCode::kInput,
                        "the data has token ids up to {}, the model's vocabulary ends at {}: set "
                        "model.vocab to at least {}",
                        info.vocab - 1, model.vocab - 1, info.vocab);
        const std::uint64_t windows = num_windows(file, Split::kTrain, sequence);
        if (windows == 0)
            throw fatal(ExitCode::kInput,
                        "the data's training part has {} tokens, fewer than one window of {}: "
                        "prepare more text or shorten train.sequence",
                        file.split_tokens(Split::kTrain), sequence + 1);
        return windows;
    }

    void read_samples() {
        if (next_) {
            next_(samples_);
            position_ = SampleNumber(samples_.back().value + 1);
        } else {
            for (SampleNumber& sample : samples_) {
                sample = position_;
                position_ = SampleNumber(position_.value + 1);
            }
        }
        for (std::size_t i = 0; i < samples_.size(); ++i)
            windows_[i] = order_.at(samples_[i]).window;
        const Status read = reader_.read(Split::kTrain, windows_, tokens_.data(), targets_.data());
        if (!read) throw Fatal(ExitCode::kInput, read.error().message);
    }

    MicroBatch micro_batch(std::int64_t index) const {
        const std::int64_t at = index * machine_.shape.rows();
        return {tokens_.data() + at, targets_.data() + at, machine_.shape};
    }

    void update(const StepReport& report) {
        skipped_in_a_row_ = 0;
        double scale = 1.0;
        if (optim_.clip_norm > 0 && report.gradient_norm > optim_.clip_norm)
            scale = optim_.clip_norm / report.gradient_norm;
        machine_.optimizer.update(*machine_.ops, stream_, units_, ++updates_, report.learning_rate,
                                  scale);
        for (UnitBuffers* unit : units_) unit->repack(*machine_.ops, stream_);
        machine_.ops->synchronize(stream_);
    }

    void skip(const StepReport& report) {
        ++skipped_;
        if (++skipped_in_a_row_ < kSkippedInARow) return;
        std::string where;
        for (const std::string& unit : machine_.optimizer.not_finite())
            where += (where.empty() ? "" : ", ") + unit;
        throw fatal(
            ExitCode::kDiverged,
            "step {}: NaN or Inf {} steps in a row (loss {}; gradients of: {}): the run has "
            "diverged; lower optim.lr (now {:.3g}), lengthen optim.warmup_steps, or look at "
            "the data of samples {} to {}",
            report.step, kSkippedInARow, report.loss, where.empty() ? "none" : where,
            report.learning_rate, samples_.front().value, samples_.back().value);
    }

    const TrainConfig config_;
    const OptimConfig optim_;
    TokenFile& file_;
    NextSamples next_;
    Machine machine_;
    WindowReader reader_;
    DataOrder order_;
    Arena arena_;
    MemoryReport memory_;
    ResidentUnits lifecycle_;
    Stream stream_;
    std::vector<UnitBuffers*> units_;
    std::vector<SampleNumber> samples_;
    std::vector<std::uint64_t> windows_;
    std::vector<std::int32_t> tokens_, targets_;
    SampleNumber position_;
    std::int64_t steps_ = 0, updates_ = 0, skipped_ = 0, skipped_in_a_row_ = 0;
};

}  // namespace

std::unique_ptr<Trainer> Trainer::create(const ModelConfig& model, const TrainConfig& train,
                                         const OptimConfig& optim, TokenFile& file,
                                         NextSamples next) {
    return std::make_unique<SiteTrainer>(model, train, optim, file, std::move(next));
}

MemoryReport Trainer::predict(const ModelConfig& model, const TrainConfig& train,
                              const OptimConfig& optim) {
    return Machine(model, train, optim).report();
}

}  // namespace isthmus::inner
