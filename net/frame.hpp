// The wire format: every message between processes is one frame, a fixed header and a payload.
//
// Header, 40 bytes, little endian:
//   0  magic     "ISTH"
//   4  version   u16 = 1
//   6  kind      u16
//   8  run       u64   which run this belongs to
//   16 sender    u32   site id; kCoordinator for the coordinator
//   20 reserved  u32 = 0
//   24 size      u64   bytes of payload that follow
//   32 checksum  u64   XXH3 of the 32 bytes before it and the payload
// The checksum finds accidents, not attackers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.hpp"
#include "base/result.hpp"

namespace isthmus::net {

using RunId = Id<struct RunTag, std::uint64_t>;

inline constexpr std::uint16_t kFrameVersion = 1;
inline constexpr std::size_t kFrameHeaderBytes = 40;
inline constexpr SiteId kCoordinator{0xffffffffu};

/// What a receiver accepts.
struct FrameRules {
    RunId run;
    std::uint16_t num_kinds = 0;  ///< kinds are < num_kinds
    std::uint64_t max_payload_bytes = 0;
};

/// A received frame: a view, valid as long as the bytes it was parsed from.
struct Frame {
    std::uint16_t kind = 0;
    SiteId sender;
    std::span<const std::byte> payload;
};

/// Fills the header that stands in front of `frame.payload`.
void write_frame_header(std::span<std::byte, kFrameHeaderBytes> out, RunId run, const Frame& frame);

/// Header and payload in one buffer.
std::vector<std::byte> make_frame(RunId run, const Frame& frame);

/// ERRORS one line: too short, foreign (magic), another version, another run, unknown kind, a size
/// that is too large or differs from what came, damaged (checksum). Nothing is allocated before all
/// hold.
Result<Frame> parse_frame(std::span<const std::byte> bytes, const FrameRules& rules);

}  // namespace isthmus::net
