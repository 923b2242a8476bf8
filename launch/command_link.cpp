#include "launch/command_link.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "base/error.hpp"
#include "launch/command.hpp"
#include "net/config.hpp"
#include "net/thin_link.hpp"

namespace isthmus::launch {

namespace {

struct LinkWords {
    std::string listen = "127.0.0.1:0", to, rate, latency, jitter = "0ms", outage;
    std::uint64_t seed = 0;
};

net::ThinLinkOptions options_of(const LinkWords& words) {
    net::ThinLinkOptions options;
    const net::HostPort listen = parse_host_port("--listen", words.listen);
    const net::HostPort to = parse_host_port("--to", words.to);
    if (to.port == 0)
        throw fatal(ExitCode::kUsage, "--to {}: port 0 cannot be connected to", words.to);
    options.listen_address = listen.host;
    options.listen_port = listen.port;
    options.to_host = to.host;
    options.to_port = to.port;
    net::ShaperConfig& shape = options.shape;
    shape.bits_per_second = net::parse_rate(words.rate, "--rate");
    shape.latency = net::parse_duration(words.latency, "--latency");
    shape.jitter = net::parse_duration(words.jitter, "--jitter");
    if (!words.outage.empty()) shape.outage = net::parse_outage(words.outage, "--outage");
    shape.seed = words.seed;
    net::check_under_way(shape, fmt::format("--rate {} with --latency {} and --jitter {}",
                                            words.rate, words.latency, words.jitter));
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

net::HostPort parse_host_port(const std::string& option, const std::string& text) {
    const auto parsed = net::parse_host_port(text);
    if (!parsed) throw fatal(ExitCode::kUsage, "{} {}", option, parsed.error().message);
    return *parsed;
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
