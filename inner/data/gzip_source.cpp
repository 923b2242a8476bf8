#define ZLIB_CONST
#include <zlib.h>

#include <algorithm>
#include <vector>

#include "base/error.hpp"
#include "inner/data/byte_source.hpp"

namespace isthmus::inner {
namespace {

constexpr std::size_t kInputBytes = 256u << 10;
constexpr int kGzipOnly = 16 + MAX_WBITS;

class GzipSource final : public ByteSource {
  public:
    GzipSource(std::unique_ptr<ByteSource> packed, Path path)
        : packed_(std::move(packed)), path_(std::move(path)), input_(kInputBytes) {
        if (inflateInit2(&stream_, kGzipOnly) != Z_OK)
            throw fatal(ExitCode::kResources, "{}: no memory to unpack it", path_.string());
    }
    ~GzipSource() override { inflateEnd(&stream_); }
    GzipSource(const GzipSource&) = delete;
    GzipSource& operator=(const GzipSource&) = delete;

    std::size_t read(std::span<std::byte> out) override {
        const std::size_t limit =
            std::min<std::size_t>(out.size(), 1u << 30);  // zlib counts in 32 bits
        stream_.next_out = reinterpret_cast<Bytef*>(out.data());
        stream_.avail_out = static_cast<uInt>(limit);
        while (stream_.avail_out == limit) {
            if (stream_.avail_in == 0) refill();
            if (between_members_) {
                if (stream_.avail_in == 0) break;
                if (!start_member()) continue;
            }
            inflate_some();
        }
        return limit - stream_.avail_out;
    }

    std::uint64_t consumed_bytes() const override {
        return packed_->consumed_bytes() - stream_.avail_in;
    }

  private:
    void refill() {
        stream_.avail_in = static_cast<uInt>(packed_->read(input_));
        stream_.next_in = reinterpret_cast<const Bytef*>(input_.data());
    }

    // Padding zeros may follow a member; false where they do.
    bool start_member() {
        if (members_ > 0 && *stream_.next_in == 0) {
            ++stream_.next_in;
            --stream_.avail_in;
            padding_ = true;
            return false;
        }
        if (padding_)
            throw fatal(ExitCode::kInput, "{}: byte {}: data after the gzip's padding",
                        path_.string(), consumed_bytes());
        inflateReset(&stream_);
        between_members_ = false;
        return true;
    }

    void inflate_some() {
        const int code = inflate(&stream_, Z_NO_FLUSH);
        if (code == Z_OK) return;
        if (code == Z_STREAM_END) {
            between_members_ = true;
            ++members_;
        } else if (code == Z_MEM_ERROR) {
            throw fatal(ExitCode::kResources, "{}: no memory to unpack it", path_.string());
        } else if (code == Z_BUF_ERROR) {
            // No progress although there is room: all that zlib held back is out, and the input has
            // ended.
            throw fatal(ExitCode::kInput, "{}: truncated gzip: it ends at byte {} inside a member",
                        path_.string(), packed_->consumed_bytes());
        } else {
            throw fatal(ExitCode::kInput, "{}: damaged gzip near byte {}: {}", path_.string(),
                        consumed_bytes(), stream_.msg != nullptr ? stream_.msg : "not gzip");
        }
    }

    std::unique_ptr<ByteSource> packed_;
    Path path_;
    std::vector<std::byte> input_;
    z_stream stream_{};
    std::uint64_t members_ = 0;
    bool between_members_ = true;
    bool padding_ = false;
};

}  // namespace

std::unique_ptr<ByteSource> gzip_source(std::unique_ptr<ByteSource> packed, const Path& path) {
    return std::make_unique<GzipSource>(std::move(packed), path);
}

}  // namespace isthmus::inner
