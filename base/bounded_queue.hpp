// A bounded queue between threads: values cross, never references.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "base/check.hpp"

namespace isthmus {

/// What a queue did with a value.
enum class Push {
    kDone,
    kFull,   ///< still full when the time was up; the value was not taken
    kClosed  ///< nobody will take it
};

/// First in, first out. Every wait has a bound, so a lost partner shows as a time-out, not as a
/// hang. THREAD  safe, any number of producers and consumers.
template <class T>
class BoundedQueue {
  public:
    explicit BoundedQueue(std::size_t capacity) : capacity_(capacity) {
        CHECK(capacity > 0, "a queue of nothing");
    }
    BoundedQueue(const BoundedQueue&) = delete;
    BoundedQueue& operator=(const BoundedQueue&) = delete;

    /// Moves from `value` only when it returns kDone.
    [[nodiscard]] Push push_within(T& value, std::chrono::milliseconds limit) {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, limit, [&] { return closed_ || items_.size() < capacity_; });
        if (closed_) return Push::kClosed;
        if (items_.size() >= capacity_) return Push::kFull;
        items_.push_back(std::move(value));
        lock.unlock();
        // All: one condition serves both sides, and the one woken could be on the wrong side.
        changed_.notify_all();
        return Push::kDone;
    }
    [[nodiscard]] Push push_within(T&& value, std::chrono::milliseconds limit) {
        return push_within(value, limit);
    }

    /// The oldest value; nothing when the time is up, or at once when closed and empty.
    [[nodiscard]] std::optional<T> pop_within(std::chrono::milliseconds limit) {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, limit, [&] { return closed_ || !items_.empty(); });
        if (items_.empty()) return std::nullopt;
        std::optional<T> value(std::move(items_.front()));
        items_.pop_front();
        lock.unlock();
        changed_.notify_all();
        return value;
    }

    /// No more pushes; what is inside can still be popped. Wakes all who wait.
    void close() {
        {
            const std::lock_guard lock(mutex_);
            closed_ = true;
        }
        changed_.notify_all();
    }

    bool closed() const {
        const std::lock_guard lock(mutex_);
        return closed_;
    }
    std::size_t size() const {
        const std::lock_guard lock(mutex_);
        return items_.size();
    }

  private:
    const std::size_t capacity_;
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<T> items_;
    bool closed_ = false;
};

}  // namespace isthmus
