#include "net/shaper.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace isthmus::net {

using std::chrono::nanoseconds;

namespace {

constexpr nanoseconds kWaiting = std::chrono::milliseconds(20);
/// What a loop that comes late, or a far end that reads in bursts, may leave lying.
constexpr nanoseconds kSlack = std::chrono::milliseconds(50);
constexpr std::size_t kSmallestBuffer = 4096;
constexpr std::int64_t kBitNanoseconds = 8'000'000'000;  // of one byte at one bit a second

std::size_t bytes_in(nanoseconds time, std::int64_t bits_per_second) {
    const double bytes =
        static_cast<double>(time.count()) * static_cast<double>(bits_per_second) / 8e9;
    return std::max(kSmallestBuffer, static_cast<std::size_t>(bytes));
}

}  // namespace

nanoseconds OutageSchedule::up_time(nanoseconds wall) const {
    if (every.count() == 0 || wall < every) return wall;
    const std::int64_t begun = wall / every;
    return wall - (begun - 1) * lasts - std::min(wall % every, lasts);
}

nanoseconds OutageSchedule::wall_time(nanoseconds up) const {
    if (every.count() == 0 || up <= every) return up;
    const std::int64_t ended = 1 + (up - every - nanoseconds(1)) / (every - lasts);
    return up + ended * lasts;
}

Shaper::Shaper(const ShaperConfig& config)
    : config_(config),
      waiting_limit_bytes_(bytes_in(kWaiting, config.bits_per_second)),
      limit_bytes_(waiting_limit_bytes_ +
                   bytes_in(config.latency + config.jitter + kSlack, config.bits_per_second)),
      random_(config.seed) {
    CHECK(config.bits_per_second > 0 && config.latency.count() >= 0 && config.jitter.count() >= 0);
    const auto& outage = config.outage;
    CHECK(outage.every.count() >= 0 && outage.lasts.count() >= 0);
    CHECK(outage.every.count() == 0 || outage.lasts < outage.every);
}

Shaper::Flow& Shaper::at(FlowId id) {
    const auto found = flows_.find(id);
    CHECK(found != flows_.end());
    return found->second;
}

const Shaper::Flow& Shaper::at(FlowId id) const {
    return const_cast<Shaper*>(this)->at(id);
}

FlowId Shaper::add_flow() {
    const FlowId id{next_flow_++};
    flows_[id];
    return id;
}

void Shaper::remove_flow(FlowId id) {
    flows_.erase(id);
    std::erase(turns_, id);
}

std::size_t Shaper::room(FlowId id) const {
    const Flow& flow = at(id);
    const std::size_t held = flow.bytes.size() - flow.head;
    if (flow.ended) return 0;
    return std::min(waiting_limit_bytes_ - flow.waiting, limit_bytes_ - held);
}

void Shaper::push(FlowId id, std::span<const std::byte> bytes, nanoseconds now) {
    CHECK(bytes.size() <= room(id), "{} bytes, room for {}", bytes.size(), room(id));
    if (bytes.empty()) return;
    advance(now);  // the wire may have fallen idle before these bytes came
    Flow& flow = at(id);
    if (flow.head > flow.bytes.size() / 2) {
        flow.bytes.erase(flow.bytes.begin(), flow.bytes.begin() + std::ptrdiff_t(flow.head));
        flow.head = 0;
    }
    flow.bytes.insert(flow.bytes.end(), bytes.begin(), bytes.end());
    // An idle wire saves nothing up: the rate holds over every window.
    if (turns_.empty()) {
        const nanoseconds up = config_.outage.up_time(now);
        if (up > wire_free_) carry_ = 0;
        wire_free_ = std::max(wire_free_, up);
    }
    if (flow.waiting == 0) turns_.push_back(id);
    flow.waiting += bytes.size();
}

void Shaper::push_end(FlowId id, nanoseconds now) {
    advance(now);
    Flow& flow = at(id);
    CHECK(!flow.ended);
    flow.ended = true;
    if (flow.waiting == 0) flow.end_due = due_after(flow, config_.outage.up_time(now));
}

/// Later than what the flow sent before, or jitter would let bytes overtake.
nanoseconds Shaper::due_after(Flow& flow, nanoseconds sent) {
    const auto choices = static_cast<std::uint64_t>(config_.jitter.count()) + 1;
    const nanoseconds late(static_cast<std::int64_t>(random_() % choices));
    flow.last_due = std::max(flow.last_due, sent + config_.latency + late);
    return flow.last_due;
}

void Shaper::serve_one() {
    const FlowId id = turns_.front();
    turns_.pop_front();
    Flow& flow = at(id);
    const std::size_t quantum = std::min(flow.waiting, kQuantumBytes);
    const std::int64_t work = static_cast<std::int64_t>(quantum) * kBitNanoseconds + carry_;
    wire_free_ += nanoseconds(work / config_.bits_per_second);
    carry_ = work % config_.bits_per_second;
    flow.waiting -= quantum;
    flow.travelling.push_back({quantum, due_after(flow, wire_free_)});
    if (flow.waiting > 0) {
        turns_.push_back(id);
    } else if (flow.ended) {
        flow.end_due = due_after(flow, wire_free_);
    }
}

void Shaper::advance(nanoseconds now) {
    const nanoseconds up = config_.outage.up_time(now);
    while (!turns_.empty() && wire_free_ <= up) serve_one();
    for (auto& [id, flow] : flows_) {
        while (!flow.travelling.empty() && flow.travelling.front().due <= up) {
            flow.ready += flow.travelling.front().bytes;
            flow.travelling.pop_front();
        }
        if (flow.end_due && *flow.end_due <= up) flow.end_arrived = true;
    }
}

std::span<const std::byte> Shaper::ready(FlowId id) const {
    const Flow& flow = at(id);
    return {flow.bytes.data() + flow.head, flow.ready};
}

void Shaper::consume(FlowId id, std::size_t bytes) {
    Flow& flow = at(id);
    CHECK(bytes <= flow.ready);
    flow.head += bytes;
    flow.ready -= bytes;
}

bool Shaper::end_arrived(FlowId id) const {
    const Flow& flow = at(id);
    return flow.end_arrived && flow.ready == 0;
}

std::optional<nanoseconds> Shaper::next_event() const {
    std::optional<nanoseconds> up;
    const auto consider = [&up](nanoseconds time) { up = up ? std::min(*up, time) : time; };
    if (!turns_.empty()) consider(wire_free_);
    for (const auto& [id, flow] : flows_) {
        if (!flow.travelling.empty()) consider(flow.travelling.front().due);
        if (flow.end_due && !flow.end_arrived) consider(*flow.end_due);
    }
    if (!up) return std::nullopt;
    return config_.outage.wall_time(*up);
}

}  // namespace isthmus::net
