#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>

#include "base/error.hpp"
#include "launch/command.hpp"
#include "outer/simulator.hpp"

namespace isthmus::launch {

namespace {

struct SimulateWords {
    std::uint64_t seed = 1, seeds = 1;
    std::uint32_t sites = 3;
    std::uint64_t meetings = 50;
    std::string faults = "some";
    std::size_t trace = 0;
};

/// Lines of a failing seed's trace if nothing else is asked for.
constexpr std::size_t kTraceLines = 60;

/// What a failed CHECK, which ends the process, could not say: the seed. A signal handler reaches
/// nothing but what is static.
char seed_line[64];
std::size_t seed_line_length = 0;

void say_seed(int) {
    [[maybe_unused]] const auto written = write(STDERR_FILENO, seed_line, seed_line_length);
}

void announce_seed(std::uint64_t seed) {
    const auto end = fmt::format_to_n(seed_line, sizeof seed_line, "simulate: at seed {}\n", seed);
    seed_line_length = std::min(end.size, sizeof seed_line);
}

outer::Faults faults_named(const std::string& name) {
    if (name == "none") return outer::Faults::none();
    return name == "some" ? outer::Faults::some() : outer::Faults::many();
}

std::string replay(const SimulateWords& words, std::uint64_t seed) {
    return fmt::format("isthmus simulate --seed {} --sites {} --meetings {} --faults {} --trace {}",
                       seed, words.sites, words.meetings, words.faults,
                       std::max(words.trace, kTraceLines));
}

void report_failure(const SimulateWords& words, const outer::SimulatorOptions& options) {
    const std::size_t lines = std::max(words.trace, kTraceLines);
    const outer::SimulatorResult shortest = outer::shorten(options, lines);
    for (const std::string& line : shortest.trace) fmt::print("{}\n", line);
    fmt::print("seed {}, with the fewest faults: {}\n", options.seed, shortest.broken);
    fmt::print("the whole run again: {}\n", replay(words, options.seed));
}

void run_simulate(CommandContext& context, const SimulateWords& words) {
    outer::SimulatorOptions options{.seed = words.seed,
                                    .sites = words.sites,
                                    .meetings = words.meetings,
                                    .faults = faults_named(words.faults),
                                    .trace_lines = words.seeds == 1 ? words.trace : 0};
    std::signal(SIGABRT, say_seed);
    const auto began = std::chrono::steady_clock::now();
    outer::SimulatorResult sum;
    for (std::uint64_t i = 0; i < words.seeds; ++i, ++options.seed) {
        if (context.stop()) {
            throw fatal(ExitCode::kInterrupted, "simulate: stopped before seed {}; all before held",
                        options.seed);
        }
        announce_seed(options.seed);
        const outer::SimulatorResult r = outer::simulate(options);
        for (const std::string& line : r.trace) fmt::print("{}\n", line);
        if (!r.good) {
            fmt::print("seed {}: {}\n", options.seed, r.broken);
            report_failure(words, options);
            throw fatal(ExitCode::kInternal, "simulate: seed {} breaks the protocol", options.seed);
        }
        sum.rounds += r.rounds;
        sum.abandoned += r.abandoned;
        sum.events += r.events;
        sum.crashes += r.crashes;
        sum.restarts_of_coordinator += r.restarts_of_coordinator;
        sum.messages_lost += r.messages_lost;
        sum.restored += r.restored;
        sum.skipped_samples += r.skipped_samples;
        sum.simulated_s += r.simulated_s;
        sum.digest ^= r.digest;
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    fmt::print(
        "{} seeds hold: {} rounds, {} meetings without a result, {} events in {:.1f} h of "
        "simulated time\n"
        "  {} crashes, {} restarts of the coordinator, {} messages lost, {} copies of a state, {} "
        "samples skipped\n"
        "  digest {:016x}; {:.2f} s, {:.0f} rounds/s\n",
        words.seeds, sum.rounds, sum.abandoned, sum.events, sum.simulated_s / 3600, sum.crashes,
        sum.restarts_of_coordinator, sum.messages_lost, sum.restored, sum.skipped_samples,
        sum.digest, took.count(), static_cast<double>(sum.rounds + sum.abandoned) / took.count());
}

}  // namespace

void add_simulate_command(CLI::App& app, CommandContext& context) {
    auto* command = app.add_subcommand(
        "simulate",
        "The round protocol under faults: the program's own decisions with a simulated network,\n"
        "clock and disk. Messages are lost, late and doubled, links cut, processes killed and\n"
        "stopped; what must hold is checked after every event. A run follows from its seed alone;\n"
        "one that breaks a promise is shortened to the faults that it needs, and printed.\n"
        "  isthmus simulate --seeds 1000 --faults many");
    auto words = std::make_shared<SimulateWords>();
    command->add_option("--seed", words->seed, "the first one")->capture_default_str();
    command->add_option("--seeds", words->seeds, "how many, from the first on")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    command->add_option("--sites", words->sites, "1 to 5000")
        ->capture_default_str()
        ->check(CLI::Range(1, 5000));
    command->add_option("--meetings", words->meetings, "of each run")
        ->capture_default_str()
        ->check(CLI::Range(1, 100'000));
    command->add_option("--faults", words->faults, "none, some (a bad week) or many")
        ->capture_default_str()
        ->check(CLI::IsMember({"none", "some", "many"}));
    command->add_option("--trace", words->trace,
                        "with one seed: print its last so many events, broken or not");
    command->callback([&context, words] { run_simulate(context, *words); });
}

}  // namespace isthmus::launch
