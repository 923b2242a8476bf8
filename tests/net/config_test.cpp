#include "net/config.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "net/keys.hpp"

namespace isthmus::net {
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

TEST(LinkWords, RatesHaveAUnit) {
    EXPECT_EQ(parse_rate("20mbit", "--rate"), 20'000'000);
    EXPECT_EQ(parse_rate("1.5mbit", "--rate"), 1'500'000);
    EXPECT_EQ(parse_rate("500kbit", "--rate"), 500'000);
    EXPECT_EQ(parse_rate("1gbit", "--rate"), 1'000'000'000);
    for (const char* wrong : {"", "20", "mbit", "20 mbit", "20mbyte", "-1mbit", "0mbit", "nanmbit",
                              "infgbit", "1e3mbit", "11gbit", "20mbitx"}) {
        EXPECT_EQ(refusal([&] {
                      (void)parse_rate(wrong, "--rate");
                  }).rfind("2: --rate " + std::string(wrong) + ": not a rate", 0),
                  0u)
            << wrong;
    }
}

TEST(LinkWords, TimesHaveAUnit) {
    EXPECT_EQ(parse_duration("50ms", "--latency"), 50ms);
    EXPECT_EQ(parse_duration("1s", "--latency"), 1s);
    EXPECT_EQ(parse_duration("0ms", "--latency"), 0ms);
    EXPECT_EQ(parse_duration("2.5ms", "--latency"), 2500us);
    for (const char* wrong : {"", "50", "ms", "-1ms", "50m", "50msec", "100000s"}) {
        EXPECT_NE(refusal([&] { (void)parse_duration(wrong, "--latency"); }).find("not a time"),
                  std::string::npos)
            << wrong;
    }
}

TEST(LinkWords, OutagesAreShorterThanTheirPeriod) {
    const net::OutageSchedule outage = parse_outage("every=60s,for=5s", "--outage");
    EXPECT_EQ(outage.every, 60s);
    EXPECT_EQ(outage.lasts, 5s);
    for (const char* wrong : {"every=5s", "for=5s,every=60s", "every=5s,for=5s", "every=5s,for=0s",
                              "every=5,for=1s", "5s", "every=0s,for=0s"}) {
        EXPECT_EQ(refusal([&] { (void)parse_outage(wrong, "--outage"); }).rfind("2: --outage", 0),
                  0u)
            << wrong;
    }
}

NetConfig loaded(const std::string& toml) {
    NetConfig config;
    load_config([&config](ConfigVisitor& v) { v.section("net", config, "the network"); },
                "[net]\n" + toml, "run.toml");
    return config;
}

/// What is wrong with a run of paris and oslo, or "accepted".
std::string checked(const std::string& toml) {
    return refusal([&] { loaded(toml).check({"paris", "oslo"}); });
}

std::string with_keys(const std::string& toml) {
    return "keys = \"keys\"\ncoordinator_key = '" + make_key_pair().public_key + "'\n" + toml;
}

TEST(NetConfig, DefaultsAreOneMachineAndDumpsReadBack) {
    EXPECT_EQ(checked(""), "accepted");
    NetConfig config;
    const Describe describe = [&config](ConfigVisitor& v) { v.section("net", config, "n"); };
    config.coordinator = {"10.0.0.1:5000", "oslo.example:5000"};
    config.listen = {"paris eth0:5001 paris.example"};
    const std::string dump = dump_config(describe, true);
    config = {};
    load_config(describe, dump, "dump");
    EXPECT_EQ(config.coordinator.size(), 2u);
    EXPECT_EQ(config.listen_of("paris").address, "eth0:5001");
    EXPECT_EQ(config.listen_of("paris").advertise, "paris.example");
    EXPECT_EQ(config.listen_of("oslo").address, "127.0.0.1:0");
    EXPECT_EQ(config.listen_of("oslo").advertise, "");
}

TEST(NetConfig, AllBoundsDeriveFromOneBudget) {
    for (const double seconds : {0.5, 1.0, 7.7, 60.0, 86400.0}) {
        NetConfig config;
        config.round_budget_s = seconds;
        const Budget budget = config.budget();
        EXPECT_LE(4 * budget.ask_again(), budget.silence());
        EXPECT_LE(4 * budget.beat(), budget.silence());
        EXPECT_LT(4 * budget.silence(), budget.round + 4ms);
        EXPECT_GT(budget.beat(), 0ms);
    }
    EXPECT_EQ(loaded("round_budget_s = 20").budget().silence(), 5s);
}

TEST(NetConfig, RatesOfSites) {
    const NetConfig config = loaded("rates = [\"paris 25mbit\"]");
    EXPECT_EQ(config.bytes_per_s_of("paris"), 25e6 / 8);
    EXPECT_FALSE(config.bytes_per_s_of("oslo"));
}

TEST(NetConfig, WhatContradictsItselfIsRefusedByName) {
    const std::pair<std::string, std::string> cases[] = {
        {"join_budget_s = 10", "2: net.join_budget_s = 10 is less than net.round_budget_s = 60"},
        {"streams = 4\nwindow_mb = 3",
         "2: net.window_mb = 3 is less than 1 MB for each of "
         "net.streams = 4"},
        {"coordinator = [\"10.0.0.1:5000\"]",
         "2: net.coordinator \"10.0.0.1:5000\": not loopback, so keys are needed"},
        {"coordinator = [\"127.0.0.1:5000\", \"127.0.0.1:0\"]",
         "2: net.coordinator \"127.0.0.1:0\": tcp://127.0.0.1:0: port 0 cannot be connected to"},
        {"coordinator = [\"oslo\"]", "2: net.coordinator \"oslo\": "},
        {"coordinator_listen = \"eth0:5000\"",
         "2: net.coordinator_listen: eth0:5000 is not loopback, so keys are needed"},
        {"coordinator_listen = \"here\"", "2: net.coordinator_listen: here: not HOST:PORT"},
        {"coordinator_key = 'short'", "2: net.coordinator_key is given, but net.keys"},
        {"keys = \"k\"", "2: net.coordinator_key \"\": not a public key"},
        {"keys = \"k\"\ncoordinator_key = 'short'", "2: net.coordinator_key \"short\": not a"},
        {"listen = [\"pariss 127.0.0.1:1\"]",
         "2: net.listen \"pariss 127.0.0.1:1\": the run has no site pariss; did you mean paris?"},
        {"listen = [\"paris 127.0.0.1:1\", \"paris 127.0.0.1:2\"]",
         "2: net.listen \"paris 127.0.0.1:2\": site paris has an entry already"},
        {"listen = [\"paris\"]", "2: net.listen of paris: 1 words; write \"paris ADDRESS:PORT"},
        {"listen = [\"paris 127.0.0.1\"]", "2: net.listen of paris: 127.0.0.1: not HOST:PORT"},
        {"listen = [\"paris 127.0.0.1:1 oslo:0\"]",
         "2: net.listen of paris: tcp://oslo:0: port 0 cannot be connected to"},
        {"listen = [\"paris 10.0.0.1:1\"]",
         "2: net.listen \"paris 10.0.0.1:1\": 10.0.0.1:1 is not"},
        {"listen = [\" \"]", "2: net.listen: an empty entry"},
        {"rates = [\"paris fast\"]", "2: net.rates of paris: fast: not a rate"},
        {"rates = [\"paris 1mbit 2mbit\"]", "2: net.rates of paris: 3 words"},
        {"window_mb = 0", "2: run.toml"},
        {"round_budget_s = 0", "2: run.toml"},
        {"streams = 0", "2: run.toml"},
    };
    for (const auto& [toml, why] : cases) {
        const std::string said = checked(toml);
        EXPECT_EQ(said.rfind(why, 0), 0u) << said;
    }
}

TEST(NetConfig, KeysOpenOtherAddresses) {
    EXPECT_EQ(
        checked(with_keys("coordinator = [\"oslo.example:5000\"]\n"
                          "coordinator_listen = \"0.0.0.0:5000\"\n"
                          "listen = [\"paris 0.0.0.0:5001 paris.example\", \"oslo eth0:0\"]")),
        "accepted");
    EXPECT_NE(
        checked(with_keys("coordinator_listen = \"0.0.0.0:5000\""))
            .find("listens on all addresses, and others must know one of them: net.coordinator"),
        std::string::npos);
    EXPECT_NE(checked(with_keys("listen = [\"paris *:5001\"]")).find("SITE ADDRESS:PORT HOST"),
              std::string::npos);
}

TEST(LinkConfig, IsOneShaperOrNone) {
    LinkConfig link;
    EXPECT_FALSE(link.shaper());
    link.rate = "20mbit";
    link.latency = "50ms";
    link.outage = "every=60s,for=5s";
    ASSERT_TRUE(link.shaper());
    EXPECT_EQ(link.shaper()->bits_per_second, 20'000'000);
    EXPECT_EQ(link.shaper()->latency, 50ms);
    EXPECT_EQ(link.shaper()->jitter, 0ms);
    EXPECT_EQ(link.shaper()->outage.every, 60s);
}

TEST(LinkConfig, WhatIsWrongIsNamedByItsKey) {
    const auto said = [](LinkConfig link) { return refusal([&] { (void)link.shaper(); }); };
    EXPECT_EQ(said({.rate = "20"}).rfind("2: link.rate 20: not a rate", 0), 0u);
    EXPECT_EQ(said({.rate = "1mbit", .latency = "5"}).rfind("2: link.latency 5: not a time", 0),
              0u);
    EXPECT_EQ(said({.rate = "1mbit", .jitter = "x"}).rfind("2: link.jitter x: not a time", 0), 0u);
    EXPECT_EQ(said({.rate = "1mbit", .outage = "5s"}).rfind("2: link.outage 5s: not an", 0), 0u);
    EXPECT_EQ(said({.latency = "50ms"}).rfind("2: link.rate is missing", 0), 0u);
    EXPECT_EQ(
        said({.rate = "10gbit", .latency = "1s"}).rfind("2: link.rate 10gbit with link.la", 0), 0u);
}

}  // namespace
}  // namespace isthmus::net
