// The simulated clock's queue, seeded draws, and faults that can be switched off one by one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/random.hpp"

namespace isthmus::outer::simulator {

/// Simulated time.
using Ns = std::int64_t;
inline constexpr Ns kMillisecond = 1'000'000;
inline constexpr Ns kSecond = 1'000'000'000;

enum class What : std::uint8_t {
    kToCoordinator,    ///< a message arrives
    kToSite,           ///< a message arrives
    kDisconnected,     ///< the coordinator is told that a connection broke
    kCoordinatorTick,  ///< its loop looks at the clock
    kSiteTick,
    kTrained,     ///< the training thread lends its model: at a cut, or because it must
    kExchanging,  ///< a look at an exchange under way
    kFetching,    ///< a look at a transfer of state under way
    kSnapshot,    ///< the training thread copies its inner state for a joiner
    kFinished,    ///< the training thread wants to go
    kStart,       ///< of a process
    kWake,        ///< of a stopped process
    kFault,       ///< one of the expected faults of a round
    kHeal,        ///< of a partition
    kOperator,    ///< takes back what it did
};

/// Plain, so that a heap of them is cheap to keep. What belongs to a process names its life, and
/// what can be called off a token; both are looked at when it is due.
struct Event {
    Ns at = 0;
    std::uint64_t order = 0;
    std::uint32_t who = 0;   ///< process
    std::uint32_t life = 0;  ///< of it, or of a connection
    std::uint32_t token = 0;
    std::uint32_t slot = 0;  ///< of a message
    What what = What::kStart;
};

/// Earliest first; of one time, in the order of their coming.
class Queue {
  public:
    void push(Event event) {
        event.order = next_++;
        heap_.push_back(event);
        std::push_heap(heap_.begin(), heap_.end(), later);
    }
    bool empty() const { return heap_.empty(); }
    Event pop() {
        std::pop_heap(heap_.begin(), heap_.end(), later);
        const Event event = heap_.back();
        heap_.pop_back();
        return event;
    }

  private:
    static bool later(const Event& a, const Event& b) {
        return a.at != b.at ? a.at > b.at : a.order > b.order;
    }
    std::vector<Event> heap_;
    std::uint64_t next_ = 0;
};

/// Draws that are no faults: times, speeds, victims.
class Draws {
  public:
    explicit Draws(std::uint64_t key) : key_(key) {}
    double uniform() { return random_uniform(key_, next_++); }
    std::uint64_t bits() { return random_bits(key_, next_++); }
    /// REQUIRES  count > 0.
    std::uint32_t below(std::size_t count) {
        return static_cast<std::uint32_t>(bits() % static_cast<std::uint64_t>(count));
    }
    Ns between(Ns from, Ns to) {
        return from + static_cast<Ns>(uniform() * static_cast<double>(to - from));
    }
    bool chance(double p) { return p > 0 && uniform() < p; }

  private:
    std::uint64_t key_;
    std::uint64_t next_ = 0;
};

/// Numbers of faults that happen; all others are switched off.
using FaultRanges = std::vector<std::pair<std::uint64_t, std::uint64_t>>;  ///< first, end

/// Faults, numbered in the order in which they would happen. Their draws are their own, so that
/// switching one off moves the draws of no other.
class Dice {
  public:
    Dice(std::uint64_t key, const FaultRanges* allowed) : key_(key), allowed_(allowed) {}
    /// Where between 0 and 1 this occasion falls.
    double roll() { return random_uniform(key_, occasions_++); }
    /// A fault is due: whether it happens.
    bool happens() {
        const std::uint64_t number = faults_++;
        if (allowed_ == nullptr) return true;
        return std::any_of(allowed_->begin(), allowed_->end(), [&](const auto& range) {
            return number >= range.first && number < range.second;
        });
    }
    bool chance(double p) { return p > 0 && roll() < p && happens(); }
    std::uint64_t faults() const { return faults_; }

  private:
    std::uint64_t key_;
    std::uint64_t occasions_ = 0, faults_ = 0;
    const FaultRanges* allowed_;  ///< nullptr: all
};

}  // namespace isthmus::outer::simulator
