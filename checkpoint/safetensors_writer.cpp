// Writing: a temporary file beside the target, which finish() makes durable and renames.
#include <algorithm>
#include <array>
#include <bit>
#include <nlohmann/json.hpp>

#include "base/bf16.hpp"
#include "base/check.hpp"
#include "base/error.hpp"
#include "checkpoint/safetensors.hpp"

namespace isthmus::checkpoint {
namespace {

constexpr std::size_t kConvertElements = 64 * 1024;  // buffer of a converting write: 128 KiB

void throw_unless(const Status& status) {
    if (!status) throw fatal(ExitCode::kResources, "{}", status.error().message);
}

std::uint64_t element_bytes(FileType type) {
    CHECK(type == FileType::kF32 || type == FileType::kBF16, "only F32 and BF16 are written");
    return type == FileType::kF32 ? 4 : 2;
}

std::int64_t count(const SafetensorsWriter::Tensor& t) {
    std::int64_t n = 1;
    for (const std::int64_t d : t.dims) n *= d;
    return n;
}

/// Length and JSON, padded with spaces so that the data begins at a multiple of 8.
std::string make_header(const std::vector<SafetensorsWriter::Tensor>& tensors,
                        const std::vector<std::pair<std::string, std::string>>& metadata) {
    nlohmann::ordered_json json = nlohmann::ordered_json::object();
    for (const auto& [key, value] : metadata) json["__metadata__"][key] = value;
    std::uint64_t at = 0;
    for (const auto& t : tensors) {
        const std::uint64_t bytes = element_bytes(t.type) * static_cast<std::uint64_t>(count(t));
        json[t.name] = {{"dtype", t.type == FileType::kF32 ? "F32" : "BF16"},
                        {"shape", t.dims},
                        {"data_offsets", {at, at + bytes}}};
        at += bytes;
    }
    CHECK(json.size() == tensors.size() + (metadata.empty() ? 0 : 1), "a tensor stands twice");
    std::string text = json.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    const auto length = std::bit_cast<std::array<char, 8>>(static_cast<std::uint64_t>(text.size()));
    return std::string(length.begin(), length.end()) + text;
}

class Writer : public SafetensorsWriter {
  public:
    Writer(FileSystem& files, Path path, std::vector<Tensor> tensors)
        : files_(files), path_(std::move(path)), tensors_(std::move(tensors)) {
        temporary_ = path_;
        temporary_ += ".tmp";
    }
    ~Writer() override {
        if (finished_ || file_ == nullptr) return;
        // Given up half-way, by an error that is already on its way to the user.
        file_.reset();
        (void)files_.remove(temporary_).has_value();
    }

    void start(const std::string& header) {
        auto created = files_.create(temporary_);
        if (!created) throw fatal(ExitCode::kResources, "{}", created.error().message);
        file_ = std::move(*created);
        throw_unless(file_->append(std::as_bytes(std::span(header))));
    }

    void write(std::span<const float> values) override {
        while (!values.empty()) {
            skip_complete();
            CHECK(current_ < tensors_.size(), "more values than tensors hold");
            const Tensor& t = tensors_[current_];
            const auto left = static_cast<std::size_t>(count(t) - written_);
            const auto now = values.first(std::min(left, values.size()));
            if (t.type == FileType::kF32) {
                throw_unless(file_->append(std::as_bytes(now)));
            } else {
                append_bf16(now);
            }
            written_ += static_cast<std::int64_t>(now.size());
            values = values.subspan(now.size());
        }
    }

    void finish(const std::function<void()>& before_rename) override {
        skip_complete();
        CHECK(current_ == tensors_.size(), "tensor {} is not written in full",
              tensors_[current_].name);
        throw_unless(file_->sync());
        throw_unless(file_->close());
        if (before_rename) before_rename();
        throw_unless(files_.rename(temporary_, path_));
        finished_ = true;
        const Path folder = path_.parent_path();
        throw_unless(files_.sync_folder(folder.empty() ? Path(".") : folder));
    }

  private:
    void skip_complete() {
        while (current_ < tensors_.size() && written_ == count(tensors_[current_])) {
            ++current_;
            written_ = 0;
        }
    }
    void append_bf16(std::span<const float> values) {
        buffer_.resize(std::min(values.size(), kConvertElements));
        for (std::size_t done = 0; done < values.size(); done += buffer_.size()) {
            const std::size_t n = std::min(buffer_.size(), values.size() - done);
            for (std::size_t i = 0; i < n; ++i) buffer_[i] = to_bf16(values[done + i]);
            throw_unless(file_->append(std::as_bytes(std::span(buffer_).first(n))));
        }
    }

    FileSystem& files_;
    Path path_, temporary_;
    std::vector<Tensor> tensors_;
    std::unique_ptr<WritableFile> file_;
    std::vector<bf16> buffer_;
    std::size_t current_ = 0;
    std::int64_t written_ = 0;
    bool finished_ = false;
};

}  // namespace

std::unique_ptr<SafetensorsWriter> SafetensorsWriter::create(
    FileSystem& files, const Path& path, std::vector<Tensor> tensors,
    std::vector<std::pair<std::string, std::string>> metadata) {
    const std::string header = make_header(tensors, metadata);
    auto writer = std::make_unique<Writer>(files, path, std::move(tensors));
    writer->start(header);
    return writer;
}

}  // namespace isthmus::checkpoint
