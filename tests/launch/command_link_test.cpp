#include "launch/command_link.hpp"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

#include "base/error.hpp"
#include "launch/command.hpp"

namespace isthmus::launch {
namespace {

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
