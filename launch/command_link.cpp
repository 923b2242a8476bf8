#include "launch/command_link.hpp"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <memory>
#include <optional>

#include "base/error.hpp"
#include "launch/command.hpp"
#include "net/thin_link.hpp"

namespace isthmus::launch {

using std::chrono::nanoseconds;
using namespace std::chrono_literals;

namespace {

constexpr nanoseconds kLongestTime = std::chrono::hours(24);
/// What one connection and direction may hold: rate x latency lies in memory.
constexpr double kMostBytesUnderWay = 256e6;

struct Unit {
    const char* name;
    double factor;
};
constexpr Unit kRates[] = {{"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}};
constexpr Unit kTimes[] = {{"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};

/// "20mbit" in the base unit; nothing unless it is a number and one of the units.
template <std::size_t n>
std::optional<double> number_with_unit(const std::string& text, const Unit (&units)[n]) {
    double number = 0;
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
    if (error != std::errc()) return std::nullopt;
    for (const Unit& unit : units)
        if (std::string(rest, end) == unit.name) return number * unit.factor;
    return std::nullopt;
}

struct LinkWords {
    std::string listen = "127.0.0.1:0", to, rate, latency, jitter = "0ms", outage;
    std::uint64_t seed = 0;
};

net::ThinLinkOptions options_of(const LinkWords& words) {
    net::ThinLinkOptions options;
    const HostPort listen = parse_host_port("--listen", words.listen);
    const HostPort to = parse_host_port("--to", words.to);
    if (to.port == 0)
        throw fatal(ExitCode::kUsage, "--to {}: port 0 cannot be connected to", words.to);
    options.listen_address = listen.host;
    options.listen_port = listen.port;
    options.to_host = to.host;
    options.to_port = to.port;
    net::ShaperConfig& shape = options.shape;
    shape.bits_per_second = parse_rate("--rate", words.rate);
    shape.latency = parse_duration("--latency", words.latency);
    shape.jitter = parse_duration("--jitter", words.jitter);
    if (!words.outage.empty()) shape.outage = parse_outage("--outage", words.outage);
    shape.seed = words.seed;
    const double under_way = static_cast<double>(shape.bits_per_second) / 8e9 *
                             static_cast<double>((shape.latency + shape.jitter).count());
    if (under_way > kMostBytesUnderWay) {
        throw fatal(ExitCode::kUsage,
                    "--rate {} with --latency {} and --jitter {} has {:.0f} MB under way, at most "
                    "{:.0f} are allowed; lower one of them",
                    words.rate, words.latency, words.jitter, under_way / 1e6,
                    kMostBytesUnderWay / 1e6);
    }
    return options;
}

void run_link(CommandContext& context, const LinkWords& words) {
    net::ThinLinkOptions options = options_of(words);
    options.say = [](const std::string& line) { std::fprintf(stderr, "link: %s\n", line.c_str()); };
    net::ThinLink link(options);
    const std::string& host = options.listen_address;
    const bool ipv6 = host.find(':') != std::string::npos;
    fmt::print("{}:{}\n", ipv6 ? "[" + host + "]" : host, link.port());
    if (std::fflush(stdout) != 0)  // whoever started the link waits for this line
        throw fatal(ExitCode::kResources, "stdout cannot be written: is the disk full?");
    link.run(context.stop);
    throw fatal(ExitCode::kInterrupted, "link to {} stopped; its connections are closed", words.to);
}

}  // namespace

std::int64_t parse_rate(const std::string& option, const std::string& text) {
    const auto rate = number_with_unit(text, kRates);
    if (!rate || !(*rate >= 1e3 && *rate <= 10e9)) {
        throw fatal(ExitCode::kUsage,
                    "{} {}: not a rate from 1kbit to 10gbit; write 500kbit, 20mbit or 1gbit",
                    option, text);
    }
    return static_cast<std::int64_t>(*rate);
}

nanoseconds parse_duration(const std::string& option, const std::string& text) {
    const auto time = number_with_unit(text, kTimes);
    if (!time || !(*time >= 0 && *time <= static_cast<double>(kLongestTime.count()))) {
        throw fatal(ExitCode::kUsage, "{} {}: not a time up to a day; write 50ms, 1s or 250us",
                    option, text);
    }
    return nanoseconds(static_cast<std::int64_t>(*time));
}

net::OutageSchedule parse_outage(const std::string& option, const std::string& text) {
    const std::string first = "every=", second = ",for=";
    const std::size_t comma = text.find(second);
    if (!text.starts_with(first) || comma == std::string::npos) {
        throw fatal(ExitCode::kUsage, "{} {}: not an outage; write every=60s,for=5s", option, text);
    }
    const net::OutageSchedule outage{
        parse_duration(option + " every", text.substr(first.size(), comma - first.size())),
        parse_duration(option + " for", text.substr(comma + second.size()))};
    if (outage.lasts >= outage.every || outage.lasts == 0ns) {
        throw fatal(ExitCode::kUsage, "{} {}: an outage lasts longer than 0 and less than every",
                    option, text);
    }
    return outage;
}

HostPort parse_host_port(const std::string& option, const std::string& text) {
    const std::size_t colon = text.rfind(':');
    HostPort result;
    bool right = colon != std::string::npos && colon > 0;
    if (right) {
        const char* end = text.data() + text.size();
        const auto [rest, error] = std::from_chars(text.data() + colon + 1, end, result.port);
        right = error == std::errc() && rest == end;
        result.host = text.substr(0, colon);
    }
    if (right && result.host.starts_with('[') && result.host.ends_with(']')) {
        result.host = result.host.substr(1, result.host.size() - 2);
    } else if (right && result.host.find(':') != std::string::npos) {
        right = false;  // an IPv6 address without brackets
    }
    if (!right || result.host.empty()) {
        throw fatal(ExitCode::kUsage,
                    "{} {}: not HOST:PORT with a port up to 65535; write 127.0.0.1:5000 or "
                    "[::1]:5000",
                    option, text);
    }
    return result;
}

void add_link_command(CLI::App& app, CommandContext& context) {
    auto* command = app.add_subcommand(
        "link",
        "An emulated thin link: a TCP proxy with a rate and a latency, until Ctrl-C.\n"
        "Prints the address it listens on as one line on stdout. Each direction has the whole "
        "rate;\nall connections of a direction share it evenly. The rate counts what connections "
        "carry,\nnot packet headers. Nothing is encrypted: what passes is as safe as it was sent.\n"
        "  isthmus link --to 127.0.0.1:5000 --rate 20mbit --latency 50ms");
    auto words = std::make_shared<LinkWords>();
    command
        ->add_option("--listen", words->listen,
                     "IP address and port to listen on; port 0: the system chooses")
        ->capture_default_str();
    command->add_option("--to", words->to, "HOST:PORT that connections are passed on to")
        ->required();
    command->add_option("--rate", words->rate, "of each direction: 500kbit, 20mbit, 1gbit")
        ->required();
    command->add_option("--latency", words->latency, "one way: 50ms, 1s")->required();
    command
        ->add_option("--jitter", words->jitter,
                     "each packet is up to this much later; none overtakes another")
        ->capture_default_str();
    command->add_option("--outage", words->outage,
                        "every=60s,for=5s: nothing passes from second 60 to 65, 120 to 125, ...; "
                        "connections stay");
    command->add_option("--seed", words->seed, "of the jitter")->capture_default_str();
    command->callback([&context, words] { run_link(context, *words); });
}

}  // namespace isthmus::launch
