// What coordinator and sites say to each other: plain records, each one frame on the wire.
//
// A meeting, seen from a site: READY -> BEGIN -> (exchange) -> VOTE -> COMMIT. Every message may
// come twice: whoever waits for an answer says its own again at every beat.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.hpp"
#include "base/result.hpp"

namespace isthmus::outer {

/// BLAKE2b of a state's fp32 bytes (outer_step.hpp).
using StateHash = std::array<std::byte, 32>;
std::string hex(const StateHash&);

/// Where a site takes another site's data from: one endpoint for each site, its own empty.
using Endpoints = std::vector<std::string>;

/// Site: I am here, this is what I hold. Answered by Start.
struct Hello {
    std::uint64_t incarnation =
        0;  ///< random for each process: tells a restarted site from a repeated message
    std::uint64_t config_hash = 0;
    std::uint64_t elements = 0;  ///< fp32 elements of all fragments
    StateHash state{};
    Endpoints listens;  ///< [peer] is where this site hears that peer
};
/// Coordinator: everyone is here.
struct Start {
    Endpoints speak_to;  ///< [peer] is where that peer hears the receiver of this message
};
/// Site: I have cut what I will contribute.
struct Ready {
    Round round;
    StateHash anchor{};         ///< what the pseudo-gradient is taken from
    std::uint64_t samples = 0;  ///< trained since the last round
};
/// Coordinator: exchange. The result is sum(weight_i x_i) / sum(weight_i), in ascending site id.
struct Begin {
    Round round;
    std::vector<SiteId> contributors;
    std::vector<float> weights;
};
/// Site: this is what I would hold after the round.
struct Vote {
    Round round;
    StateHash result{};
};
/// Coordinator: all voted the same; apply.
struct Commit {
    Round round;
    StateHash result{};
};
/// Site: I have trained to the end (reason empty), or I leave before it. Answered by Farewell.
struct Leave {
    std::string reason;
};
/// Coordinator: you may go.
struct Farewell {};
/// Coordinator: the run ends here. One line that names who is to blame.
struct Stop {
    std::string reason;
};
/// Either: I live. A site's progress counts what it has done: steps, and chunks moved.
struct Beat {
    std::uint64_t progress = 0;
};

using Message = std::variant<Hello, Start, Ready, Begin, Vote, Commit, Leave, Farewell, Stop, Beat>;

/// Kinds of frames: a Message's index, and one for data between sites (exchange.hpp).
inline constexpr std::uint16_t kDataKind = std::variant_size_v<Message>;
inline constexpr std::uint16_t kNumKinds = kDataKind + 1;
/// Largest payload of a Message.
inline constexpr std::uint64_t kMaxMessageBytes = 64 << 10;

std::uint16_t kind_of(const Message&);
std::vector<std::byte> encode(const Message&);
/// ERRORS one line: unknown kind, a field missing, bytes left over, a list longer than what came.
Result<Message> decode(std::uint16_t kind, std::span<const std::byte> payload);

}  // namespace isthmus::outer
