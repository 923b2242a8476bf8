// The static buffer plan: every buffer is declared before the first step, given an offset in one
// arena by its lifetime, and the peak is known before anything is allocated.
//
// Time is counted in phases of one training step (forward of layer l, backward of layer l, ...).
// Two buffers may share memory when their [first, last] phases do not overlap. Offsets are found
// greedily, largest first, at the lowest address that is free over the buffer's life: simple, and
// within a few per cent of the lower bound on transformer schedules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace isthmus::inner {

struct BufferId {
    std::int32_t index = -1;
    explicit operator bool() const { return index >= 0; }
};

struct Lifetime {
    int first = 0;
    int last = 0;  ///< inclusive
};
inline constexpr Lifetime kAlways{0, 1 << 30};

class BufferPlan {
  public:
    /// `group` is what the memory report sums by: "parameters", "gradients", "moments",
    /// "activations"...
    BufferId add(std::string name, std::string group, std::int64_t bytes, Lifetime);
    /// Fixes the offsets. No add() afterwards.
    void assign();
    std::int64_t offset(BufferId) const;
    std::int64_t bytes(BufferId) const;
    /// Size of the arena: the peak.
    std::int64_t total_bytes() const { return total_; }
    /// Sum over phases' peak per group, for the report: (group, bytes held at the peak phase).
    std::vector<std::pair<std::string, std::int64_t>> peak_by_group() const;
    /// Lower bound: the largest sum of live bytes over phases.
    std::int64_t live_peak_bytes() const;

  private:
    struct Buffer {
        std::string name, group;
        std::int64_t bytes = 0, offset = -1;
        Lifetime life;
    };
    std::vector<Buffer> buffers_;
    std::int64_t total_ = 0;
    bool assigned_ = false;
};

/// One aligned allocation, zero-filled by the system on first touch; huge pages where it helps.
class Arena {
  public:
    explicit Arena(std::int64_t bytes);
    ~Arena();
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;
    std::byte* at(std::int64_t offset) const { return base_ + offset; }
    std::int64_t bytes() const { return bytes_; }

  private:
    std::byte* base_ = nullptr;
    std::int64_t bytes_ = 0;
};

}  // namespace isthmus::inner
