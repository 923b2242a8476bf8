// A file system in memory whose power can fail: it knows what was synced and what was not.
//
//   CrashFiles files;
//   ...                                  // write, sync, write more
//   files.crash({.keep_bytes = 7});      // of what was not synced, the first 7 bytes reach the
//   disk
//   ...                                  // open again, and look
//
// Handles and locks from before a crash are dead. The disk can also be full, and a sync can fail;
// what was not synced then is lost at the next crash although it can still be read, as on Linux.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/files.hpp"

namespace isthmus::test {

struct Crash {
    std::uint64_t keep_bytes = 0;  ///< of unsynced writes, in the order in which they were made
    bool keep_names = false;       ///< renames and removals that no sync_folder has made durable
    /// Not 0: instead of a prefix, each 16 bytes of the unsynced writes are kept or not (zeros
    /// where nothing was before) by this seed.
    std::uint64_t scatter_seed = 0;
};

class CrashFiles final : public FileSystem {
  public:
    void crash(const Crash& crash) {
        std::set<std::shared_ptr<Node>> nodes;
        for (const auto& [path, node] : names_) nodes.insert(node);
        for (const auto& [path, node] : durable_names_) nodes.insert(node);
        std::uint64_t keep = crash.keep_bytes;
        for (const auto& node : nodes) node->crash(keep, crash.scatter_seed);
        if (crash.keep_names) durable_names_ = names_;
        names_ = durable_names_;
        locks_->clear();
        ++*epoch_;
    }
    /// From now on files hold at most so many bytes together; what fits of a write is written.
    void set_capacity(std::uint64_t bytes) { capacity_ = bytes; }
    void fail_next_sync() { sync_fails_ = true; }
    /// Bytes that a crash may lose.
    std::uint64_t unsynced_bytes() const {
        std::uint64_t sum = 0;
        for (const auto& [path, node] : names_) sum += node->unsynced_bytes();
        return sum;
    }
    /// The file as it is now, to look at and to damage.
    std::vector<std::byte> content(const Path& path) const { return names_.at(path)->now; }
    void set_content(const Path& path, std::vector<std::byte> bytes) {
        const auto node = std::make_shared<Node>();
        node->now = node->synced = std::move(bytes);
        names_[path] = durable_names_[path] = node;
    }

    Result<std::unique_ptr<ReadableFile>> open(const Path& path) override {
        const auto found = names_.find(path);
        if (found == names_.end()) return missing(path);
        return std::unique_ptr<ReadableFile>(std::make_unique<Readable>(found->second->now, path));
    }
    Result<std::unique_ptr<WritableFile>> create(const Path& path) override {
        names_[path] = std::make_shared<Node>();
        return append(path);
    }
    Result<std::unique_ptr<WritableFile>> append(const Path& path) override {
        auto& node = names_[path];
        if (!node) node = std::make_shared<Node>();
        return std::unique_ptr<WritableFile>(std::make_unique<Writable>(*this, node, path));
    }
    Status rename(const Path& from, const Path& to) override {
        const auto found = names_.find(from);
        if (found == names_.end()) return missing(from);
        names_[to] = found->second;
        names_.erase(from);
        return Done{};
    }
    Status remove(const Path& path) override {
        if (names_.erase(path) == 0) return missing(path);
        return Done{};
    }
    Status truncate(const Path& path, std::uint64_t size) override {
        const auto found = names_.find(path);
        if (found == names_.end()) return missing(path);
        Node& node = *found->second;
        node.sync();
        node.now.resize(size);
        node.synced.resize(size);
        return Done{};
    }
    Result<std::unique_ptr<FileLock>> lock(const Path& path) override {
        if (!locks_->insert(path).second)
            return Error{fmt::format("{}: held by process 1", path.string())};
        return std::unique_ptr<FileLock>(std::make_unique<Lock>(locks_, epoch_, path));
    }
    Status make_folders(const Path&) override { return Done{}; }
    Status sync_folder(const Path& path) override {
        std::erase_if(durable_names_,
                      [&](const auto& entry) { return entry.first.parent_path() == path; });
        for (const auto& [name, node] : names_)
            if (name.parent_path() == path) durable_names_[name] = node;
        return Done{};
    }
    bool exists(const Path& path) override { return names_.contains(path); }
    Result<std::vector<Path>> list(const Path& path) override {
        std::vector<Path> found;
        for (const auto& [name, node] : names_)
            if (name.parent_path() == path) found.push_back(name);
        return found;
    }

  private:
    using Bytes = std::vector<std::byte>;
    struct Write {
        std::uint64_t offset = 0;
        Bytes data;
    };
    struct Node {
        Bytes now, synced;
        std::vector<Write> pending;

