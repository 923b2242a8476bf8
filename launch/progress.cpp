#include "launch/progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace isthmus::launch {

namespace {

constexpr double kRedrawEverySeconds = 0.2;
constexpr double kPlainEverySeconds = 5.0;
/// Weight of a new step in the smoothed rate once some 20 steps are seen.
constexpr double kSmoothing = 0.05;

}  // namespace

std::string with_commas(std::int64_t value) {
    const std::string digits = fmt::format("{}", value);
    std::string out;
    for (std::size_t i = 0; i < digits.size(); ++i) {
        if (i > 0 && (digits.size() - i) % 3 == 0 && digits[i - 1] != '-') out += ',';
        out += digits[i];
    }
    return out;
}

std::string human_duration(double seconds) {
    if (!std::isfinite(seconds) || seconds < 0) return "?";
    const auto s = static_cast<std::int64_t>(std::llround(std::min(seconds, 1e15)));
    if (s < 60) return fmt::format("{} s", s);
    if (s < 3600) return fmt::format("{} min {} s", s / 60, s % 60);
    if (s < 86400) return fmt::format("{} h {} min", s / 3600, s % 3600 / 60);
    return fmt::format("{} d {} h", s / 86400, s % 86400 / 3600);
}

std::string progress_line(const ProgressView& v) {
    std::string line =
        fmt::format("step {}/{}  loss {:.4f}  lr {:.2e}  {} tokens/s", v.step, v.steps, v.loss,
                    v.learning_rate, with_commas(std::llround(v.tokens_per_s)));
    if (v.gemm_share > 0) line += fmt::format("  {:.0f} % of GEMM rate", 100 * v.gemm_share);
    if (v.seconds_left >= 0) line += fmt::format("  ETA {}", human_duration(v.seconds_left));
    return line;
}

Progress::Progress(Options options) : options_(std::move(options)) {
    view_.steps = options_.steps;
}

void Progress::step(const inner::StepReport& report, double now_seconds, double step_seconds) {
    ++seen_;
    // The first step pays for packing and page faults; it must not linger in the average.
    const double weight = std::max(kSmoothing, seen_ <= 2 ? 1.0 : 1.0 / static_cast<double>(seen_));
    step_seconds_ += weight * (step_seconds - step_seconds_);
    tokens_per_step_ += weight * (static_cast<double>(report.tokens) - tokens_per_step_);
    view_.step = report.step;
    view_.loss = report.loss;
    view_.learning_rate = report.learning_rate;
    const double every = options_.terminal ? kRedrawEverySeconds : kPlainEverySeconds;
    if (seen_ == 1 || now_seconds - shown_at_ >= every) show(now_seconds);
}

void Progress::refresh() {
    const double time = std::max(step_seconds_, 1e-9);
    view_.tokens_per_s = tokens_per_step_ / time;
    view_.gemm_share =
        options_.gemm_rate > 0 ? options_.gemm_flop_per_step / time / options_.gemm_rate : 0;
    // One step is no basis for a prediction.
    view_.seconds_left = seen_ < 2 ? -1 : static_cast<double>(view_.steps - view_.step) * time;
}

void Progress::show(double now_seconds) {
    shown_at_ = now_seconds;
    refresh();
    const std::string line = progress_line(view_);
    if (options_.terminal) {
        options_.redraw(line);
        drawn_ = true;
    } else {
        options_.plain(line);
        plain_step_ = view_.step;
    }
}

void Progress::clear() {
    if (drawn_) options_.redraw("");
    drawn_ = false;
}

void Progress::last() {
    clear();
    if (seen_ == 0 || plain_step_ == view_.step) return;
    refresh();
    options_.plain(progress_line(view_));
    plain_step_ = view_.step;
}

}  // namespace isthmus::launch
