#include "base/append_log.hpp"

#include <fmt/core.h>

#include <cstring>
#include <string_view>
#include <utility>

#include "base/hash.hpp"

namespace isthmus {

namespace {

using Bytes = std::vector<std::byte>;
using Records = std::vector<Bytes>;

constexpr std::string_view kMagic = "ISTHJRNL";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kHeaderBytes = 32;
constexpr std::size_t kRecordHeaderBytes = 24;
constexpr std::size_t kRecordBytes = kRecordHeaderBytes + 8;  // without its payload

template <class T>
T field(std::span<const std::byte> bytes, std::size_t offset) {
    T value;
    std::memcpy(&value, bytes.data() + offset, sizeof(T));
    return value;
}
template <class T>
void add_field(Bytes& bytes, T value) {
    const auto* from = reinterpret_cast<const std::byte*>(&value);
    bytes.insert(bytes.end(), from, from + sizeof(T));
}

Bytes make_header(std::uint64_t id) {
    Bytes bytes(kMagic.size());
    std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
    add_field(bytes, kVersion);
    add_field(bytes, std::uint32_t{0});
    add_field(bytes, id);
    add_field(bytes, hash64(bytes));
    return bytes;
}

/// Where a record stands.
struct Place {
    std::uint64_t batch = 0;
    std::uint32_t left = 0;
    std::uint64_t before = 0;
};

/// Adds the record to `out`; its hash.
std::uint64_t add_record(Bytes& out, const Bytes& payload, const Place& place) {
    const std::size_t begin = out.size();
    add_field(out, static_cast<std::uint32_t>(payload.size()));
    add_field(out, place.left);
    add_field(out, place.batch);
    add_field(out, place.before);
    out.insert(out.end(), payload.begin(), payload.end());
    const std::uint64_t hash = hash64(std::span(out).subspan(begin));
    add_field(out, hash);
    return hash;
}

/// A record whose own hash is right.
struct Record {
    Place place;
    std::span<const std::byte> payload;
    std::uint64_t hash = 0;
};

bool whole_record(std::span<const std::byte> bytes, Record& out) {
    if (bytes.size() < kRecordBytes) return false;
    const auto length = field<std::uint32_t>(bytes, 0);
    if (length > bytes.size() - kRecordBytes) return false;
    const auto covered = bytes.first(kRecordHeaderBytes + length);
    out.hash = field<std::uint64_t>(bytes, covered.size());
    if (out.hash != hash64(covered)) return false;
    out.place = {.batch = field<std::uint64_t>(bytes, 8),
                 .left = field<std::uint32_t>(bytes, 4),
                 .before = field<std::uint64_t>(bytes, 16)};
    out.payload = covered.subspan(kRecordHeaderBytes);
    return true;
}

/// Whether a whole record of a batch after `batch` begins anywhere in these bytes.
bool has_later_batch(std::span<const std::byte> bytes, std::uint64_t batch) {
    // Batch numbers are dense: this spares the hash of nearly all places where no record begins.
    const std::uint64_t most = bytes.size() / kRecordBytes;
    Record record;
    for (; bytes.size() >= kRecordBytes; bytes = bytes.subspan(1)) {
        const auto found = field<std::uint64_t>(bytes, 8);
        if (found > batch && found - batch <= most && whole_record(bytes, record)) return true;
    }
    return false;
}

struct Content {
    LogHead head;
    Records records;
    std::uint64_t batches = 0;
    std::uint64_t last_batch = kHeaderBytes;  ///< where it begins
    std::uint64_t end = kHeaderBytes;         ///< of the last batch that is whole
};

Error damaged(const Path& path, std::uint64_t offset, std::string_view what) {
    return Error{fmt::format("{}: damaged at byte {}: {}; bring back a copy of the file",
                             path.string(), offset, what)};
}

Result<Content> parse_header(std::span<const std::byte> bytes, const Path& path) {
    if (bytes.size() < kHeaderBytes || std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0)
        return Error{fmt::format("{}: not a journal of this program", path.string())};
    if (const auto version = field<std::uint32_t>(bytes, 8); version != kVersion) {
        return Error{fmt::format("{}: a journal of format {}, this program knows {}", path.string(),
                                 version, kVersion)};
    }
    Content content;
    content.head.id = field<std::uint64_t>(bytes, 16);
    content.head.hash = hash64(bytes.first(24));
    if (content.head.hash != field<std::uint64_t>(bytes, 24))
        return damaged(path, 0, "the header's checksum is wrong");
    return content;
}

/// The next batch, appended to `content` if it is whole. Says whether it was.
Result<bool> parse_batch(std::span<const std::byte> bytes, Content& content, const Path& path) {
    std::uint64_t at = content.end, before = content.head.hash, left = 0;
    Records records;
    do {
        const auto rest = bytes.subspan(at);
        const std::uint64_t batch = content.batches + 1;
        Record record;
        if (!whole_record(rest, record)) {
            if (bytes.size() - content.end > kMaxBatchBytes)
                return damaged(path, at, "a bad record with too much behind it to be a torn tail");
            if (!rest.empty() && has_later_batch(rest.subspan(1), batch))
                return damaged(path, at, "a bad record, and later ones behind it");
            return false;
        }
        const bool first = records.empty();
        if (record.place.before != before || record.place.batch != batch ||
            (!first && record.place.left + 1 != left))
            return damaged(path, at, "a record that does not follow the one before it");
        records.emplace_back(record.payload.begin(), record.payload.end());
        before = record.hash;
        left = record.place.left;
        at += kRecordBytes + record.payload.size();
    } while (left > 0);
    content.last_batch = std::exchange(content.end, at);
    ++content.batches;
    content.head.count += records.size();
    content.head.hash = before;
    for (Bytes& record : records) content.records.push_back(std::move(record));
    return true;
}

Result<Content> parse(std::span<const std::byte> bytes, const Path& path) {
    auto content = parse_header(bytes, path);
    if (!content) return content;
    while (content->end < bytes.size()) {
        const auto whole = parse_batch(bytes, *content, path);
        if (!whole) return whole.error();
        if (!*whole) break;
    }
    return content;
}

Result<Bytes> read_all(FileSystem& files, const Path& path) {
    auto file = files.open(path);
    if (!file) return file.error();
    Bytes bytes((*file)->size());
    if (const Status done = (*file)->read_at(0, bytes); !done) return done.error();
    return bytes;
}

/// What is read may not be on disk: a process that was killed before its fdatasync, or whose
/// fdatasync failed, leaves pages that say more than the disk (after a failure they even count as
/// clean). Only the last batch can be such: it is written again.
Status make_durable(WritableFile& file, std::span<const std::byte> bytes, const Content& content) {
    const auto batch = bytes.subspan(content.last_batch, content.end - content.last_batch);
    if (batch.empty()) return Done{};
    if (const Status done = file.write_at(content.last_batch, batch); !done) return done;
    return file.sync();
}

}  // namespace

struct AppendLog::Impl {
    Path path;
    std::unique_ptr<FileLock> lock;
    std::unique_ptr<WritableFile> file;
    LogHead head;
    std::uint64_t batches = 0;
    std::uint64_t bytes = 0;
    bool failed = false;
};

AppendLog::AppendLog(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
AppendLog::~AppendLog() = default;

const LogHead& AppendLog::head() const {
    return impl_->head;
}

std::uint64_t AppendLog::bytes() const {
    return impl_->bytes;
}

Result<AppendLog::Opened> AppendLog::open(FileSystem& files, const Path& path,
                                          std::uint64_t new_id) {
    Path beside = path;
    beside += ".lock";
    auto lock = files.lock(beside);
    if (!lock) return lock.error();
    if (!files.exists(path)) {
        // As a whole or not at all: a header is never torn.
        const Bytes header = make_header(new_id);
        const std::string_view text(reinterpret_cast<const char*>(header.data()), header.size());
        if (const Status done = replace_file(files, path, text); !done) return done.error();
    }
    const auto bytes = read_all(files, path);
    if (!bytes) return bytes.error();
    auto content = parse(*bytes, path);
    if (!content) return content.error();
    const std::uint64_t cut = bytes->size() - content->end;
    if (cut > 0) {
        if (const Status done = files.truncate(path, content->end); !done) return done.error();
    }
    auto file = files.append(path);
    if (!file) return file.error();
    if (const Status done = make_durable(**file, *bytes, *content); !done) return done.error();
    // The name too, if whoever made the file was killed before it could say so.
    if (const Status done = files.sync_folder(path.parent_path()); !done) return done.error();
    auto impl = std::make_unique<Impl>(Impl{.path = path,
                                            .lock = std::move(*lock),
                                            .file = std::move(*file),
                                            .head = content->head,
                                            .batches = content->batches,
                                            .bytes = content->end});
    return Opened{.log = std::unique_ptr<AppendLog>(new AppendLog(std::move(impl))),
                  .records = std::move(content->records),
                  .cut_bytes = cut};
}

Status AppendLog::append(std::span<const std::vector<std::byte>> records) {
    if (impl_->failed) {
        return Error{
            fmt::format("{}: an earlier write failed; nothing is written until it is opened "
                        "again",
                        impl_->path.string())};
    }
    if (records.empty()) return Done{};
    std::size_t size = 0;
    for (const Bytes& record : records) size += kRecordBytes + record.size();
    CHECK(size <= kMaxBatchBytes, "{} bytes in one batch", size);
    Bytes batch;
    batch.reserve(size);
    LogHead head = impl_->head;
    for (const Bytes& record : records) {
        const auto left =
            static_cast<std::uint32_t>(records.size() - (head.count - impl_->head.count) - 1);
        head.hash = add_record(batch, record,
                               {.batch = impl_->batches + 1, .left = left, .before = head.hash});
        ++head.count;
    }
    Status done = impl_->file->append(batch);
    // Never tried again after a failure: the kernel may have dropped what it could not write.
    if (done) done = impl_->file->sync();
    if (!done) {
        impl_->failed = true;
        return done;
    }
    impl_->head = head;
    impl_->bytes += size;
    ++impl_->batches;
    return Done{};
}

Result<std::vector<std::vector<std::byte>>> read_append_log(FileSystem& files, const Path& path) {
    const auto bytes = read_all(files, path);
    if (!bytes) return bytes.error();
    auto content = parse(*bytes, path);
    if (!content) return content.error();
    return std::move(content->records);
}

}  // namespace isthmus