        static void put(Bytes& bytes, std::uint64_t offset, std::span<const std::byte> data) {
            if (data.empty()) return;
            bytes.resize(std::max<std::size_t>(bytes.size(), offset + data.size()));
            std::memcpy(bytes.data() + offset, data.data(), data.size());
        }
        void write(std::uint64_t offset, std::span<const std::byte> data) {
            put(now, offset, data);
            pending.push_back({offset, Bytes(data.begin(), data.end())});
        }
        /// Only what is pending: what a failed sync has lost stays lost until it is written again.
        void sync() {
            for (const Write& write : pending) put(synced, write.offset, write.data);
            pending.clear();
        }
        std::uint64_t unsynced_bytes() const {
            std::uint64_t sum = 0;
            for (const Write& write : pending) sum += write.data.size();
            return sum;
        }
        void crash(std::uint64_t& keep, std::uint64_t scatter_seed) {
            std::mt19937_64 random(scatter_seed);
            for (const Write& write : pending) {
                const std::span<const std::byte> data(write.data);
                if (scatter_seed == 0) {
                    const auto n = std::min<std::uint64_t>(keep, data.size());
                    put(synced, write.offset, data.first(n));
                    keep -= n;
                } else {
                    for (std::size_t at = 0; at < data.size(); at += 16) {
                        const auto piece =
                            data.subspan(at, std::min<std::size_t>(16, data.size() - at));
                        if (random() & 1) put(synced, write.offset + at, piece);
                    }
                }
            }
            pending.clear();
            now = synced;
        }
    };

    class Readable final : public ReadableFile {
      public:
        Readable(Bytes bytes, Path path) : bytes_(std::move(bytes)), path_(std::move(path)) {}
        std::uint64_t size() const override { return bytes_.size(); }
        Status read_at(std::uint64_t offset, std::span<std::byte> out) override {
            if (out.empty()) return Done{};
            if (offset + out.size() > bytes_.size())
                return Error{fmt::format("{}: ends at byte {}", path_.string(), bytes_.size())};
            std::memcpy(out.data(), bytes_.data() + offset, out.size());
            return Done{};
        }

      private:
        Bytes bytes_;
        Path path_;
    };

    class Writable final : public WritableFile {
      public:
        Writable(CrashFiles& files, std::shared_ptr<Node> node, Path path)
            : files_(files),
              node_(std::move(node)),
              path_(std::move(path)),
              born_(*files.epoch_),
              end_(node_->now.size()) {}
        Status append(std::span<const std::byte> data) override {
            const Status done = write_at(end_, data);
            if (done) end_ += data.size();
            return done;
        }
        Status write_at(std::uint64_t offset, std::span<const std::byte> data) override {
            if (born_ != *files_.epoch_) return gone();
            const std::uint64_t used = files_.used_bytes();
            const std::uint64_t old = node_->now.size();
            const std::uint64_t more = offset + data.size() > old ? offset + data.size() - old : 0;
            const std::uint64_t room = files_.capacity_ - std::min(files_.capacity_, used);
            const std::uint64_t fits = data.size() - (more > room ? more - room : 0);
            node_->write(offset, data.first(fits));
            if (fits < data.size()) {
                return Error{
                    fmt::format("{}: writing at byte {}: No space left on device (errno 28)",
                                path_.string(), offset + fits)};
            }
            return Done{};
        }
        Status sync() override {
            if (born_ != *files_.epoch_) return gone();
            if (std::exchange(files_.sync_fails_, false)) {
                // The pages count as clean now, and are not on the disk.
                node_->pending.clear();
                return Error{
                    fmt::format("{}: syncing: Input/output error (errno 5)", path_.string())};
            }
            node_->sync();
            return Done{};
        }
        Status close() override { return Done{}; }

      private:
        Error gone() const { return Error{fmt::format("{}: the power failed", path_.string())}; }
        CrashFiles& files_;
        std::shared_ptr<Node> node_;
        Path path_;
        std::uint64_t born_;
        std::uint64_t end_;
    };

    class Lock final : public FileLock {
      public:
        Lock(std::shared_ptr<std::set<Path>> locks, std::shared_ptr<std::uint64_t> epoch, Path path)
            : locks_(std::move(locks)),
              epoch_(std::move(epoch)),
              born_(*epoch_),
              path_(std::move(path)) {}
        ~Lock() override {
            if (born_ == *epoch_) locks_->erase(path_);
        }

      private:
        std::shared_ptr<std::set<Path>> locks_;
        std::shared_ptr<std::uint64_t> epoch_;
        std::uint64_t born_;
        Path path_;
    };

    static Error missing(const Path& path) {
        return Error{fmt::format("{}: No such file or directory (errno 2)", path.string())};
    }
    std::uint64_t used_bytes() const {
        std::uint64_t sum = 0;
        for (const auto& [path, node] : names_) sum += node->now.size();
        return sum;
    }

    std::map<Path, std::shared_ptr<Node>> names_, durable_names_;
    std::uint64_t capacity_ = ~std::uint64_t{0};
    bool sync_fails_ = false;
    std::shared_ptr<std::set<Path>> locks_ = std::make_shared<std::set<Path>>();
    std::shared_ptr<std::uint64_t> epoch_ = std::make_shared<std::uint64_t>(0);
};

}  // namespace isthmus::test
