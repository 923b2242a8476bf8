// What a thin link does to bytes, as a pure function of time: one direction of one emulated wire.
//
// Bytes of a flow wait until the wire serves them, round robin over all flows in quanta of one
// packet. A quantum occupies the wire for its bytes / rate, then travels for the latency (and some
// jitter), then is ready at the far end. An outage stops that clock: nothing enters, moves on or
// arrives, and afterwards everything goes on where it stood. So all sums are done in up time, which
// is wall time less the outages so far.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <vector>

namespace isthmus::net {

/// Down during [k * every, k * every + lasts) for k = 1, 2, ...; every = 0: never down.
struct OutageSchedule {
    std::chrono::nanoseconds every{0};
    std::chrono::nanoseconds lasts{0};

    /// How long the link has been up at `wall`.
    std::chrono::nanoseconds up_time(std::chrono::nanoseconds wall) const;
    /// The first moment at which up_time is `up`.
    std::chrono::nanoseconds wall_time(std::chrono::nanoseconds up) const;
};

struct ShaperConfig {
    std::int64_t bits_per_second = 20'000'000;  ///< of what the connections carry; no headers
    std::chrono::nanoseconds latency{0};
    std::chrono::nanoseconds jitter{
        0};  ///< each quantum is 0 .. jitter later than the latency says
    OutageSchedule outage;
    std::uint64_t seed = 0;  ///< of the jitter
};

enum class FlowId : std::uint64_t {};

/// UNITS   `now` is time since the link began; it never goes back.
/// THREAD  one.
/// REQUIRES  a positive rate, no negative time, outages shorter than their period.
class Shaper {
  public:
    static constexpr std::size_t kQuantumBytes = 1500;

    explicit Shaper(const ShaperConfig&);

    FlowId add_flow();
    /// Forgets the flow and what it holds.
    void remove_flow(FlowId);

    /// Bytes that the flow takes now. A flow holds at most limit_bytes(), of which at most 20 ms of
    /// the rate wait for the wire; so a far end that does not read stops its own flow alone.
    std::size_t room(FlowId) const;
    std::size_t limit_bytes() const { return limit_bytes_; }

    /// REQUIRES  bytes.size() <= room(flow), no push_end before.
    void push(FlowId, std::span<const std::byte> bytes, std::chrono::nanoseconds now);
    /// The flow's sender has no more: travels behind its last byte.
    void push_end(FlowId, std::chrono::nanoseconds now);

    /// Moves everything on to `now`.
    void advance(std::chrono::nanoseconds now);

    /// What arrived, as of the last advance; valid until the next call that is not const.
    std::span<const std::byte> ready(FlowId) const;
    void consume(FlowId, std::size_t bytes);
    /// Everything arrived and was consumed, and the end arrived too.
    bool end_arrived(FlowId) const;

    /// When the next advance changes something; nothing if only a push can.
    std::optional<std::chrono::nanoseconds> next_event() const;

  private:
    struct Segment {
        std::size_t bytes;
        std::chrono::nanoseconds due;  // up time
    };
    /// Bytes in their order: ready, travelling, waiting.
    struct Flow {
        std::vector<std::byte> bytes;
        std::size_t head = 0;
        std::size_t ready = 0;
        std::size_t waiting = 0;
        std::deque<Segment> travelling;
        std::chrono::nanoseconds last_due{0};
        bool ended = false;
        std::optional<std::chrono::nanoseconds> end_due;
        bool end_arrived = false;
    };

    Flow& at(FlowId);
    const Flow& at(FlowId) const;
    void serve_one();
    std::chrono::nanoseconds due_after(Flow&, std::chrono::nanoseconds sent);

    ShaperConfig config_;
    std::size_t waiting_limit_bytes_;
    std::size_t limit_bytes_;
    std::mt19937_64 random_;
    std::map<FlowId, Flow> flows_;
    std::deque<FlowId> turns_;  // flows with waiting bytes, the next to be served first
    std::chrono::nanoseconds wire_free_{0};  // up time
    std::int64_t carry_ = 0;                 // what integer division left over of the wire's time
    std::uint64_t next_flow_ = 0;
};

}  // namespace isthmus::net
