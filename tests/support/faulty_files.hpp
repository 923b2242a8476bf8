// A file system that fails when told to: the nth call of a kind, once, several times or from then
// on.
//
//   FaultyFiles files(*posix_files);
//   files.fail({.op = FileOp::kRead, .nth = 3, .error = EIO});             // the third read from
//   now files.fail({.op = FileOp::kAppend, .error = ENOSPC, .times = FaultyFiles::kForever});
#pragma once

#include <fmt/core.h>

#include <array>
#include <cerrno>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <vector>

#include "base/files.hpp"

namespace isthmus::test {

enum class FileOp {
    kOpen,
    kCreate,
    kOpenAppend,
    kRead,
    kAppend,
    kWriteAt,
    kSync,
    kClose,
    kRename,
    kRemove,
    kTruncate,
    kLock,
    kMakeFolders,
    kSyncFolder,
    kList,
    kCount
};

struct Fault {
    FileOp op = FileOp::kRead;
    std::uint64_t nth = 1;  ///< counted from the call of fail(), from 1
    int error = EIO;
    std::uint64_t times = 1;
    std::string only = {};  ///< only paths that contain this; empty for all
};

/// Shared by the file system and the files that it opened.
class FaultPlan {
  public:
    void add(Fault fault) {
        const std::lock_guard lock(mutex_);
        faults_.push_back({std::move(fault), 0});
    }
    /// Counts one call; an error where a fault is due, else Done.
    Status call(FileOp op, const Path& path, std::uint64_t offset = 0) {
        const std::lock_guard lock(mutex_);
        ++calls_[static_cast<std::size_t>(op)];
        int error = 0;
        for (auto& [fault, seen] : faults_) {
            if (fault.op != op || path.string().find(fault.only) == std::string::npos) continue;
            ++seen;
            if (seen >= fault.nth && seen - fault.nth < fault.times) error = fault.error;
        }
        if (error == 0) return Done{};
        return Error{fmt::format("{}: at byte {}: {} (errno {})", path.string(), offset,
                                 std::generic_category().message(error), error)};
    }
    std::uint64_t calls(FileOp op) const {
        const std::lock_guard lock(mutex_);
        return calls_[static_cast<std::size_t>(op)];
    }

  private:
    struct Armed {
        Fault fault;
        std::uint64_t seen = 0;
    };
    mutable std::mutex mutex_;
    std::vector<Armed> faults_;
    std::array<std::uint64_t, static_cast<std::size_t>(FileOp::kCount)> calls_{};
};

class FaultyFiles final : public FileSystem {
  public:
    static constexpr std::uint64_t kForever = ~std::uint64_t{0};

    explicit FaultyFiles(FileSystem& inner) : inner_(inner) {}

    void fail(Fault fault) { plan_->add(std::move(fault)); }
    /// Calls of a kind so far, failed ones too.
    std::uint64_t calls(FileOp op) const { return plan_->calls(op); }

    Result<std::unique_ptr<ReadableFile>> open(const Path& path) override {
        if (Status s = plan_->call(FileOp::kOpen, path); !s) return s.error();
        auto file = inner_.open(path);
        if (!file) return file.error();
        return std::unique_ptr<ReadableFile>(
            std::make_unique<Readable>(std::move(*file), path, plan_));
    }
    Result<std::unique_ptr<WritableFile>> create(const Path& path) override {
        if (Status s = plan_->call(FileOp::kCreate, path); !s) return s.error();
        return writable(inner_.create(path), path);
    }
    Result<std::unique_ptr<WritableFile>> append(const Path& path) override {
        if (Status s = plan_->call(FileOp::kOpenAppend, path); !s) return s.error();
        return writable(inner_.append(path), path);
    }
    Status rename(const Path& from, const Path& to) override {
        if (Status s = plan_->call(FileOp::kRename, from); !s) return s;
        return inner_.rename(from, to);
    }
    Status remove(const Path& path) override {
        if (Status s = plan_->call(FileOp::kRemove, path); !s) return s;
        return inner_.remove(path);
    }
    Status truncate(const Path& path, std::uint64_t size) override {
        if (Status s = plan_->call(FileOp::kTruncate, path, size); !s) return s;
        return inner_.truncate(path, size);
    }
    Result<std::unique_ptr<FileLock>> lock(const Path& path) override {
        if (Status s = plan_->call(FileOp::kLock, path); !s) return s.error();
        return inner_.lock(path);
    }
    Status make_folders(const Path& path) override {
        if (Status s = plan_->call(FileOp::kMakeFolders, path); !s) return s;
        return inner_.make_folders(path);
    }
    Status sync_folder(const Path& path) override {
        if (Status s = plan_->call(FileOp::kSyncFolder, path); !s) return s;
        return inner_.sync_folder(path);
    }
    bool exists(const Path& path) override { return inner_.exists(path); }
    Result<std::vector<Path>> list(const Path& path) override {
        if (Status s = plan_->call(FileOp::kList, path); !s) return s.error();
        return inner_.list(path);
    }

  private:
    class Readable final : public ReadableFile {
      public:
        Readable(std::unique_ptr<ReadableFile> file, Path path, std::shared_ptr<FaultPlan> plan)
            : file_(std::move(file)), path_(std::move(path)), plan_(std::move(plan)) {}
        std::uint64_t size() const override { return file_->size(); }
        Status read_at(std::uint64_t offset, std::span<std::byte> out) override {
            if (Status s = plan_->call(FileOp::kRead, path_, offset); !s) return s;
            return file_->read_at(offset, out);
        }

      private:
        std::unique_ptr<ReadableFile> file_;
        Path path_;
        std::shared_ptr<FaultPlan> plan_;
    };

    class Writable final : public WritableFile {
      public:
        Writable(std::unique_ptr<WritableFile> file, Path path, std::shared_ptr<FaultPlan> plan)
            : file_(std::move(file)), path_(std::move(path)), plan_(std::move(plan)) {}
        Status append(std::span<const std::byte> data) override {
            if (Status s = plan_->call(FileOp::kAppend, path_); !s) return s;
            return file_->append(data);
        }
        Status write_at(std::uint64_t offset, std::span<const std::byte> data) override {
            if (Status s = plan_->call(FileOp::kWriteAt, path_, offset); !s) return s;
            return file_->write_at(offset, data);
        }
        Status sync() override {
            if (Status s = plan_->call(FileOp::kSync, path_); !s) return s;
            return file_->sync();
        }
        Status close() override {
            if (Status s = plan_->call(FileOp::kClose, path_); !s) return s;
            return file_->close();
        }

      private:
        std::unique_ptr<WritableFile> file_;
        Path path_;
        std::shared_ptr<FaultPlan> plan_;
    };

    Result<std::unique_ptr<WritableFile>> writable(Result<std::unique_ptr<WritableFile>> file,
                                                   const Path& path) {
        if (!file) return file.error();
        return std::unique_ptr<WritableFile>(
            std::make_unique<Writable>(std::move(*file), path, plan_));
    }

    FileSystem& inner_;
    std::shared_ptr<FaultPlan> plan_ = std::make_shared<FaultPlan>();
};

}  // namespace isthmus::test
