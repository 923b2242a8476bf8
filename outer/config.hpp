// Configuration of what happens between sites.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/config.hpp"

namespace isthmus::outer {

/// One time budget, from which every bound of the outer loop follows.
struct Budget {
    std::chrono::milliseconds round{60'000};  ///< nothing that is waited for stands still longer
    std::chrono::milliseconds join{600'000};  ///< all sites have said HELLO
    /// A peer of which no byte came for this long is lost.
    std::chrono::milliseconds silence() const { return round / 4; }
    /// A process that has nothing else to say says that it lives.
    std::chrono::milliseconds beat() const { return round / 60; }
};

struct OuterConfig {
    std::int64_t sites = 1;
    std::int64_t sync_every_steps = 100;
    double lr = 1.0;
    double round_budget_s = 60.0;
    double join_budget_s = 600.0;

    void describe(ConfigVisitor&);
    Budget budget() const;
};

/// Whether sites meet after inner step `step` (1 after the first): every H steps and after the
/// last, so that all end with the same parameters. A pure function: every site knows each meeting
/// in advance.
bool meets_after(std::int64_t step, std::int64_t total_steps, std::int64_t sync_every_steps);

}  // namespace isthmus::outer
