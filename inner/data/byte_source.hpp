// A stream of bytes to read once, front to back, whatever the file's packing.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/files.hpp"
#include "inner/data/retry.hpp"

namespace isthmus::inner {

class ByteSource {
  public:
    virtual ~ByteSource() = default;
    /// Fills the front of `out` (not empty) and returns how many bytes; 0 only at the end.
    /// ERRORS throws Fatal(kInput) naming file and byte offset: unreadable, truncated, damaged.
    virtual std::size_t read(std::span<std::byte> out) = 0;
    /// How far into the file, counted before unpacking: for progress and messages.
    virtual std::uint64_t consumed_bytes() const = 0;
};

/// What a file is, by its name.
struct InputKind {
    enum class Packing { kNone, kGzip, kZstd } packing = Packing::kNone;
    bool jsonl = false;
};
/// .gz and .dz (a dictionary's gzip), .zst; .jsonl before these or alone; anything else is text.
/// Upper case too.
InputKind input_kind(const Path&);

/// The unpacked bytes of `path`. ERRORS throws Fatal(kInput): missing or unreadable; first bytes
/// that are not what the name says, or that belong to a packed format which cannot be text (xz,
/// bzip2, zip, parquet).
std::unique_ptr<ByteSource> open_source(FileSystem&, const Path&, RetryPolicy);

/// The bytes of `path` as they are, whatever its name. ERRORS throws Fatal(kInput): missing or
/// unreadable.
std::unique_ptr<ByteSource> plain_source(FileSystem&, const Path&, RetryPolicy);

/// Gzip of one or more members (RFC 1952; trailing zeros are padding), checked against its CRC and
/// sizes.
std::unique_ptr<ByteSource> gzip_source(std::unique_ptr<ByteSource> packed, const Path&);

/// Zstandard of one or more frames (RFC 8878), checked where a frame has a checksum (the zstd
/// program adds one). Memory: the frame's window, at most 128 MiB; a frame that needs more is
/// refused.
std::unique_ptr<ByteSource> zstd_source(std::unique_ptr<ByteSource> packed, const Path&);

}  // namespace isthmus::inner
