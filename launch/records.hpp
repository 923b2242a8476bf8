// The run's numbers on disk: JSON lines, one object a step and one an evaluation.
//
// steps.jsonl
//   step            1 after the first
//   loss            training loss, nats a token, mean over the step's counted tokens
//   gradient_norm   global norm before clipping
//   lr              learning rate of the step
//   tokens          counted in this step
//   total_tokens    counted since the start of the run
//   seconds         since the start of the step loop, evaluations included
//   step_seconds    this step alone
//   tokens_per_s    of this step alone
//   gemm_share      GEMM work of the step over its time, as a share of the machine's own GEMM rate
//   skipped         true when NaN or Inf in the gradients left the parameters untouched
// evals.jsonl
//   step, total_tokens, seconds    as above
//   split                          "validation"
//   windows                        sequences asked for
//   loss                           nats a token
// A number that is not finite is written as null.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <string>

#include "base/files.hpp"
#include "inner/trainer.hpp"

namespace isthmus::launch {

/// A file of JSON lines that has grown to this is set aside as NAME.1.jsonl, NAME.2.jsonl, ... (in
/// the order of time), and NAME.jsonl begins anew: nothing is deleted, nothing grows without bound.
inline constexpr std::uint64_t kRotateBytes = 32 << 20;
/// NAME.jsonl, number -> NAME.number.jsonl
Path rotated_name(const Path&, int number);

/// Appends lines to a file through a buffer that is reused, so that a step allocates nothing.
/// ERRORS  throws Fatal(kResources) naming the file when the disk refuses.
class JsonLines {
  public:
    enum class Mode { kReplace, kAppend };
    JsonLines(FileSystem&, const Path&, Mode = Mode::kReplace,
              std::uint64_t rotate_bytes = kRotateBytes);
    /// Flushes what is left, best effort: after an error, the lines before it are worth having.
    ~JsonLines();
    JsonLines(const JsonLines&) = delete;
    JsonLines& operator=(const JsonLines&) = delete;

    /// The place to write one line, with its '\n'; then call wrote().
    fmt::memory_buffer& line() { return buffer_; }
    /// Writes to the file when the buffer is nearly full.
    void wrote();
    void flush();
    /// Flush, sync and close.
    void finish();

  private:
    Status open(Mode);
    Status write_out();
    Status rotate();
    FileSystem& files_;
    Path path_;
    std::uint64_t rotate_bytes_, bytes_ = 0;
    std::unique_ptr<WritableFile> file_;
    fmt::memory_buffer buffer_;
};

struct StepRecord {
    inner::StepReport report;
    std::int64_t total_tokens = 0;
    double seconds = 0;
    double step_seconds = 0;
    double gemm_share = 0;
};
void append_json(fmt::memory_buffer&, const StepRecord&);

struct EvalRecord {
    std::int64_t step = 0;
    std::int64_t total_tokens = 0;
    double seconds = 0;
    std::string_view split;
    std::int64_t windows = 0;
    double loss = 0;
};
void append_json(fmt::memory_buffer&, const EvalRecord&);

}  // namespace isthmus::launch
