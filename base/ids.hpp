// Distinct integer types, so that two integers never stand side by side in a call.
#pragma once

#include <compare>
#include <cstdint>

namespace isthmus {

/// An integer with a meaning. Explicit both ways; compares and orders like its value.
template <class Tag, class Value = std::uint32_t>
struct Id {
    Value value = 0;
    constexpr Id() = default;
    constexpr explicit Id(Value v) : value(v) {}
    auto operator<=>(const Id&) const = default;
};

using SiteId = Id<struct SiteTag>;                     ///< one cluster, one replica of the model
using Rank = Id<struct RankTag>;                       ///< one process of a site
using UnitId = Id<struct UnitTag>;                     ///< parameters that are gathered together
using FragmentId = Id<struct FragmentTag>;             ///< units that sites synchronise together
using Round = Id<struct RoundTag, std::uint64_t>;      ///< outer steps committed so far
using Meeting = Id<struct MeetingTag, std::uint64_t>;  ///< index in the schedule of when to meet
using SampleNumber = Id<struct SampleTag, std::uint64_t>;  ///< position in the run's data order

}  // namespace isthmus
