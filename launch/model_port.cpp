#include "launch/model_port.hpp"

#include <algorithm>
#include <cstring>

#include "base/check.hpp"

namespace isthmus::launch {

namespace {

constexpr std::size_t kCountBytes = sizeof(std::int64_t);

/// Calls `each(part of the unit, offset of it in the range)` for every unit that the range
/// [offset, offset + count) of the whole touches.
template <class UnitSpan, class Each>
void for_range(std::uint32_t num_units, std::int64_t offset, std::int64_t count,
               const UnitSpan& unit_span, const Each& each) {
    CHECK(offset >= 0 && count >= 0);
    std::int64_t start = 0;  // of the unit
    std::int64_t done = 0;
    for (std::uint32_t u = 0; u < num_units && done < count; ++u) {
        const auto unit = unit_span(UnitId(u));
        const auto size = static_cast<std::int64_t>(unit.size());
        const std::int64_t at = offset + done;
        if (at < start + size) {
            const std::int64_t n = std::min(start + size - at, count - done);
            each(unit.subspan(static_cast<std::size_t>(at - start), static_cast<std::size_t>(n)),
                 static_cast<std::size_t>(done));
            done += n;
        }
        start += size;
    }
    CHECK(done == count, "elements {} to {} are beyond the fragment", offset, offset + count);
}

}  // namespace

std::vector<std::int64_t> TrainerPort::unit_elements(FragmentId fragment) const {
    CHECK(fragment == FragmentId(0));
    std::vector<std::int64_t> elements;
    for (const inner::Unit& unit : trainer_.layout().units) elements.push_back(unit.count);
    return elements;
}

void TrainerPort::read(FragmentId fragment, std::int64_t offset, std::span<float> out) {
    CHECK(fragment == FragmentId(0));
    for_range(
        num_units(), offset, static_cast<std::int64_t>(out.size()),
        [&](UnitId id) { return trainer_.parameters(id); },
        [&](std::span<const float> part, std::size_t at) {
            std::copy(part.begin(), part.end(), out.begin() + static_cast<std::ptrdiff_t>(at));
        });
}

void TrainerPort::write(FragmentId fragment, std::int64_t offset, std::span<const float> values) {
    CHECK(fragment == FragmentId(0));
    for_range(
        num_units(), offset, static_cast<std::int64_t>(values.size()),
        [&](UnitId id) { return trainer_.parameters(id); },
        [&](std::span<float> part, std::size_t at) {
            std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(at), part.size(),
                        part.begin());
        });
}

std::int64_t TrainerPort::inner_state_bytes() const {
    return static_cast<std::int64_t>(kCountBytes) +
           2 * trainer_.layout().count() * static_cast<std::int64_t>(sizeof(float));
}

void TrainerPort::read_inner_state(std::span<std::byte> out) {
    CHECK(static_cast<std::int64_t>(out.size()) == inner_state_bytes());
    const std::int64_t updates = trainer_.updates();
    std::memcpy(out.data(), &updates, kCountBytes);
    out = out.subspan(kCountBytes);
    const auto take = [&](std::span<const float> moments) {
        std::memcpy(out.data(), moments.data(), moments.size_bytes());
        out = out.subspan(moments.size_bytes());
    };
    for (std::uint32_t u = 0; u < num_units(); ++u) take(trainer_.first_moments(UnitId(u)));
    for (std::uint32_t u = 0; u < num_units(); ++u) take(trainer_.second_moments(UnitId(u)));
    CHECK(out.empty());
}

void TrainerPort::write_inner_state(std::span<const std::byte> in) {
    CHECK(static_cast<std::int64_t>(in.size()) == inner_state_bytes());
    std::int64_t updates = 0;
    std::memcpy(&updates, in.data(), kCountBytes);
    trainer_.set_updates(updates);
    in = in.subspan(kCountBytes);
    const auto fill = [&](std::span<float> moments) {
        std::memcpy(moments.data(), in.data(), moments.size_bytes());
        in = in.subspan(moments.size_bytes());
    };
    for (std::uint32_t u = 0; u < num_units(); ++u) fill(trainer_.first_moments(UnitId(u)));
    for (std::uint32_t u = 0; u < num_units(); ++u) fill(trainer_.second_moments(UnitId(u)));
    CHECK(in.empty());
}

}  // namespace isthmus::launch
