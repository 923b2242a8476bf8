// The port to the file system: everything durable goes through it, so that tests can make it fail.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace isthmus {

using Path = std::filesystem::path;

/// A file open for reading at any offset.
/// THREAD  read_at may be called from several threads at once.
class ReadableFile {
  public:
    virtual ~ReadableFile() = default;
    virtual std::uint64_t size() const = 0;
    /// Fills all of `out` from `offset`, or fails naming file, offset and errno.
    virtual Status read_at(std::uint64_t offset, std::span<std::byte> out) = 0;
};

/// A file open for appending (and for overwriting what was written before, for headers).
class WritableFile {
  public:
    virtual ~WritableFile() = default;
    virtual Status append(std::span<const std::byte> data) = 0;
    virtual Status write_at(std::uint64_t offset, std::span<const std::byte> data) = 0;
    virtual Status sync() = 0;   ///< fdatasync: data is on disk afterwards
    virtual Status close() = 0;  ///< errors at close are errors
};

/// Held until it is destroyed, or its process ends in any way.
class FileLock {
  public:
    virtual ~FileLock() = default;
};

class FileSystem {
  public:
    virtual ~FileSystem() = default;
    virtual Result<std::unique_ptr<ReadableFile>> open(const Path&) = 0;
    /// Creates or truncates.
    virtual Result<std::unique_ptr<WritableFile>> create(const Path&) = 0;
    /// Creates if missing, else goes on at the end.
    virtual Result<std::unique_ptr<WritableFile>> append(const Path&) = 0;
    virtual Status rename(const Path& from, const Path& to) = 0;
    virtual Status remove(const Path&) = 0;
    /// Cuts the file to `size`, which is at most what it has; durable when it returns.
    virtual Status truncate(const Path&, std::uint64_t size) = 0;
    /// Locks this file, made if missing, for one holder; never waits. The file holds the owner's
    /// pid. ERRORS  held: names the holder.
    virtual Result<std::unique_ptr<FileLock>> lock(const Path&) = 0;
    virtual Status make_folders(const Path&) = 0;
    virtual Status sync_folder(const Path&) = 0;  ///< makes renames in it durable
    virtual bool exists(const Path&) = 0;
    virtual Result<std::vector<Path>> list(const Path&) = 0;  ///< sorted full paths
};

/// The operating system's files.
std::unique_ptr<FileSystem> posix_files();

/// Whole small file as text; refuses more than `limit_bytes`.
Result<std::string> read_text(FileSystem&, const Path&, std::uint64_t limit_bytes = 64u << 20);

/// Write temporary beside, fsync, rename, fsync the folder: readers see the old or the new content.
Status replace_file(FileSystem&, const Path&, std::string_view content);

}  // namespace isthmus
