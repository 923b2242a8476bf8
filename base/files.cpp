#include "base/files.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/descriptor.hpp"

namespace isthmus {

namespace {

Error failure(const Path& path, std::string_view doing, int error) {
    return Error{fmt::format("{}: {}: {} (errno {})", path.string(), doing,
                             std::generic_category().message(error), error)};
}

int open_retrying(const Path& path, int flags) {
    int fd;
    do fd = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
    while (fd < 0 && errno == EINTR);
    return fd;
}

// Linux moves at most 2 GiB a call; a smaller piece also bounds the time a signal waits.
constexpr std::size_t kPieceBytes = std::size_t{1} << 30;

class PosixReadable final : public ReadableFile {
  public:
    PosixReadable(Path path, int fd, std::uint64_t size)
        : path_(std::move(path)), fd_(fd), size_(size) {}

    std::uint64_t size() const override { return size_; }

    Status read_at(std::uint64_t offset, std::span<std::byte> out) override {
        while (!out.empty()) {
            const ssize_t n = ::pread(fd_.get(), out.data(), std::min(out.size(), kPieceBytes),
                                      static_cast<off_t>(offset));
            if (n < 0 && errno == EINTR) continue;
            if (n < 0) return failure(path_, fmt::format("reading at byte {}", offset), errno);
            if (n == 0) {
                return Error{fmt::format("{}: ends at byte {}, {} more were expected",
                                         path_.string(), offset, out.size())};
            }
            offset += static_cast<std::uint64_t>(n);
            out = out.subspan(static_cast<std::size_t>(n));
        }
        return Done{};
    }

  private:
    Path path_;
    Descriptor fd_;
    std::uint64_t size_;
};

class PosixWritable final : public WritableFile {
  public:
    PosixWritable(Path path, int fd, std::uint64_t end)
        : path_(std::move(path)), fd_(fd), end_(end) {}

    Status append(std::span<const std::byte> data) override {
        if (auto done = write_at(end_, data); !done) return done;
        end_ += data.size();
        return Done{};
    }

    Status write_at(std::uint64_t offset, std::span<const std::byte> data) override {
        if (fd_.get() < 0) return Error{fmt::format("{}: already closed", path_.string())};
        while (!data.empty()) {
            const ssize_t n = ::pwrite(fd_.get(), data.data(), std::min(data.size(), kPieceBytes),
                                       static_cast<off_t>(offset));
            if (n < 0 && errno == EINTR) continue;
            if (n < 0) return failure(path_, fmt::format("writing at byte {}", offset), errno);
            offset += static_cast<std::uint64_t>(n);
            data = data.subspan(static_cast<std::size_t>(n));
        }
        return Done{};
    }

    Status sync() override {
        if (fd_.get() < 0) return Error{fmt::format("{}: already closed", path_.string())};
        if (::fdatasync(fd_.get()) != 0) return failure(path_, "syncing", errno);
        return Done{};
    }

    Status close() override {
        const int fd = fd_.release();
        if (fd < 0) return Error{fmt::format("{}: already closed", path_.string())};
        // After EINTR Linux has closed the descriptor: trying again could close somebody else's.
        if (::close(fd) != 0 && errno != EINTR) return failure(path_, "closing", errno);
        return Done{};
    }

  private:
    Path path_;
    Descriptor fd_;
    std::uint64_t end_;
};

class PosixLock final : public FileLock {
  public:
    explicit PosixLock(Descriptor fd) : fd_(std::move(fd)) {}

  private:
    Descriptor fd_;  // the lock ends with it
};

/// Who wrote the lock file: "process 123", or words for who it may be.
std::string holder(int fd) {
    std::array<char, 24> text{};
    const ssize_t n = ::pread(fd, text.data(), text.size(), 0);
    const std::string_view found(text.data(), n > 0 ? static_cast<std::size_t>(n) : 0);
    const auto digits = found.substr(0, found.find_first_not_of("0123456789"));
    return digits.empty() ? "another process" : fmt::format("process {}", digits);
}

class PosixFiles final : public FileSystem {
  public:
    Result<std::unique_ptr<ReadableFile>> open(const Path& path) override {
        Descriptor fd(open_retrying(path, O_RDONLY));
        if (fd.get() < 0) return failure(path, "opening", errno);
        struct stat info {};
        if (::fstat(fd.get(), &info) != 0) return failure(path, "opening", errno);
        if (S_ISDIR(info.st_mode)) return failure(path, "opening", EISDIR);
        const auto size = static_cast<std::uint64_t>(info.st_size);
        return std::unique_ptr<ReadableFile>(
            std::make_unique<PosixReadable>(path, fd.release(), size));
    }

    Result<std::unique_ptr<WritableFile>> create(const Path& path) override {
        return writable(path, O_TRUNC, "creating");
    }

    Result<std::unique_ptr<WritableFile>> append(const Path& path) override {
        return writable(path, 0, "opening for appending");
    }

    Status rename(const Path& from, const Path& to) override {
        if (::rename(from.c_str(), to.c_str()) != 0)
            return failure(from, fmt::format("renaming to {}", to.string()), errno);
        return Done{};
    }

