#include "launch/records.hpp"

#include <cmath>
#include <iterator>

#include "base/error.hpp"

namespace isthmus::launch {

namespace {

constexpr std::size_t kBufferBytes = 64 << 10;
constexpr std::size_t kLongestLineBytes = 1 << 10;

/// `"key":value` with a comma before all but the first; shortest digits that read back the same.
void number(fmt::memory_buffer& out, std::string_view key, double value) {
    if (std::isfinite(value)) {
        fmt::format_to(std::back_inserter(out), ",\"{}\":{}", key, value);
    } else {
        fmt::format_to(std::back_inserter(out), ",\"{}\":null", key);
    }
}

}  // namespace

JsonLines::JsonLines(FileSystem& files, const Path& path, Mode mode) : name_(path.string()) {
    auto file = mode == Mode::kAppend ? files.append(path) : files.create(path);
    if (!file) {
        throw fatal(ExitCode::kResources, "{}: the run's records need a writable folder",
                    file.error().message);
    }
    file_ = std::move(file).value();
    buffer_.reserve(kBufferBytes);
}

JsonLines::~JsonLines() {
    if (!file_) return;
    static_cast<void>(write_out());
    static_cast<void>(file_->close());
}

void JsonLines::wrote() {
    if (buffer_.size() + kLongestLineBytes > kBufferBytes) flush();
}

Status JsonLines::write_out() {
    if (buffer_.size() == 0) return Done{};
    const auto bytes = std::as_bytes(std::span(buffer_.data(), buffer_.size()));
    auto status = file_->append(bytes);
    buffer_.clear();
    return status;
}

void JsonLines::flush() {
    if (auto status = write_out(); !status) {
        throw fatal(ExitCode::kResources,
                    "{}: {}: the run stops here; make room and start it again", name_,
                    status.error().message);
    }
}

void JsonLines::finish() {
    flush();
    for (auto status : {file_->sync(), file_->close()}) {
        if (!status) {
            throw fatal(ExitCode::kResources, "{}: {}: the last records may be missing", name_,
                        status.error().message);
        }
    }
    file_.reset();
}

void append_json(fmt::memory_buffer& out, const StepRecord& r) {
    fmt::format_to(std::back_inserter(out), "{{\"step\":{}", r.report.step);
    number(out, "loss", r.report.loss);
    number(out, "gradient_norm", r.report.gradient_norm);
    number(out, "lr", r.report.learning_rate);
    fmt::format_to(std::back_inserter(out), ",\"tokens\":{},\"total_tokens\":{}", r.report.tokens,
                   r.total_tokens);
    number(out, "seconds", r.seconds);
    number(out, "step_seconds", r.step_seconds);
    const auto tokens = static_cast<double>(r.report.tokens);
    number(out, "tokens_per_s", r.step_seconds > 0 ? tokens / r.step_seconds : 0);
    number(out, "gemm_share", r.gemm_share);
    fmt::format_to(std::back_inserter(out), ",\"skipped\":{}}}\n", r.report.skipped);
}

void append_json(fmt::memory_buffer& out, const EvalRecord& r) {
    fmt::format_to(std::back_inserter(out), "{{\"step\":{},\"total_tokens\":{}", r.step,
                   r.total_tokens);
    number(out, "seconds", r.seconds);
    fmt::format_to(std::back_inserter(out), ",\"split\":\"{}\",\"windows\":{}", r.split, r.windows);
    number(out, "loss", r.loss);
    fmt::format_to(std::back_inserter(out), "}}\n");
}

}  // namespace isthmus::launch
