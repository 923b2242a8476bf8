// The protocol under faults. A failing seed: isthmus simulate --seed N (with the options below)
// replays it.
#include "outer/simulator.hpp"

#include <gtest/gtest.h>

namespace isthmus::outer {
namespace {

/// Simulates seeds until so many rounds were committed or abandoned.
void simulate_rounds(SimulatorOptions options, std::uint64_t rounds) {
    std::uint64_t done = 0, crashes = 0, lost = 0;
    for (; done < rounds; ++options.seed) {
        const auto result = simulate(options);
        if (!result.good) {
            const auto shortest = shorten(options, 40);
            std::string trace;
            for (const auto& line : shortest.trace) trace += line + "\n";
            FAIL() << "seed " << options.seed << ", " << options.sites
                   << " sites: " << result.broken << "\n"
                   << trace;
        }
        done += result.rounds + result.abandoned;
        crashes += result.crashes;
        lost += result.messages_lost;
    }
    // Otherwise it was no test.
    EXPECT_GT(crashes, rounds / 100);
    EXPECT_GT(lost, rounds / 100);
}

TEST(Simulator, SameSeedSameRun) {
    const SimulatorOptions options{.seed = 7, .faults = Faults::many()};
    const auto a = simulate(options), b = simulate(options);
    EXPECT_TRUE(a.good) << a.broken;
    EXPECT_EQ(a.digest, b.digest);
    EXPECT_EQ(a.events, b.events);
    SimulatorOptions other = options;
    other.seed = 8;
    EXPECT_NE(simulate(other).digest, a.digest);
}

TEST(Simulator, NothingGoesWrongWithoutFaults) {
    SimulatorOptions options{.sites = 4, .faults = Faults::none()};
    const auto result = simulate(options);
    EXPECT_TRUE(result.good) << result.broken;
    EXPECT_EQ(result.rounds, options.meetings);
    EXPECT_EQ(result.abandoned, 0u);
    EXPECT_EQ(result.skipped_samples, 0u);
}

TEST(Simulator, OneSiteAlone) {
    simulate_rounds({.sites = 1, .faults = Faults::some()}, 1000);
}
TEST(Simulator, TwoSites) {
    simulate_rounds({.seed = 10'000, .sites = 2, .faults = Faults::many()}, 2000);
}
TEST(Simulator, EightSites) {
    simulate_rounds({.seed = 20'000, .sites = 8, .faults = Faults::many()}, 1000);
}
TEST(Simulator, AHundredSites) {
    const auto result =
        simulate({.seed = 3, .sites = 100, .meetings = 4, .faults = Faults::some()});
    EXPECT_TRUE(result.good) << result.broken;
}
TEST(Simulator, AThousandSites) {
    const auto result =
        simulate({.seed = 3, .sites = 1000, .meetings = 1, .faults = Faults::none()});
    EXPECT_TRUE(result.good) << result.broken;
    EXPECT_EQ(result.rounds, 1u);
}

}  // namespace
}  // namespace isthmus::outer
