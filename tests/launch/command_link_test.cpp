#include "launch/command_link.hpp"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

#include "base/error.hpp"
#include "launch/command.hpp"

namespace isthmus::launch {
namespace {

using namespace std::chrono_literals;

template <class Call>
std::string refusal(Call call) {
    try {
        call();
    } catch (const Fatal& error) {
        EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
        return std::to_string(static_cast<int>(error.code())) + ": " + error.what();
    }
    return "accepted";
}

TEST(LinkCommand, RatesHaveAUnit) {
    EXPECT_EQ(parse_rate("--rate", "20mbit"), 20'000'000);
    EXPECT_EQ(parse_rate("--rate", "1.5mbit"), 1'500'000);
    EXPECT_EQ(parse_rate("--rate", "500kbit"), 500'000);
    EXPECT_EQ(parse_rate("--rate", "1gbit"), 1'000'000'000);
    for (const char* wrong : {"", "20", "mbit", "20 mbit", "20mbyte", "-1mbit", "0mbit", "nanmbit",
                              "infgbit", "1e3mbit", "11gbit", "20mbitx"}) {
        EXPECT_EQ(refusal([&] {
                      (void)parse_rate("--rate", wrong);
                  }).rfind("2: --rate " + std::string(wrong) + ": not a rate", 0),
                  0u)
            << wrong;
    }
}

TEST(LinkCommand, TimesHaveAUnit) {
    EXPECT_EQ(parse_duration("--latency", "50ms"), 50ms);
    EXPECT_EQ(parse_duration("--latency", "1s"), 1s);
    EXPECT_EQ(parse_duration("--latency", "0ms"), 0ms);
    EXPECT_EQ(parse_duration("--latency", "2.5ms"), 2500us);
    for (const char* wrong : {"", "50", "ms", "-1ms", "50m", "50msec", "100000s"}) {
        EXPECT_NE(refusal([&] { (void)parse_duration("--latency", wrong); }).find("not a time"),
                  std::string::npos)
            << wrong;
    }
}

TEST(LinkCommand, OutagesAreShorterThanTheirPeriod) {
    const net::OutageSchedule outage = parse_outage("--outage", "every=60s,for=5s");
    EXPECT_EQ(outage.every, 60s);
    EXPECT_EQ(outage.lasts, 5s);
    for (const char* wrong : {"every=5s", "for=5s,every=60s", "every=5s,for=5s", "every=5s,for=0s",
                              "every=5,for=1s", "5s", "every=0s,for=0s"}) {
        EXPECT_EQ(refusal([&] { (void)parse_outage("--outage", wrong); }).rfind("2: --outage", 0),
                  0u)
            << wrong;
    }
}

TEST(LinkCommand, AddressesAreHostAndPort) {
    EXPECT_EQ(parse_host_port("--to", "oslo.example:65535").host, "oslo.example");
    EXPECT_EQ(parse_host_port("--to", "oslo.example:65535").port, 65535);
    EXPECT_EQ(parse_host_port("--to", "[::1]:7").host, "::1");
    for (const char* wrong : {"", "oslo", ":5", "oslo:", "oslo:65536", "oslo:x", "::1:5", "[]:5"}) {
        EXPECT_NE(refusal([&] { (void)parse_host_port("--to", wrong); }).find("not HOST:PORT"),
                  std::string::npos)
            << wrong;
    }
}

/// What `isthmus link` prints and how it ends when it is to stop at once.
std::string link_command(std::vector<std::string> arguments) {
    const auto files = posix_files();
    Log log;
    CommandContext context{*files, log, [] { return true; }, false};
    CLI::App app("test", "isthmus");
    add_link_command(app, context);
    arguments.insert(arguments.begin(), "link");
    std::reverse(arguments.begin(), arguments.end());
    testing::internal::CaptureStdout();
    const std::string ended = refusal([&] { app.parse(arguments); });
    return testing::internal::GetCapturedStdout() + ended;
}

TEST(LinkCommand, PrintsTheBoundAddressAndEndsWith130) {
    const std::string said =
        link_command({"--to", "127.0.0.1:9", "--rate", "20mbit", "--latency", "50ms"});
    int port = 0;
    ASSERT_EQ(std::sscanf(said.c_str(), "127.0.0.1:%d\n", &port), 1) << said;
    EXPECT_GT(port, 0);
    EXPECT_NE(said.find("\n130: link to 127.0.0.1:9 stopped"), std::string::npos) << said;
}

TEST(LinkCommand, RefusesWhatItCannotDo) {
    const std::vector<std::string> fast{"--rate", "10gbit", "--latency", "1s"};
    std::vector<std::string> words{"--to", "127.0.0.1:9"};
    words.insert(words.end(), fast.begin(), fast.end());
    EXPECT_NE(link_command(words).find("2: --rate 10gbit with --latency 1s"), std::string::npos);
    EXPECT_NE(link_command({"--to", "127.0.0.1:0", "--rate", "1mbit", "--latency", "1s"})
                  .find("2: --to 127.0.0.1:0: port 0"),
              std::string::npos);
    EXPECT_NE(link_command({"--listen", "nowhere:0", "--to", "127.0.0.1:9", "--rate", "1mbit",
                            "--latency", "1s"})
                  .find("2: nowhere:0: not an IP address"),
              std::string::npos);
}

}  // namespace
}  // namespace isthmus::launch
