// 200,000 rounds with many faults, in two halves that ctest may run side by side.
#include <gtest/gtest.h>

#include <chrono>

#include "outer/simulator.hpp"

namespace isthmus::outer {
namespace {

constexpr std::uint64_t kMeetings = 50;
constexpr std::uint64_t kRounds = 100'000;

void hundred_thousand_rounds(std::uint64_t first_seed) {
    const auto began = std::chrono::steady_clock::now();
    std::uint64_t rounds = 0, faults = 0;
    SimulatorOptions options{.seed = first_seed, .meetings = kMeetings, .faults = Faults::many()};
    for (; rounds < kRounds; ++options.seed) {
        options.sites = 2 + static_cast<std::uint32_t>(options.seed % 4);
        const SimulatorResult r = simulate(options);
        ASSERT_TRUE(r.good) << "isthmus simulate --faults many --sites " << options.sites
                            << " --seed " << options.seed << ": " << r.broken;
        rounds += r.rounds + r.abandoned;
        faults += r.faults;
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    fmt::print("{} rounds with {} faults in {:.1f} s: {:.0f} rounds/s\n", rounds, faults,
               took.count(), static_cast<double>(rounds) / took.count());
}

TEST(SimulatorSlow, AHundredThousandFaultyRounds) {
    hundred_thousand_rounds(1'000'000);
}

TEST(SimulatorSlow, AHundredThousandOthers) {
    hundred_thousand_rounds(2'000'000);
}

}  // namespace
}  // namespace isthmus::outer
