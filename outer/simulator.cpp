// Runs, and the search for the fewest faults that break one.
#include "outer/simulator.hpp"

#include "outer/simulator/world.hpp"

namespace isthmus::outer {

namespace {

using simulator::FaultRanges;
using simulator::World;

SimulatorResult run_with(const SimulatorOptions& options, const FaultRanges* allowed) {
    return World(options, allowed).run();
}

bool breaks(const SimulatorOptions& options, const FaultRanges& allowed) {
    return !run_with(options, &allowed).good;
}

/// The fewest first faults that break it.
FaultRanges shortest_start(const SimulatorOptions& options, std::uint64_t all) {
    std::uint64_t good = 0, bad = all;
    if (breaks(options, {})) return {};
    while (bad - good > 1) {
        const std::uint64_t middle = good + (bad - good) / 2;
        (breaks(options, {{0, middle}}) ? bad : good) = middle;
    }
    return {{0, bad}};
}

/// What is allowed except [first, end).
FaultRanges without(const FaultRanges& ranges, std::uint64_t first, std::uint64_t end) {
    FaultRanges out;
    for (const auto& [a, b] : ranges) {
        if (a < std::min(b, first)) out.emplace_back(a, std::min(b, first));
        if (std::max(a, end) < b) out.emplace_back(std::max(a, end), b);
    }
    return out;
}

}  // namespace

Faults Faults::none() {
    return {};
}

Faults Faults::some() {
    return {.lose = 0.005,
            .duplicate = 0.005,
            .delay = 0.01,
            .crash_site = 0.1,
            .crash_coordinator = 0.04,
            .stop_site = 0.05,
            .partition = 0.08,
            .disk = 0.003,
            .bad_numbers = 0.003,
            .clock_skew = 0.01,
            .operate = 0.03};
}

Faults Faults::many() {
    return {.lose = 0.03,
            .duplicate = 0.03,
            .delay = 0.05,
            .crash_site = 0.4,
            .crash_coordinator = 0.2,
            .stop_site = 0.2,
            .partition = 0.3,
            .disk = 0.01,
            .bad_numbers = 0.02,
            .clock_skew = 0.05,
            .operate = 0.1};
}

SimulatorResult simulate(const SimulatorOptions& options) {
    return run_with(options, nullptr);
}

SimulatorResult shorten(const SimulatorOptions& options, std::size_t trace_lines) {
    SimulatorOptions quiet = options;
    quiet.trace_lines = 0;
    const SimulatorResult first = simulate(quiet);
    if (first.good) return first;
    FaultRanges needed = shortest_start(quiet, first.faults);
    // Halves, quarters, ... of what is left are tried without, down to single faults.
    const std::uint64_t all = needed.empty() ? 0 : needed.front().second;
    for (std::uint64_t chunk = std::max<std::uint64_t>(1, all / 2); all > 0; chunk /= 2) {
        for (std::uint64_t end = all; end > 0; end -= std::min(end, chunk)) {
            const FaultRanges fewer = without(needed, end - std::min(end, chunk), end);
            if (fewer != needed && breaks(quiet, fewer)) needed = fewer;
        }
        if (chunk == 1) break;
    }
    SimulatorOptions traced = options;
    traced.trace_lines = trace_lines;
    SimulatorResult result = run_with(traced, &needed);
    std::string faults;
    for (const auto& [a, b] : needed) {
        for (std::uint64_t n = a; n < b; ++n) faults += fmt::format(" {}", n);
    }
    result.trace.push_back(
        fmt::format("faults that are needed:{}", needed.empty() ? " none" : faults));
    return result;
}

}  // namespace isthmus::outer
