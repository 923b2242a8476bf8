// The frames of the data plane, and what both of its halves share: data_server.hpp answers,
// data_plane.cpp asks.
#pragma once

#include <fmt/core.h>

#include <set>
#include <string>

#include "base/log.hpp"
#include "net/frame.hpp"
#include "net/link.hpp"
#include "outer/messages.hpp"

namespace isthmus::outer {

// Kinds of frames, after those of messages.
inline constexpr std::uint16_t kWant = kNumMessageKinds;  ///< AskedBy
inline constexpr std::uint16_t kItem =
    kNumMessageKinds + 1;  ///< u16 size of a packed Want, it, bytes
inline constexpr std::uint16_t kNone = kNumMessageKinds + 2;  ///< a packed Want
inline constexpr std::uint16_t kLater =
    kNumMessageKinds + 3;  ///< "I live, and have not got it yet"
inline constexpr std::uint16_t kNumDataKinds = kNumMessageKinds + 4;

/// Room in a frame for a name and a packed Want.
inline constexpr std::size_t kWantBytes = 256;
/// Messages taken from one socket in one pump.
inline constexpr int kAtOnce = 64;
/// A socket's queue. What askers' windows let them ask for is less, so a full one means that the
/// other side does not keep to them.
inline constexpr int kQueueMessages = 8192;

struct DataWire {
    net::RunId run;
    std::size_t max_item_bytes = 0;
    net::KeyPair keys;

    net::FrameRules rules() const {
        return {.run = run,
                .num_kinds = kNumDataKinds,
                .max_payload_bytes = max_item_bytes + kWantBytes};
    }
    net::LinkOptions link_options() const {
        return {.max_message_bytes = net::kFrameHeaderBytes + max_item_bytes + kWantBytes,
                .queue_messages = kQueueMessages,
                .security = {.own = keys, .server_key = {}}};
    }
};

/// Logs what somebody does wrong, each thing once.
class Complaints {
  public:
    explicit Complaints(Log& log) : log_(log) {}
    void about(const std::string& who, const std::string& why) {
        const std::string line = fmt::format("{:.100}: {:.200}", who, why);
        if (said_.size() < kMost && said_.insert(line).second) log_.warn("data: {}", line);
    }

  private:
    static constexpr std::size_t kMost = 256;
    Log& log_;
    std::set<std::string> said_;
};

}  // namespace isthmus::outer
