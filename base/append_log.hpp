// A durable append log: what a process must still know after any crash.
//
// File, little endian: a header of 32 bytes
//   0  magic     "ISTHJRNL"
//   8  version   u32 = 1
//   12 reserved  u32 = 0
//   16 id        u64   drawn when the log was made
//   24 checksum  u64   XXH3 of the 24 bytes before it
// then records, 32 bytes more than their payload
//   0  length    u32   of the payload
//   4  left      u32   records that follow in the same batch (one append, one fdatasync)
//   8  batch     u64   from 1 on
//   16 before    u64   hash of the record before; the header's checksum for the first
//   24 payload
//   .. hash      u64   XXH3 of all of the record before it
// so that a record cannot be lost, moved or taken over from another log unnoticed (PROTOCOL 5).
//
// What a power failure leaves of the batch that was being written, whatever parts of it, is a torn
// tail: it is cut off, all of the batch, when the log is opened, since nothing that depends on it
// can have been sent. Everything else that is wrong is damage, and stops the opening with its
// offset: a whole record in the wrong place, or a bad record with a whole one of a later batch
// somewhere behind it (a batch is only begun when the one before is on disk), or with more behind
// it than a batch may have. What happens to the very last batch after it was written looks like a
// torn tail: only who remembers the head (as sites do, PROTOCOL 6) can tell.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/files.hpp"
#include "base/result.hpp"

namespace isthmus {

inline constexpr std::uint32_t kMaxBatchBytes = 64u << 20;

/// Names a log and how far it goes. Equal heads: equal logs.
struct LogHead {
    std::uint64_t id = 0;     ///< drawn when the log was made
    std::uint64_t count = 0;  ///< records
    std::uint64_t hash = 0;   ///< of the last record, which covers all before it
    bool operator==(const LogHead&) const = default;
};

/// THREAD  one. A log is locked while it is open (FILE.lock beside it): a second opener is refused,
/// with the pid of the first.
class AppendLog {
  public:
    struct Opened;
    /// Creates the log with `new_id` if there is none. ERRORS  the system's reason; held by another
    /// process; damaged before its tail (file, offset); another format or version.
    static Result<Opened> open(FileSystem&, const Path&, std::uint64_t new_id);
    ~AppendLog();
    AppendLog(const AppendLog&) = delete;
    AppendLog& operator=(const AppendLog&) = delete;

    const LogHead& head() const;
    std::uint64_t bytes() const;  ///< of the file
    /// All records or, after a crash, none of them; one fdatasync. After an error nothing more is
    /// taken: what is on disk is only known after opening again. REQUIRES  they have at most
    /// kMaxBatchBytes.
    Status append(std::span<const std::vector<std::byte>> records);

  private:
    struct Impl;
    explicit AppendLog(std::unique_ptr<Impl>);
    std::unique_ptr<Impl> impl_;
};

struct AppendLog::Opened {
    std::unique_ptr<AppendLog> log;
    std::vector<std::vector<std::byte>> records;
    std::uint64_t cut_bytes = 0;  ///< torn tail that was cut off
};

/// For readers beside the writer (status, `data ledger`): takes no lock, cuts nothing.
Result<std::vector<std::vector<std::byte>>> read_append_log(FileSystem&, const Path&);

}  // namespace isthmus
