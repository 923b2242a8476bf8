#include "inner/ops/buffer_plan.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <numeric>

#include "base/check.hpp"
#include "base/error.hpp"

namespace isthmus::inner {
namespace {

constexpr std::int64_t kAlignment = 64;            // a cache line, and the widest vector
constexpr std::int64_t kHugePageFrom = 4ll << 20;  // below this huge pages only waste memory
constexpr std::int64_t kHugePage = 2ll << 20;

std::int64_t aligned(std::int64_t bytes) {
    return (bytes + kAlignment - 1) & ~(kAlignment - 1);
}

bool overlap(const Lifetime& a, const Lifetime& b) {
    return a.first <= b.last && b.first <= a.last;
}

}  // namespace

BufferId BufferPlan::add(std::string name, std::string group, std::int64_t bytes, Lifetime life) {
    CHECK(!assigned_, "buffer {} added after assign()", name);
    CHECK(bytes >= 0, "buffer {}: {} bytes", name, bytes);
    CHECK(life.first <= life.last, "buffer {}: phases {}..{}", name, life.first, life.last);
    buffers_.push_back({std::move(name), std::move(group), bytes, -1, life});
    return {static_cast<std::int32_t>(buffers_.size()) - 1};
}

void BufferPlan::assign() {
    CHECK(!assigned_);
    // Largest first; ties by longer life, then by index, so that the plan is a pure function of the
    // calls to add().
    std::vector<Buffer*> order;
    for (Buffer& buffer : buffers_) order.push_back(&buffer);
    std::stable_sort(order.begin(), order.end(), [](const Buffer* a, const Buffer* b) {
        if (a->bytes != b->bytes) return a->bytes > b->bytes;
        return a->life.last - a->life.first > b->life.last - b->life.first;
    });
    std::vector<const Buffer*> placed;  // by ascending offset
    for (Buffer* buffer : order) {
        std::int64_t at = 0;
        for (const Buffer* other : placed) {
            if (!overlap(other->life, buffer->life)) continue;
            if (other->offset >= at + aligned(buffer->bytes)) break;  // fits in the gap before it
            at = std::max(at, other->offset + aligned(other->bytes));
        }
        buffer->offset = at;
        total_ = std::max(total_, at + aligned(buffer->bytes));
        if (buffer->bytes == 0) continue;
        placed.insert(std::upper_bound(
                          placed.begin(), placed.end(), buffer,
                          [](const Buffer* a, const Buffer* b) { return a->offset < b->offset; }),
                      buffer);
    }
    assigned_ = true;
}

std::int64_t BufferPlan::offset(BufferId id) const {
    CHECK(assigned_, "offset() before assign()");
    return buffers_.at(static_cast<std::size_t>(id.index)).offset;
}

std::int64_t BufferPlan::bytes(BufferId id) const {
    return buffers_.at(static_cast<std::size_t>(id.index)).bytes;
}

std::vector<std::pair<std::string, std::int64_t>> BufferPlan::peak_by_group() const {
    // The live sum only rises where a buffer begins, so the peak phase is some buffer's first one.
    int peak_phase = 0;
    std::int64_t peak = -1;
    std::map<int, std::int64_t> changes;
    for (const Buffer& buffer : buffers_) {
        changes[buffer.life.first] += aligned(buffer.bytes);
        changes[buffer.life.last + 1] -= aligned(buffer.bytes);
    }
    std::int64_t live = 0;
    for (const auto& [phase, change] : changes) {
        live += change;
        if (live > peak) {
            peak = live;
            peak_phase = phase;
        }
    }
    std::map<std::string, std::int64_t> groups;
    for (const Buffer& buffer : buffers_) {
        const bool alive = buffer.life.first <= peak_phase && peak_phase <= buffer.life.last;
        groups[buffer.group] += alive ? aligned(buffer.bytes) : 0;
    }
    return {groups.begin(), groups.end()};
}

std::int64_t BufferPlan::live_peak_bytes() const {
    std::int64_t sum = 0;
    for (const auto& [group, bytes] : peak_by_group()) sum += bytes;
    return sum;
}

Arena::Arena(std::int64_t bytes) : bytes_(bytes) {
    CHECK(bytes >= 0);
    if (bytes == 0) return;
    // Whole huge pages at a huge-page boundary: reserve one more, then return what sticks out.
    const bool huge = bytes >= kHugePageFrom;
    const std::int64_t slack = huge ? kHugePage : 0;
    void* got = mmap(nullptr, static_cast<std::size_t>(bytes + slack), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (got == MAP_FAILED) {
        throw fatal(ExitCode::kResources,
                    "the buffers need {:.2f} GB ({} bytes) and the system refused them ({}): use a "
                    "smaller batch, context or model, or a machine with more memory",
                    static_cast<double>(bytes) * 1e-9, bytes, std::strerror(errno));
    }
    base_ = static_cast<std::byte*>(got);
    if (huge) {
        const auto start = reinterpret_cast<std::uintptr_t>(got);
        const auto mask = static_cast<std::uintptr_t>(kHugePage - 1);
        const auto lead = static_cast<std::int64_t>(((start + mask) & ~mask) - start);
        if (lead > 0) munmap(base_, static_cast<std::size_t>(lead));
        base_ += lead;
        const std::int64_t end = (bytes + 4095) & ~4095ll;
        const std::int64_t tail = ((bytes + slack + 4095) & ~4095ll) - lead - end;
        if (tail > 0) munmap(base_ + end, static_cast<std::size_t>(tail));
        // Advice only: without huge pages the arena is slower, not wrong.
        madvise(base_, static_cast<std::size_t>(bytes), MADV_HUGEPAGE);
    }
}

Arena::~Arena() {
    if (base_ != nullptr) munmap(base_, static_cast<std::size_t>(bytes_));
}

}  // namespace isthmus::inner
