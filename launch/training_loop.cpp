#include "launch/training_loop.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>

#include "launch/progress.hpp"
#include "launch/records.hpp"
#include "launch/run_folder.hpp"

namespace isthmus::launch {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

/// How long a killed process may lose of its records.
constexpr double kFlushEverySeconds = 3.0;

class Loop {
  public:
    Loop(CommandContext& context, inner::Trainer& trainer, const LoopSettings& settings,
         const TrainingHooks& hooks)
        : context_(context),
          trainer_(trainer),
          settings_(settings),
          hooks_(hooks),
          steps_(context.files, settings.folder / kStepsName, mode()),
          evals_(context.files, settings.folder / kEvalsName, mode()),
          progress_(progress_options()) {}

    TrainingResult run() {
        LoopNext next = hooks_.begin ? hooks_.begin(trainer_) : LoopNext::kGoOn;
        while (next == LoopNext::kGoOn && (hooks_.after_step || remains())) {
            next = one_step();
            if (next != LoopNext::kGoOn) break;
            if ((hooks_.after_step || remains()) && context_.stop()) {
                next = LoopNext::kInterrupted;
            } else if (evaluation_is_due()) {
                evaluate();
            }
        }
        result_.interrupted = next == LoopNext::kInterrupted;
        progress_.last();
        if (!result_.interrupted) {
            if (hooks_.end) hooks_.end(trainer_);
            if (settings_.eval_windows > 0) evaluate();
        }
        result_.steps = trainer_.steps_done();
        result_.seconds = seconds_since(start_);
        steps_.finish();
        evals_.finish();
        return result_;
    }

  private:
    JsonLines::Mode mode() const {
        return settings_.append ? JsonLines::Mode::kAppend : JsonLines::Mode::kReplace;
    }
    bool remains() const { return trainer_.steps_done() < settings_.steps; }

    Progress::Options progress_options() {
        return {.steps = settings_.steps,
                .gemm_flop_per_step = trainer_.gemm_flop_per_step(),
                .gemm_rate = settings_.gemm_rate,
                .terminal = context_.terminal,
                .plain = [this](const std::string& line) { context_.log.info("{}", line); },
                .redraw =
                    [](const std::string& line) {
                        // CSI K: clear to the end of the line, so that a shorter line leaves no
                        // rest.
                        std::fprintf(stderr, "\r%s\x1b[K", line.c_str());
                        std::fflush(stderr);
                    }};
    }

    LoopNext one_step() {
        const auto before = Clock::now();
        const inner::StepReport report = trainer_.step();
        const double step_seconds = seconds_since(before);
        const LoopNext next =
            hooks_.after_step ? hooks_.after_step(trainer_, report, step_seconds) : LoopNext::kGoOn;
        const double whole_seconds = seconds_since(before);  // with waiting for other sites

        total_tokens_ += report.tokens;
        result_.train_loss = report.loss;
        const double now = seconds_since(start_);
        const double share =
            settings_.gemm_rate > 0 && step_seconds > 0
                ? trainer_.gemm_flop_per_step() / step_seconds / settings_.gemm_rate
                : 0;
        append_json(steps_.line(), StepRecord{report, total_tokens_, now, step_seconds, share});
        steps_.wrote();
        if (now - flushed_at_ >= kFlushEverySeconds) {
            flushed_at_ = now;
            steps_.flush();
            evals_.flush();
        }
        if (report.skipped) {
            progress_.clear();
            context_.log.warn("step {}: NaN or Inf in the gradients, step skipped ({} so far)",
                              report.step, trainer_.skipped_steps());
        }
        progress_.step(report, now, whole_seconds);
        return next;
    }

    bool evaluation_is_due() const {
        const std::int64_t done = trainer_.steps_done();
        return settings_.eval_every > 0 && settings_.eval_windows > 0 && done < settings_.steps &&
               done % settings_.eval_every == 0;
    }

    void evaluate() {
        const double loss = trainer_.evaluate(inner::Split::kValidation, settings_.eval_windows);
        result_.validation_loss = loss;
        append_json(evals_.line(),
                    EvalRecord{trainer_.steps_done(), total_tokens_, seconds_since(start_),
                               "validation", settings_.eval_windows, loss});
        evals_.wrote();
        evals_.flush();
        progress_.clear();
        context_.log.info("step {}: validation loss {:.4f}", trainer_.steps_done(), loss);
    }

    CommandContext& context_;
    inner::Trainer& trainer_;
    const LoopSettings& settings_;
    const TrainingHooks& hooks_;
    JsonLines steps_;
    JsonLines evals_;
    Progress progress_;
    TrainingResult result_;
    Clock::time_point start_ = Clock::now();
    double flushed_at_ = 0;
    std::int64_t total_tokens_ = 0;
};

}  // namespace

TrainingResult run_training_loop(CommandContext& context, inner::Trainer& trainer,
                                 const LoopSettings& settings, const TrainingHooks& hooks) {
    return Loop(context, trainer, settings, hooks).run();
}

}  // namespace isthmus::launch
