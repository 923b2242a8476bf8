// A durable append log: what a process must still know after any crash.
//
// File: a header (magic, version, random log id, checksum), then records, each a length, the
// payload and a hash that covers the record before it, so that a record cannot be lost, moved or
// taken over from another log unnoticed (PROTOCOL 5). What was written when the power failed is a
// torn tail: it is cut off when the log is opened, since nothing that depends on it can have been
// sent. A bad record before the tail is damage, and stops the opening with its offset.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/files.hpp"
#include "base/result.hpp"

namespace isthmus {

/// Names a log and how far it goes. Equal heads: equal logs.
struct LogHead {
    std::uint64_t id = 0;     ///< drawn when the log was made
    std::uint64_t count = 0;  ///< records
    std::uint64_t hash = 0;   ///< of the last record, which covers all before it
    bool operator==(const LogHead&) const = default;
};

/// THREAD  one. A log is locked while it is open: a second opener is refused, with the pid of the
/// first.
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
    /// All records or, after a crash, the first few of them; one fdatasync. After an error nothing
    /// more is taken: what is on disk is only known after opening again.
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
