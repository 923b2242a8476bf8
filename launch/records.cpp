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

Path rotated_name(const Path& path, int number) {
    return path.parent_path() /
           fmt::format("{}.{}{}", path.stem().string(), number, path.extension().string());
}

JsonLines::JsonLines(FileSystem& files, const Path& path, Mode mode, std::uint64_t rotate_bytes)
    : files_(files), path_(path), rotate_bytes_(rotate_bytes) {
    if (const auto status = open(mode); !status) {
        throw fatal(ExitCode::kResources, "{}: the run's records need a writable folder",
                    status.error().message);
    }
    buffer_.reserve(kBufferBytes);
}

Status JsonLines::open(Mode mode) {
    bytes_ = 0;
    if (mode == Mode::kAppend && files_.exists(path_)) {
        const auto there = files_.open(path_);
        if (!there) return there.error();
        bytes_ = (*there)->size();
    }
    auto file = mode == Mode::kAppend ? files_.append(path_) : files_.create(path_);
    if (!file) return file.error();
    file_ = std::move(file).value();
    return Done{};
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
    bytes_ += buffer_.size();
    buffer_.clear();
    if (!status || bytes_ < rotate_bytes_) return status;
    return rotate();
}

Status JsonLines::rotate() {
    if (const auto status = file_->close(); !status) return status;
    file_.reset();
    int number = 1;
    while (files_.exists(rotated_name(path_, number))) ++number;
    if (const auto status = files_.rename(path_, rotated_name(path_, number)); !status)
        return status;
    return open(Mode::kReplace);
}

void JsonLines::flush() {
    if (auto status = write_out(); !status) {
        throw fatal(ExitCode::kResources,
                    "{}: {}: the run stops here; make room and start it again", path_.string(),
                    status.error().message);
    }
}

void JsonLines::finish() {
    flush();
    for (auto status : {file_->sync(), file_->close()}) {
        if (!status) {
            throw fatal(ExitCode::kResources, "{}: {}: the last records may be missing",
                        path_.string(), status.error().message);
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
