// The round protocol under faults: the very step functions of coordinator and sites, driven by one
// seeded event queue instead of sockets, disks and clocks (in the manner of TigerBeetle's
// simulator). No thread, no wait: a run is a pure function of its options.
//
// Modelled: messages lost, delayed, duplicated, reordered; partitions between sites and of sites
// from the coordinator; crashes and restarts of anything at any point, between any two actions too;
// the coordinator's disk failing or losing its unsynced tail at a crash; SIGSTOP; clocks that run
// at different rates; sites of unequal speed; exchanges that fail for any pair; bad numbers from a
// site; operators who drain, drop, pause. A model is its state hash.
//
// After every event (the invariants of DESIGN.md): one lineage of commits; no two sites hold
// different states of one name, and every state held is a committed one or the start; the divisor
// is that of the contributors; every sample in at most one commit, and what sites trained for a
// commit is what it lists; the journal replays to what the coordinator believes. At the end, when
// faults have stopped: progress, all sites at the last state, the ledger proven.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace isthmus::outer {

struct Faults {
    double lose = 0, duplicate = 0, delay = 0;                    ///< probability a message
    double crash_site = 0, crash_coordinator = 0, stop_site = 0;  ///< expected a round
    double partition =
        0;  ///< expected a round: a pair of sites, or a site from the coordinator, for a while
    double disk = 0;         ///< probability an append fails, or is torn by a crash
    double bad_numbers = 0;  ///< probability a cut
    double clock_skew = 0;   ///< rates differ by up to this share
    double operate = 0;      ///< expected a round
    static Faults none();
    static Faults some();  ///< what a bad week has
    static Faults many();
};

struct SimulatorOptions {
    std::uint64_t seed = 1;
    std::uint32_t sites = 3;
    std::uint64_t meetings = 50;
    Faults faults = Faults::some();
    double faults_end = 0.8;      ///< share of the meetings after which nothing fails any more
    std::size_t trace_lines = 0;  ///< of the last events, kept for a report
};

struct SimulatorResult {
    bool good = false;
    std::string broken;  ///< which invariant, at which event; or why it did not finish
    std::vector<std::string> trace;
    std::uint64_t rounds = 0, abandoned = 0, events = 0, crashes = 0, restarts_of_coordinator = 0,
                  messages_lost = 0, restored = 0, skipped_samples = 0;
    std::uint64_t contributions = 0;      ///< over all rounds
    std::uint64_t last_contributors = 0;  ///< of the last round
    std::uint64_t faults = 0;             ///< that were due; numbered for shorten()
    std::uint64_t digest = 0;  ///< of all events and the last state: equal runs have equal ones
    double simulated_s = 0;
};

SimulatorResult simulate(const SimulatorOptions&);

/// Fewest faults that still break it: faults are numbered in order of occurrence, and switched off
/// by bisection. Returns the result of the shortest with its trace, and how to replay it.
SimulatorResult shorten(const SimulatorOptions&, std::size_t trace_lines = 60);

}  // namespace isthmus::outer
