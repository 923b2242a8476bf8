#include "inner/data/byte_source.hpp"

#include <algorithm>
#include <string>
#include <string_view>

#include "base/error.hpp"

namespace isthmus::inner {
namespace {

using Packing = InputKind::Packing;

class FileSource final : public ByteSource {
  public:
    explicit FileSource(std::unique_ptr<ReadableFile> file) : file_(std::move(file)) {}

    std::size_t read(std::span<std::byte> out) override {
        const std::size_t count = std::min<std::uint64_t>(out.size(), file_->size() - offset_);
        if (count == 0) return 0;
        if (Status status = file_->read_at(offset_, out.first(count)); !status)
            throw fatal(ExitCode::kInput, "{}", status.error().message);
        offset_ += count;
        return count;
    }
    std::uint64_t consumed_bytes() const override { return offset_; }

  private:
    std::unique_ptr<ReadableFile> file_;
    std::uint64_t offset_ = 0;
};

struct Magic {
    std::string_view bytes;
    std::string_view format;
    Packing packing;  // kNone: a format that we do not read
};
using namespace std::string_view_literals;
constexpr Magic kMagics[] = {
    {"\x1f\x8b"sv, "gzip", Packing::kGzip},
    {"\x28\xb5\x2f\xfd"sv, "zstd", Packing::kZstd},
    {"\xfd"
     "7zXZ\0"sv,
     "xz", Packing::kNone},
    {"BZh91AY&SY"sv, "bzip2", Packing::kNone},
    {"PK\x03\x04"sv, "zip", Packing::kNone},
    {"PAR1"sv, "parquet", Packing::kNone},
};
constexpr std::size_t kMagicBytes = 10;

// Packed bytes that went in as text would train a model on noise without a word.
void check_magic(std::string_view head, Packing expected, const Path& path) {
    for (const Magic& magic : kMagics) {
        if (!head.starts_with(magic.bytes) || expected != Packing::kNone) continue;
        if (magic.packing == Packing::kNone)
            throw fatal(ExitCode::kInput,
                        "{}: this is {}, which is not read: unpack it to text or .jsonl first",
                        path.string(), magic.format);
        throw fatal(ExitCode::kInput, "{}: this is {} by its first bytes: give it the ending {}",
                    path.string(), magic.format, magic.packing == Packing::kGzip ? ".gz" : ".zst");
    }
    if (expected == Packing::kGzip && !head.starts_with(kMagics[0].bytes))
        throw fatal(ExitCode::kInput, "{}: not gzip, whatever its name says", path.string());
}

std::unique_ptr<ReadableFile> open_file(FileSystem& files, const Path& path, RetryPolicy retry) {
    auto opened = files.open(path);
    if (!opened) throw fatal(ExitCode::kInput, "{}", opened.error().message);
    return with_retries(std::move(*opened), retry);
}

}  // namespace

InputKind input_kind(const Path& path) {
    std::string name = path.filename().string();
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const auto take = [&](std::string_view ending) {
        if (!name.ends_with(ending)) return false;
        name.resize(name.size() - ending.size());
        return true;
    };
    InputKind kind;
    if (take(".gz") || take(".dz"))
        kind.packing = Packing::kGzip;
    else if (take(".zst"))
        kind.packing = Packing::kZstd;
    kind.jsonl = take(".jsonl");
    return kind;
}

std::unique_ptr<ByteSource> plain_source(FileSystem& files, const Path& path, RetryPolicy retry) {
    return std::make_unique<FileSource>(open_file(files, path, retry));
}

std::unique_ptr<ByteSource> open_source(FileSystem& files, const Path& path, RetryPolicy retry) {
    auto file = open_file(files, path, retry);
    std::string head(std::min<std::uint64_t>(kMagicBytes, file->size()), '\0');
    if (!head.empty()) {
        Status status = file->read_at(0, std::as_writable_bytes(std::span(head)));
        if (!status) throw fatal(ExitCode::kInput, "{}", status.error().message);
    }
    const Packing packing = input_kind(path).packing;
    check_magic(head, packing, path);
    auto plain = std::make_unique<FileSource>(std::move(file));
    if (packing == Packing::kGzip) return gzip_source(std::move(plain), path);
    if (packing == Packing::kZstd) return zstd_source(std::move(plain), path);
    return plain;
}

}  // namespace isthmus::inner