    Status remove(const Path& path) override {
        if (::remove(path.c_str()) != 0) return failure(path, "removing", errno);
        return Done{};
    }

    Status truncate(const Path& path, std::uint64_t size) override {
        Descriptor fd(open_retrying(path, O_WRONLY));
        if (fd.get() < 0) return failure(path, "opening", errno);
        const off_t now = ::lseek(fd.get(), 0, SEEK_END);
        if (now < 0 || static_cast<std::uint64_t>(now) < size) {
            return Error{
                fmt::format("{}: has {} bytes and cannot be cut to {}", path.string(), now, size)};
        }
        int done;
        do done = ::ftruncate(fd.get(), static_cast<off_t>(size));
        while (done != 0 && errno == EINTR);
        if (done != 0) return failure(path, "cutting", errno);
        if (::fsync(fd.get()) != 0) return failure(path, "syncing", errno);
        return Done{};
    }

    Result<std::unique_ptr<FileLock>> lock(const Path& path) override {
        Descriptor fd(open_retrying(path, O_RDWR | O_CREAT));
        if (fd.get() < 0) return failure(path, "opening", errno);
        if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
            if (errno != EWOULDBLOCK) return failure(path, "locking", errno);
            return Error{fmt::format("{}: held by {}", path.string(), holder(fd.get()))};
        }
        const std::string pid = fmt::format("{}\n", ::getpid());
        if (::ftruncate(fd.get(), 0) != 0 ||
            ::pwrite(fd.get(), pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size()))
            return failure(path, "writing the owner's pid", errno);
        return std::unique_ptr<FileLock>(std::make_unique<PosixLock>(std::move(fd)));
    }

    Status make_folders(const Path& path) override {
        std::error_code error;
        std::filesystem::create_directories(path, error);
        if (error) return failure(path, "making the folder", error.value());
        return Done{};
    }

    Status sync_folder(const Path& path) override {
        const Path folder = path.empty() ? Path(".") : path;
        Descriptor fd(open_retrying(folder, O_RDONLY | O_DIRECTORY));
        if (fd.get() < 0) return failure(folder, "opening the folder", errno);
        if (::fsync(fd.get()) != 0) return failure(folder, "syncing the folder", errno);
        return Done{};
    }

    bool exists(const Path& path) override {
        std::error_code error;
        return std::filesystem::exists(path, error);
    }

    Result<std::vector<Path>> list(const Path& path) override {
        std::error_code error;
        std::vector<Path> found;
        std::filesystem::directory_iterator entry(path, error), end;
        while (!error && entry != end) {
            found.push_back(entry->path());
            entry.increment(error);
        }
        if (error) return failure(path, "listing", error.value());
        std::sort(found.begin(), found.end());
        return found;
    }

  private:
    static Result<std::unique_ptr<WritableFile>> writable(const Path& path, int extra,
                                                          std::string_view doing) {
        Descriptor fd(open_retrying(path, O_WRONLY | O_CREAT | extra));
        if (fd.get() < 0) return failure(path, doing, errno);
        const off_t end = ::lseek(fd.get(), 0, SEEK_END);
        if (end < 0) return failure(path, doing, errno);
        return std::unique_ptr<WritableFile>(
            std::make_unique<PosixWritable>(path, fd.release(), static_cast<std::uint64_t>(end)));
    }
};

Status write_and_close(FileSystem& files, const Path& path, std::string_view content) {
    auto file = files.create(path);
    if (!file) return file.error();
    const auto bytes = std::as_bytes(std::span(content.data(), content.size()));
    if (auto done = (*file)->append(bytes); !done) return done;
    if (auto done = (*file)->sync(); !done) return done;
    return (*file)->close();
}

}  // namespace

std::unique_ptr<FileSystem> posix_files() {
    return std::make_unique<PosixFiles>();
}

Result<std::string> read_text(FileSystem& files, const Path& path, std::uint64_t limit_bytes) {
    auto file = files.open(path);
    if (!file) return file.error();
    const std::uint64_t size = (*file)->size();
    if (size > limit_bytes) {
        return Error{fmt::format("{}: {} bytes, more than the {} that such a file may have",
                                 path.string(), size, limit_bytes)};
    }
    std::string text(size, '\0');
    auto done = (*file)->read_at(0, std::as_writable_bytes(std::span(text.data(), text.size())));
    if (!done) return done.error();
    return text;
}

Status replace_file(FileSystem& files, const Path& path, std::string_view content) {
    // The name is unique among processes and threads: two writers of one file leave one of the two
    // whole.
    static std::atomic<std::uint64_t> counter{0};
    Path temporary = path;
    temporary += fmt::format(".{}.{}.tmp", ::getpid(), counter.fetch_add(1));
    Status done = write_and_close(files, temporary, content);
    if (done) done = files.rename(temporary, path);
    if (!done) {
        // Best effort: the first error is the one to tell.
        if (files.exists(temporary)) (void)files.remove(temporary).has_value();
        return done;
    }
    return files.sync_folder(path.parent_path());
}

}  // namespace isthmus
