// The progress of a run on stderr: one line redrawn in a terminal, a plain line now and then
// elsewhere.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "inner/trainer.hpp"

namespace isthmus::launch {

/// What one progress line says.
struct ProgressView {
    std::int64_t step = 0;
    std::int64_t steps = 0;
    double loss = 0;
    double learning_rate = 0;
    double tokens_per_s = 0;
    double gemm_share = 0;     ///< 0..1 of the machine's own GEMM rate; 0: not known
    double seconds_left = -1;  ///< < 0: not known yet
};

/// "step 120/1000  loss 2.3456  lr 1.90e-03  12,345 tokens/s  61 % of GEMM rate  ETA 1 min 32 s".
std::string progress_line(const ProgressView&);

/// "47 s", "1 min 32 s", "2 h 5 min", "3 d 4 h".
std::string human_duration(double seconds);

/// "12,345".
std::string with_commas(std::int64_t value);

/// Decides when a line is due, and smooths rates over the steps since the last few lines.
class Progress {
  public:
    struct Options {
        std::int64_t steps = 0;
        double gemm_flop_per_step = 0;
        double gemm_rate = 0;  ///< FLOP/s; 0: not known
        bool terminal = false;
        std::function<void(const std::string&)> plain;   ///< a whole line, for the log
        std::function<void(const std::string&)> redraw;  ///< over the line before, no newline
    };
    explicit Progress(Options);

    /// After each step. `now_seconds` counts from any start; `step_seconds` is this step alone.
    void step(const inner::StepReport&, double now_seconds, double step_seconds);
    /// Before anything else is printed: takes the redrawn line away.
    void clear();
    /// The last step as a plain line, in a terminal too, where it stays; not twice.
    void last();
    double smoothed_step_seconds() const { return step_seconds_; }

  private:
    /// Takes the smoothed rates into what is shown.
    void refresh();
    void show(double now_seconds);
    Options options_;
    ProgressView view_;
    double step_seconds_ = 0;  ///< exponentially smoothed
    double tokens_per_step_ = 0;
    double shown_at_ = 0;
    std::int64_t plain_step_ = 0;  ///< of the newest plain line
    std::int64_t seen_ = 0;
    bool drawn_ = false;
};

}  // namespace isthmus::launch
