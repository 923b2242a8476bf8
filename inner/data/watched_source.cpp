#include "inner/data/watched_source.hpp"

#include "base/error.hpp"

namespace isthmus::inner {
namespace {

class WatchedSource final : public ByteSource {
  public:
    WatchedSource(std::unique_ptr<ByteSource> source, Watch watch)
        : source_(std::move(source)), watch_(std::move(watch)) {}

    std::size_t read(std::span<std::byte> out) override {
        if (watch_.stop && watch_.stop())
            throw fatal(ExitCode::kInterrupted, "stopped; the unfinished token file was removed");
        const std::size_t count = source_->read(out);
        if (watch_.progress)
            watch_.progress(watch_.done_bytes + source_->consumed_bytes(), watch_.total_bytes);
        return count;
    }
    std::uint64_t consumed_bytes() const override { return source_->consumed_bytes(); }

  private:
    std::unique_ptr<ByteSource> source_;
    Watch watch_;
};

}  // namespace

std::unique_ptr<ByteSource> watched(std::unique_ptr<ByteSource> source, Watch watch) {
    return std::make_unique<WatchedSource>(std::move(source), std::move(watch));
}

std::uint64_t total_bytes(FileSystem& files, const std::vector<Path>& paths) {
    std::uint64_t total = 0;
    for (const Path& path : paths) {
        const auto file = files.open(path);
        if (!file) throw fatal(ExitCode::kInput, "{}", file.error().message);
        total += (*file)->size();
    }
    return total;
}

}  // namespace isthmus::inner
