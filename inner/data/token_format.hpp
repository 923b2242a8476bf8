// The token file's header as a plain record, its bytes, and the arithmetic of its layout: what the
// writer and the reader share. token_file.hpp describes the format.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "inner/data/token_file.hpp"

namespace isthmus::inner {

inline constexpr std::uint64_t kTokenHeaderBytes = 4096;
inline constexpr std::uint64_t kTokenPageBytes = 4096;
inline constexpr std::uint64_t kTokenBlockBytes = 1u << 20;
inline constexpr std::uint32_t kTokenVersion = 1;

struct TokenHeader {
    TokenFileInfo info;
    std::uint64_t block_bytes = kTokenBlockBytes;
    std::uint64_t documents_offset =
        0;  ///< bytes from the start of the file; tokens start at kTokenHeaderBytes
    std::uint64_t checksums_offset = 0;

    /// Blocks cut [kTokenHeaderBytes, checksums_offset): tokens, document index and their padding.
    std::uint64_t payload_bytes() const { return checksums_offset - kTokenHeaderBytes; }
    std::uint64_t blocks() const { return (payload_bytes() + block_bytes - 1) / block_bytes; }
    std::uint64_t file_bytes() const { return checksums_offset + 8 * blocks(); }
};

/// The next multiple of a page.
constexpr std::uint64_t page_aligned(std::uint64_t bytes) {
    return (bytes + kTokenPageBytes - 1) / kTokenPageBytes * kTokenPageBytes;
}

/// 1, 2 or 4: the narrowest token that holds ids below `vocab`.
constexpr std::uint32_t token_bytes_for(std::uint64_t vocab) {
    return vocab <= 1u << 8 ? 1 : vocab <= 1u << 16 ? 2 : 4;
}

/// Names the data set: XXH3 of the checksum table, then token width, vocabulary, tokens and the
/// split.
std::uint64_t token_fingerprint(const TokenFileInfo&, std::span<const std::uint64_t> checksums);

std::array<std::byte, kTokenHeaderBytes> encode_token_header(const TokenHeader&);

/// Reads and checks the header: nothing in it is trusted before it fits the file's true size.
/// ERRORS throws Fatal(kInput), one line that names the file.
TokenHeader decode_token_header(std::span<const std::byte> bytes, std::uint64_t file_bytes,
                                const Path&);

/// Little-endian integers to and from bytes, whatever the machine.
template <class T>
void store_little(std::byte* out, T value) {
    for (std::size_t i = 0; i < sizeof(T); ++i) out[i] = static_cast<std::byte>(value >> (8 * i));
}
template <class T>
T load_little(const std::byte* in) {
    T value = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i)
        value = static_cast<T>(value | (static_cast<T>(in[i]) << (8 * i)));
    return value;
}

}  // namespace isthmus::inner
