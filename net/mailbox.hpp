// A bounded queue between two threads; one of them may wait in net::wait for its WakeUp.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "base/check.hpp"
#include "net/link.hpp"

namespace isthmus::net {

/// Policy of a full queue: its sender has broken the protocol between the two threads, so CHECK.
/// THREAD  safe.
template <class T>
class Mailbox {
  public:
    explicit Mailbox(std::size_t capacity, WakeUp* wake_up = nullptr)
        : capacity_(capacity), wake_up_(wake_up) {}

    void put(T value) {
        {
            const std::lock_guard lock(mutex_);
            CHECK(queue_.size() < capacity_, "mailbox of {} is full", capacity_);
            queue_.push_back(std::move(value));
        }
        filled_.notify_one();
        if (wake_up_) wake_up_->notify();
    }

    std::optional<T> take() {
        const std::lock_guard lock(mutex_);
        return pop();
    }

    std::optional<T> take_within(std::chrono::milliseconds limit) {
        std::unique_lock lock(mutex_);
        filled_.wait_for(lock, limit, [&] { return !queue_.empty(); });
        return pop();
    }

  private:
    std::optional<T> pop() {
        if (queue_.empty()) return std::nullopt;
        std::optional<T> value(std::move(queue_.front()));
        queue_.pop_front();
        return value;
    }
    std::mutex mutex_;
    std::condition_variable filled_;
    std::deque<T> queue_;
    std::size_t capacity_;
    WakeUp* wake_up_;
};

}  // namespace isthmus::net
