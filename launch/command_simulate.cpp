#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>

#include "base/error.hpp"
#include "launch/command.hpp"
#include "outer/simulator.hpp"

namespace isthmus::launch {

namespace {

struct Asked {
    std::uint64_t seed = 1, seeds = 1, meetings = 50;
    std::uint32_t sites = 3;
    std::string faults = "some";
    std::size_t trace = 0;
};

outer::SimulatorOptions options_of(const Asked& asked, std::uint64_t seed) {
    outer::SimulatorOptions options;
    options.seed = seed;
    options.sites = asked.sites;
    options.meetings = asked.meetings;
    options.trace_lines = asked.trace;
    options.faults = asked.faults == "none"   ? outer::Faults::none()
                     : asked.faults == "many" ? outer::Faults::many()
                                              : outer::Faults::some();
    return options;
}

/// A broken seed: the shortest trace that still breaks, and how to see it again.
[[noreturn]] void say_broken(const Asked& asked, const outer::SimulatorResult& result,
                             std::uint64_t seed) {
    const auto shortest = outer::shorten(options_of(asked, seed));
    for (const std::string& line : shortest.trace) std::printf("%s\n", line.c_str());
    throw fatal(ExitCode::kInternal,
                "seed {}: {}; replay: isthmus simulate --seed {} --sites {} --meetings {} --faults "
                "{} --trace 200",
                seed, result.broken, seed, asked.sites, asked.meetings, asked.faults);
}

void run(CommandContext& context, const Asked& asked) {
    outer::SimulatorResult sum;
    const auto start = std::chrono::steady_clock::now();
    for (std::uint64_t seed = asked.seed; seed < asked.seed + asked.seeds; ++seed) {
        if (context.stop()) throw fatal(ExitCode::kInterrupted, "interrupted before seed {}", seed);
        const auto result = outer::simulate(options_of(asked, seed));
        for (const std::string& line : result.trace) std::printf("%s\n", line.c_str());
        if (!result.good) say_broken(asked, result, seed);
        sum.rounds += result.rounds;
        sum.abandoned += result.abandoned;
        sum.events += result.events;
        sum.crashes += result.crashes;
        sum.restarts_of_coordinator += result.restarts_of_coordinator;
        sum.messages_lost += result.messages_lost;
        sum.restored += result.restored;
        sum.skipped_samples += result.skipped_samples;
        sum.simulated_s += result.simulated_s;
    }
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::printf("%s\n", fmt::format("seeds {} to {}: all invariants held\n"
                                    "  {} rounds, {} meetings without a result, {} events, {:.0f} "
                                    "hours simulated in {:.1f} s\n"
                                    "  {} crashes, {} of them of the coordinator; {} messages "
                                    "lost; {} sites restored; {} samples "
                                    "skipped",
                                    asked.seed, asked.seed + asked.seeds - 1, sum.rounds,
                                    sum.abandoned, sum.events, sum.simulated_s / 3600, seconds,
                                    sum.crashes, sum.restarts_of_coordinator, sum.messages_lost,
                                    sum.restored, sum.skipped_samples)
                            .c_str());
}

}  // namespace

void add_simulate_command(CLI::App& app, CommandContext& context) {
    auto* command = app.add_subcommand("simulate",
                                       "Runs the round protocol under seeded faults, without "
                                       "sockets or models, and checks its invariants");
    auto asked = std::make_shared<Asked>();
    command->add_option("--seed", asked->seed, "the first seed")->capture_default_str();
    command->add_option("--seeds", asked->seeds, "how many, one after the other")
        ->capture_default_str();
    command->add_option("--sites", asked->sites, "sites")
        ->capture_default_str()
        ->check(CLI::Range(1, 10'000));
    command->add_option("--meetings", asked->meetings, "meetings of a run")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    command->add_option("--faults", asked->faults, "how much goes wrong")
        ->capture_default_str()
        ->check(CLI::IsMember({"none", "some", "many"}));
    command->add_option("--trace", asked->trace, "print the last so many events")
        ->type_name("LINES");
    command->callback([&context, asked] { run(context, *asked); });
}

}  // namespace isthmus::launch
