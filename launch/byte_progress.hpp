// Progress of work that is counted in bytes: one line redrawn in a terminal, a plain line every few
// seconds elsewhere.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace isthmus::launch {

/// "reading  42 %  [########            ]  126.0 of 300.0 MB  81.2 MB/s  ETA 2 s"; without the bar
/// when not a terminal. MB are 10^6 bytes. An unknown rate (0) is left out, and the ETA with it.
std::string byte_progress_line(const std::string& what, std::uint64_t done_bytes,
                               std::uint64_t total_bytes, double bytes_per_s, bool bar);

class ByteProgress {
  public:
    struct Options {
        std::string what;  ///< "reading", "verifying"
        bool terminal = false;
        std::function<void(const std::string&)> plain;   ///< a whole line, for the log
        std::function<void(const std::string&)> redraw;  ///< over the line before; "" takes it away
    };
    explicit ByteProgress(Options options) : options_(std::move(options)) {}
    /// Takes a redrawn line away.
    ~ByteProgress();
    ByteProgress(const ByteProgress&) = delete;
    ByteProgress& operator=(const ByteProgress&) = delete;

    /// Shows a line if one is due: ten a second in a terminal, one in five seconds elsewhere.
    /// `now_seconds` counts from any start.
    void update(std::uint64_t done_bytes, std::uint64_t total_bytes, double now_seconds);

  private:
    Options options_;
    double started_at_ = -1;
    double shown_at_ = 0;
    bool drawn_ = false;
};

}  // namespace isthmus::launch
