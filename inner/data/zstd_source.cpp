#include <zstd.h>

#include <vector>

#include "base/error.hpp"
#include "inner/data/byte_source.hpp"

namespace isthmus::inner {
namespace {

constexpr int kMaxWindowLog = 27;  // 128 MiB, what `zstd` itself accepts without --long

struct FreeStream {
    void operator()(ZSTD_DStream* stream) const { ZSTD_freeDStream(stream); }
};

class ZstdSource final : public ByteSource {
  public:
    ZstdSource(std::unique_ptr<ByteSource> packed, Path path)
        : packed_(std::move(packed)),
          path_(std::move(path)),
          stream_(ZSTD_createDStream()),
          input_(ZSTD_DStreamInSize()) {
        if (stream_ == nullptr)
            throw fatal(ExitCode::kResources, "{}: no memory to unpack it", path_.string());
        check(ZSTD_DCtx_setParameter(stream_.get(), ZSTD_d_windowLogMax, kMaxWindowLog));
    }

    std::size_t read(std::span<std::byte> out) override {
        ZSTD_outBuffer to{out.data(), out.size(), 0};
        while (to.pos == 0 && (full_ || more_input())) {
            const std::size_t hint = check(ZSTD_decompressStream(stream_.get(), &to, &from_));
            between_frames_ = hint == 0;
            // A full buffer may hide more that is ready: ask again before reading on.
            full_ = to.pos == to.size && !between_frames_;
        }
        return to.pos;
    }

    std::uint64_t consumed_bytes() const override {
        return packed_->consumed_bytes() - (from_.size - from_.pos);
    }

  private:
    bool more_input() {
        if (from_.pos < from_.size) return true;
        const std::size_t count = packed_->read(input_);
        from_ = {input_.data(), count, 0};
        if (count == 0 && !between_frames_)
            throw fatal(ExitCode::kInput, "{}: truncated zstd: it ends at byte {} inside a frame",
                        path_.string(), packed_->consumed_bytes());
        return count > 0;
    }

    std::size_t check(std::size_t code) const {
        if (ZSTD_isError(code) != 0)
            throw fatal(ExitCode::kInput, "{}: damaged zstd near byte {}: {}", path_.string(),
                        consumed_bytes(), ZSTD_getErrorName(code));
        return code;
    }

    std::unique_ptr<ByteSource> packed_;
    Path path_;
    std::unique_ptr<ZSTD_DStream, FreeStream> stream_;
    std::vector<std::byte> input_;
    ZSTD_inBuffer from_{nullptr, 0, 0};
    bool between_frames_ = true;
    bool full_ = false;
};

}  // namespace

std::unique_ptr<ByteSource> zstd_source(std::unique_ptr<ByteSource> packed, const Path& path) {
    return std::make_unique<ZstdSource>(std::move(packed), path);
}

}  // namespace isthmus::inner
