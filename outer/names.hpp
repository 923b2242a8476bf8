// What is named in a run, and how (PROTOCOL 1-3): states, processes, attempts, cuts, samples.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/ids.hpp"

namespace isthmus::outer {

/// BLAKE2b-256 (outer_step.hpp).
using StateHash = std::array<std::byte, 32>;
std::string hex(const StateHash&);
/// The first 12 digits, for the log.
std::string short_hex(const StateHash&);

/// One life of a process. A higher number is newer; the nonce tells two apart that claim one
/// number.
struct Incarnation {
    std::uint64_t number = 0;
    std::uint64_t nonce = 0;
    auto operator<=>(const Incarnation&) const = default;
    template <class A>
    void serialize(A& a) {
        a(number, nonce);
    }
};

/// The outer state after `round` commits. The hash is a chain: over the hash before it, the digest
/// of the encoded result and the outer optimizer, since apply is deterministic; at round 0 the
/// digest of the initial parameters.
struct StateName {
    std::uint32_t lineage = 0;  ///< raised by a rollback
    Round round;
    StateHash hash{};
    bool operator==(const StateName&) const = default;
    template <class A>
    void serialize(A& a) {
        a(lineage, round, hash);
    }
};

/// One try at a round.
struct Attempt {
    Round round;  ///< commits before it
    FragmentId fragment;
    std::uint64_t coordinator = 0;  ///< incarnation number
    std::uint32_t counter = 0;
    auto operator<=>(const Attempt&) const = default;
    template <class A>
    void serialize(A& a) {
        a(round, fragment, coordinator, counter);
    }
};

/// What one site contributes: immutable from READY on, whatever happens to attempts.
struct CutId {
    SiteId site;
    std::uint64_t incarnation = 0;
    std::uint64_t counter = 0;
    auto operator<=>(const CutId&) const = default;
    template <class A>
    void serialize(A& a) {
        a(site, incarnation, counter);
    }
};

/// Samples first, first + 1, ..., first + count - 1 of the run's order.
struct SampleRange {
    std::uint64_t first = 0;
    std::uint64_t count = 0;
    std::uint64_t end() const { return first + count; }
    bool operator==(const SampleRange&) const = default;
    template <class A>
    void serialize(A& a) {
        a(first, count);
    }
};

}  // namespace isthmus::outer
