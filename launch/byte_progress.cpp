#include "launch/byte_progress.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "launch/progress.hpp"

namespace isthmus::launch {
namespace {

constexpr double kRedrawSeconds = 0.1;
constexpr double kPlainSeconds = 5;
constexpr std::size_t kBarColumns = 20;

double megabytes(double bytes) {
    return bytes / 1e6;
}

}  // namespace

std::string byte_progress_line(const std::string& what, std::uint64_t done_bytes,
                               std::uint64_t total_bytes, double bytes_per_s, bool bar) {
    const auto done = static_cast<double>(done_bytes), total = static_cast<double>(total_bytes);
    const double share = total > 0 ? std::min(done / total, 1.0) : 1.0;
    std::string line = fmt::format("{} {:3.0f} %", what, std::floor(100 * share));
    if (bar) {
        const auto full = static_cast<std::size_t>(share * kBarColumns);
        line += "  [" + std::string(full, '#') + std::string(kBarColumns - full, ' ') + "]";
    }
    line += fmt::format("  {:.1f} of {:.1f} MB", megabytes(done), megabytes(total));
    if (bytes_per_s > 0)
        line += fmt::format("  {:.1f} MB/s  ETA {}", megabytes(bytes_per_s),
                            human_duration(std::max(total - done, 0.0) / bytes_per_s));
    return line;
}

ByteProgress::~ByteProgress() {
    if (drawn_) options_.redraw("");
}

void ByteProgress::update(std::uint64_t done_bytes, std::uint64_t total_bytes, double now_seconds) {
    if (started_at_ < 0) started_at_ = shown_at_ = now_seconds;
    const double wait = options_.terminal ? kRedrawSeconds : kPlainSeconds;
    if (now_seconds - shown_at_ < wait) return;
    shown_at_ = now_seconds;
    const double rate = static_cast<double>(done_bytes) / (now_seconds - started_at_);
    const std::string line =
        byte_progress_line(options_.what, done_bytes, total_bytes, rate, options_.terminal);
    if (options_.terminal) {
        options_.redraw(line);
        drawn_ = true;
    } else {
        options_.plain(line);
    }
}

}  // namespace isthmus::launch
