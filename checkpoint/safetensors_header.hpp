// The JSON header of a safetensors file, judged as a whole before any tensor is read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.hpp"
#include "checkpoint/safetensors.hpp"

namespace isthmus::checkpoint {

/// The reference implementation's limit on the header.
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
inline constexpr std::uint64_t kLengthBytes = 8;

/// A name out of a file as it may stand in a message: one line, no control characters, not too
/// long.
std::string shown(std::string_view name);

/// Bytes of one element; 0 for a type that the format does not have.
std::uint64_t type_bytes(std::string_view type_name);

/// Entries sorted by where their data stands.
/// UNITS  data_bytes: bytes of the file behind the header.
/// ERRORS throws Fatal(kInput) naming `path` and the tensor that lies. Memory stays proportional to
/// the header whatever it claims.
std::vector<TensorEntry> parse_header(std::string_view json, std::uint64_t data_bytes,
                                      const Path& path);

}  // namespace isthmus::checkpoint
