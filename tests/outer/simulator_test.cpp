// The round protocol under a seeded queue of faults. `isthmus simulate` runs more of the same.
#include "outer/simulator.hpp"

#include <gtest/gtest.h>

namespace isthmus::outer {
namespace {

/// All seeds hold; what they saw, added up. One that does not is told shortened.
SimulatorResult all_hold(SimulatorOptions options, std::uint64_t seeds) {
    SimulatorResult sum;
    for (std::uint64_t i = 0; i < seeds; ++i, ++options.seed) {
        const SimulatorResult r = simulate(options);
        if (!r.good) {
            const SimulatorResult shortest = shorten(options, 40);
            std::string trace;
            for (const std::string& line : shortest.trace) trace += line + "\n";
            ADD_FAILURE() << "seed " << options.seed << ", " << options.sites
                          << " sites: " << r.broken << "\n"
                          << trace;
            return sum;
        }
        sum.rounds += r.rounds;
        sum.abandoned += r.abandoned;
        sum.events += r.events;
        sum.crashes += r.crashes;
        sum.restarts_of_coordinator += r.restarts_of_coordinator;
        sum.messages_lost += r.messages_lost;
        sum.restored += r.restored;
        sum.skipped_samples += r.skipped_samples;
    }
    return sum;
}

TEST(Simulator, RunsWithoutFaultsCommitEveryMeeting) {
    for (std::uint32_t sites : {1u, 2u, 3u, 5u}) {
        const auto sum = all_hold({.sites = sites, .meetings = 20, .faults = Faults::none()}, 20);
        EXPECT_EQ(sum.rounds, 20u * 20u);
        EXPECT_EQ(sum.abandoned, 0u);
        EXPECT_EQ(sum.skipped_samples, 0u);
    }
}

TEST(Simulator, HoldsInABadWeek) {
    for (std::uint32_t sites : {1u, 2u, 3u, 4u}) {
        const auto sum = all_hold({.sites = sites, .faults = Faults::some()}, 100);
        // Every meeting ends one way or the other.
        EXPECT_EQ(sum.rounds + sum.abandoned, 100u * 50u);
    }
}

TEST(Simulator, HoldsUnderManyFaults) {
    for (std::uint32_t sites : {2u, 3u, 5u}) {
        const auto sum = all_hold({.seed = 10'000, .sites = sites, .faults = Faults::many()}, 100);
        EXPECT_EQ(sum.rounds + sum.abandoned, 100u * 50u);
        EXPECT_GT(sum.crashes, 500u);
        EXPECT_GT(sum.restarts_of_coordinator, 200u);
        EXPECT_GT(sum.messages_lost, 5'000u);
        EXPECT_GT(sum.restored, 200u);
    }
}

TEST(Simulator, FaultsOfEachKindAlone) {
    const std::vector<Faults> kinds{{.lose = 0.1},
                                    {.duplicate = 0.2},
                                    {.delay = 0.1},
                                    {.crash_site = 0.5},
                                    {.crash_coordinator = 0.5},
                                    {.stop_site = 0.5},
                                    {.partition = 0.5},
                                    {.disk = 0.05},
                                    {.bad_numbers = 0.05},
                                    {.clock_skew = 0.2},
                                    {.operate = 0.3}};
    for (std::size_t i = 0; i < kinds.size(); ++i) {
        SCOPED_TRACE(fmt::format("kind {}", i));
        all_hold({.seed = 100 * i, .faults = kinds[i]}, 30);
    }
}

TEST(Simulator, EqualSeedsAreEqualRuns) {
    const SimulatorOptions options{.seed = 7, .sites = 4, .faults = Faults::many()};
    const SimulatorResult a = simulate(options), b = simulate(options);
    EXPECT_TRUE(a.good) << a.broken;
    EXPECT_EQ(a.events, b.events);
    EXPECT_EQ(a.digest, b.digest);
    SimulatorOptions traced = options, other = options;
    traced.trace_lines = 10;
    EXPECT_EQ(simulate(traced).digest, a.digest);
    EXPECT_EQ(simulate(traced).trace.size(), 10u);
    other.seed = 8;
    EXPECT_NE(simulate(other).digest, a.digest);
}

TEST(Simulator, AThousandSites) {
    const auto sum = all_hold({.sites = 1000, .meetings = 3, .faults = Faults::some()}, 1);
    EXPECT_EQ(sum.rounds + sum.abandoned, 3u);
    EXPECT_GE(sum.rounds, 1u);
    EXPECT_GT(sum.messages_lost, 100u);
}

}  // namespace
}  // namespace isthmus::outer
