// Strangers at the ports of a run: refused, logged once with their address, and the run's bits are
// those of one that nobody disturbed.
#include <gtest/gtest.h>

#include "launch/keys.hpp"
#include "launch/meeting_place.hpp"
#include "launch/run_config.hpp"
#include "outer/data_wire.hpp"
#include "tests/launch/support/faults_run.hpp"
#include "tests/launch/support/listening.hpp"
#include "tests/net/support/link_helpers.hpp"

namespace isthmus::launch {
namespace {

using test::listening_ports;
using test::Program;
using test::send_over_tcp;

/// How a ZeroMQ connection begins, up to its first frame: greeting of ZMTP 3.1, mechanism NULL.
std::string greeting() {
    std::string bytes("\xff\0\0\0\0\0\0\0\x01\x7f\x03\x01NULL", 16);
    bytes.resize(64, '\0');
    return bytes;
}
/// A long frame that claims to have 2^62 bytes.
std::string enormous_length() {
    return greeting() + std::string("\x02\x40\0\0\0\0\0\0\0hello", 14);
}

/// Of a process that is long gone.
outer::Message hello_of(const std::string& name) {
    outer::Hello hello;
    hello.name = name;
    hello.incarnation = {1, 1};
    hello.count = 1;
    return hello;
}

class Strangers : public test::FaultsRun {
  protected:
    static constexpr const char* kTwo =
        "sites = [\"paris\", \"oslo\"]\nsync_every_steps = 5\n[net]\n";

    /// Two sites from start to end; `disturb` is called while the run is paused in the middle.
    std::string run(const std::string& folder, const std::string& net,
                    const std::function<void()>& disturb) {
        run_ = folder_.path() / folder;
        file_ = write_config(40, kTwo + net);
        for (const char* name : {"coordinator", "paris", "oslo"}) start(name);
        EXPECT_TRUE(program("paris").says("round 2 after"));
        if (disturb) {
            ctl({"pause"});
            disturb();
            ctl({"resume"});
        }
        return expect_one_end({"paris", "oslo"});
    }
    int coordinator_port() { return listening_ports(program("coordinator").process().pid()).at(0); }
    int paris_port() { return listening_ports(program("paris").process().pid()).at(0); }
    std::unique_ptr<net::Link> connect(int port, const net::Security& security = {}) {
        auto link =
            net::Link::connect(context_, net::LinkKind::kClient,
                               fmt::format("tcp://127.0.0.1:{}", port), {.security = security});
        EXPECT_TRUE(link);
        return std::move(*link);
    }
    static void say(net::Link& link, std::span<const std::byte> frame) {
        EXPECT_TRUE(net::wait_until([&] { return link.send(frame); }));
    }
    /// It says this, and no second time until now.
    void expect_once(const std::string& name, const std::string& what) {
        ASSERT_TRUE(program(name).says(what));
        const std::string text = program(name).text();
        EXPECT_EQ(text.find(what, text.find(what) + 1), std::string::npos) << text;
    }

    /// Again and again: who hangs up too early for the address to be read is reported without one.
    void expect_garbage_refused(const std::string& name) {
        const int port = listening_ports(program(name).process().pid()).at(0);
        const std::string what = "refused: 127.0.0.1: did not complete the handshake";
        EXPECT_TRUE(net::wait_until([&] {
            send_over_tcp(port, enormous_length());
            send_over_tcp(port, "GET / HTTP/1.1\r\nHost: here\r\n\r\n");
            return program(name).text().find(what) != std::string::npos;
        }));
        expect_once(name, what);
    }

    net::Context context_;
};

TEST_F(Strangers, WithoutKeysFramesThatDoNotBelongAreRefused) {
    const std::string undisturbed = run("quiet", "", {});
    const std::string disturbed = run("noisy", "", [&] {
        const RunConfig config = load_run_config(*files_, file_, {});
        const net::RunId own = config.run_number(), other(own.value + 1);
        const outer::Message beat = outer::SiteBeat{};
        const auto frame = [](net::RunId run, const outer::Message& m) {
            return net::make_frame(
                run, {.kind = outer::kind_of(m), .sender = SiteId(0), .payload = outer::encode(m)});
        };
        auto version = frame(own, beat);
        version[4] = std::byte{9};
        auto enormous = frame(own, beat);
        enormous[24 + 5] = std::byte{1};  // 2^40 bytes more
        // What a process of paris said that is long gone.
        const outer::Message old = hello_of("paris");
        for (const int port : {coordinator_port(), paris_port()}) {
            const auto link = connect(port);
            for (int twice = 0; twice < 2; ++twice) {
                say(*link, frame(other, beat));
                say(*link, version);
                say(*link, enormous);
                say(*link, frame(own, old));
                say(*link, net::bytes_of("garbage"));
            }
            const std::string name = port == coordinator_port() ? "coordinator" : "paris";
            expect_garbage_refused(name);
            expect_once(name, "127.0.0.1: frame refused: of run ");
            expect_once(name, "127.0.0.1: frame refused: version 9, this build speaks");
            expect_once(name, "of payload, at most ");
            expect_once(name, "127.0.0.1: frame refused: 7 bytes are less than a header");
            if (name == "paris") expect_once(name, "127.0.0.1: it sent what only answers have");
        }
        expect_once("coordinator", "a newer process of site paris is here");
        expect_once("coordinator", "127.0.0.1: it said HELLO as site paris");
    });
    EXPECT_EQ(disturbed, undisturbed);
}

TEST_F(Strangers, WithKeysNobodyElseGetsIn) {
    const Path keys = folder_.path() / "keys";
    const std::string coordinator_key = make_run_keys(keys, {"paris", "oslo"});
    const std::string net =
        fmt::format("keys = \"{}\"\ncoordinator_key = \"{}\"\n", keys.string(), coordinator_key);
    const std::string undisturbed = run("quiet", net, {});
    const std::string disturbed = run("noisy", net, [&] {
        const net::KeyPair unknown = net::make_key_pair();
        const auto paris = net::read_key_file(keys / "paris.key");
        ASSERT_TRUE(paris);
        const auto at_coordinator =
            connect(coordinator_port(), {.own = unknown, .server_key = coordinator_key});
        const auto at_paris =
            connect(paris_port(), {.own = unknown, .server_key = paris->public_key});
        for (const char* name : {"coordinator", "paris"}) {
            expect_garbage_refused(name);
            expect_once(name, "refused: 127.0.0.1 with key " + unknown.public_key);
        }
        // Who has a site's key is held to that site's name and to this run.
        const auto insider =
            connect(coordinator_port(), {.own = *paris, .server_key = coordinator_key});
        const RunConfig config = load_run_config(*files_, file_, {});
        const outer::Message as_oslo = hello_of("oslo");
        const auto hello =
            net::make_frame(config.run_number(), {.kind = outer::kind_of(as_oslo),
                                                  .sender = SiteId(1),
                                                  .payload = outer::encode(as_oslo)});
        for (int twice = 0; twice < 2; ++twice) say(*insider, hello);
        expect_once("coordinator", "127.0.0.1: it calls itself oslo, its key is that of paris");
    });
    EXPECT_EQ(disturbed, undisturbed);
}

}  // namespace
}  // namespace isthmus::launch
