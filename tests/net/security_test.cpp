// Strangers, wrong keys, garbage: refused, reported once with the address, and the link goes on.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <set>
#include <thread>

#include "base/descriptor.hpp"
#include "net/frame.hpp"
#include "net/link.hpp"
#include "tests/net/support/link_helpers.hpp"

namespace isthmus::net {
namespace {

using namespace std::chrono_literals;

/// A server that lets in paris, and what others need to reach it.
struct Guarded {
    Context context;
    KeyPair server_keys = make_key_pair(), paris = make_key_pair();
    std::unique_ptr<Link> server;

    explicit Guarded(LinkOptions options = {}, const std::string& address = "127.0.0.1:0") {
        context.allow({{paris.public_key, "paris"}});
        options.security.own = server_keys;
        server = std::move(Link::listen(context, LinkKind::kServer, options, address)).value();
    }
    std::unique_ptr<Link> client(Context& from, const KeyPair& own) {
        LinkOptions options;
        options.security = {.own = own, .server_key = server_keys.public_key};
        return std::move(Link::connect(from, LinkKind::kClient, server->endpoint(), options))
            .value();
    }
    void expect_works() {
        auto link = client(context, paris);
        send(*link, "still there?");
        const Message asked = next(*server);
        EXPECT_EQ(text_of(asked), "still there?");
        EXPECT_EQ(asked.sender_name(), "paris");
        EXPECT_TRUE(server->send(bytes_of("yes"), {}, asked.from()));
        EXPECT_EQ(text_of(next(*link)), "yes");
    }
    /// All refusals until there is one (or the limit).
    std::vector<Refusal> refusals() {
        std::vector<Refusal> all;
        EXPECT_TRUE(wait_until(
            [&] {
                all = context.take_refusals();
                return !all.empty();
            },
            {server.get()}));
        return all;
    }
};

/// A TCP connection of a program that knows nothing of us.
class RawConnection {
  public:
    explicit RawConnection(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in to{};
        to.sin_family = AF_INET;
        to.sin_port = htons(static_cast<std::uint16_t>(port));
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        EXPECT_EQ(::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
        const timeval limit{20, 0};
        ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    }
    void write(std::string_view bytes) {
        // A side that closed already is what some tests are after.
        (void)!::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    }
    /// Reads until the other side closes.
    bool closed_by_peer() {
        char buffer[4096];
        ssize_t n = 0;
        do n = ::recv(socket_.get(), buffer, sizeof buffer, 0);
        while (n > 0);
        return n == 0 || errno == ECONNRESET;
    }
    void close() { socket_.reset(); }

  private:
    Descriptor socket_;
};

/// ZMTP 3.0 greeting of a side without keys.
std::string greeting(std::string_view mechanism) {
    std::string text("\xff\0\0\0\0\0\0\0\1\x7f\3\0", 12);
    text += mechanism;
    text.resize(64, '\0');
    return text;
}

TEST(Security, KeysNameTheSender) {
    Guarded g;
    g.expect_works();
    EXPECT_TRUE(g.context.take_refusals().empty());
    auto link = g.client(g.context, g.paris);
    send(*link, "hello");
    const Message message = next(*g.server);
    EXPECT_EQ(message.sender_name(), "paris");
    EXPECT_EQ(message.address(), "127.0.0.1");
}

TEST(Security, AStrangerIsRefusedReportedOnceAndGetsInOnceListed) {
    Guarded g;
    Context elsewhere;
    const KeyPair stranger = make_key_pair();
    auto link = g.client(elsewhere, stranger);
    send(*link, "let me in");
    const auto refusals = g.refusals();
    ASSERT_EQ(refusals.size(), 1u);
    EXPECT_EQ(refusals[0].address, "127.0.0.1");
    EXPECT_EQ(refusals[0].public_key, stranger.public_key);
    EXPECT_EQ(refusals[0].reason, "its key is not among those that may join");
    // Its second connection is refused too, and nobody is told again.
    auto again = g.client(elsewhere, stranger);
    send(*again, "let me in");
    g.expect_works();
    EXPECT_FALSE(g.server->receive());
    EXPECT_TRUE(g.context.take_refusals().empty());
    // Both go on trying.
    g.context.allow({{g.paris.public_key, "paris"}, {stranger.public_key, "oslo"}});
    for (int i = 0; i < 2; ++i) {
        const Message message = next(*g.server);
        EXPECT_EQ(text_of(message), "let me in");
        EXPECT_EQ(message.sender_name(), "oslo");
    }
}

TEST(Security, AKeyThatIsListedALittleLaterIsHeldNotRefused) {
    Guarded g;
    g.context.hold_unknown(std::chrono::seconds(4));
    Context elsewhere;
    const KeyPair early = make_key_pair();
    auto link = g.client(elsewhere, early);
    send(*link, "let me in");
    const std::vector<Interest> interests{{.link = g.server.get()}};
    net::wait(interests, nullptr, std::chrono::milliseconds(200));
    EXPECT_FALSE(g.server->receive());
    g.expect_works();  // nobody else waits for it
    const auto start = std::chrono::steady_clock::now();
    g.context.allow({{g.paris.public_key, "paris"}, {early.public_key, "oslo"}});
    const Message message = next(*g.server);
    EXPECT_EQ(message.sender_name(), "oslo");
    // After a refusal it would be the handshake's limit of 5 s.
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(3));
    EXPECT_TRUE(g.context.take_refusals().empty());
}

TEST(Security, AKeyThatIsNeverListedIsRefusedInTheEnd) {
    Guarded g;
    g.context.hold_unknown(std::chrono::milliseconds(100));
    Context elsewhere;
    auto link = g.client(elsewhere, make_key_pair());
    EXPECT_EQ(g.refusals().size(), 1u);
}

TEST(Security, ARevokedKeyNoLongerGetsIn) {
    Guarded g;
    g.expect_works();
    g.context.allow(allowlist_of({{"paris", g.paris.public_key, true}}));
    Context elsewhere;
    auto link = g.client(elsewhere, g.paris);
    send(*link, "me again");
    const auto refusals = g.refusals();
    ASSERT_EQ(refusals.size(), 1u);
    EXPECT_EQ(refusals[0].public_key, g.paris.public_key);
    EXPECT_FALSE(g.server->receive());
}

TEST(Security, NobodyIsLetInBeforeTheListIsGiven) {
    Context context;
    const KeyPair server_keys = make_key_pair(), paris = make_key_pair();
    LinkOptions options;
    options.security.own = server_keys;
    auto server = std::move(Link::listen(context, LinkKind::kReceiver, options)).value();
    options.security = {.own = paris, .server_key = server_keys.public_key};
    auto sender =
        std::move(Link::connect(context, LinkKind::kSender, server->endpoint(), options)).value();
    EXPECT_TRUE(wait_until([&] { return context.take_refusals().size() == 1; }, {server.get()}));
    EXPECT_FALSE(server->receive());
}

TEST(Security, AClientThatExpectsAnotherServerDoesNotSpeakToThisOne) {
    Guarded g;
    LinkOptions options;
    options.security = {.own = g.paris, .server_key = make_key_pair().public_key};
    auto link =
        std::move(Link::connect(g.context, LinkKind::kClient, g.server->endpoint(), options))
            .value();
    send(*link, "a secret");
    const auto refusals = g.refusals();
    EXPECT_EQ(refusals[0].public_key, "");
    EXPECT_NE(refusals[0].reason.find("handshake"), std::string::npos);
    EXPECT_FALSE(g.server->receive());
    g.expect_works();
}

TEST(Security, AClientWithoutKeysIsNotHeard) {
    Guarded g;
    auto link =
        std::move(Link::connect(g.context, LinkKind::kClient, g.server->endpoint())).value();
    send(*link, "plain");
    EXPECT_EQ(g.refusals()[0].public_key, "");
    EXPECT_FALSE(g.server->receive());
    g.expect_works();
}

TEST(Security, GarbageOnThePortIsReportedOnceAndChangesNothing) {
    const std::string kinds[] = {
        "GET / HTTP/1.1\r\nHost: isthmus\r\n\r\n",
        std::string(300, '\xff'),
        std::string(100'000, '\0'),
        greeting("NULL"),
        greeting("CURVE") + std::string("\x04\xff\xff\xff\xff\xff\xff\xff\xff", 9),
        greeting("CURVE") + std::string("\x04\x05HELLO", 7),
    };
    for (const std::string& bytes : kinds) {
        Guarded g;
        std::vector<RawConnection> raws;
        for (int i = 0; i < 3; ++i) raws.emplace_back(g.server->port()).write(bytes);
        for (RawConnection& raw : raws) EXPECT_TRUE(raw.closed_by_peer()) << bytes.substr(0, 20);
        auto refusals = g.refusals();
        g.expect_works();
        for (const Refusal& later : g.context.take_refusals()) refusals.push_back(later);
        // Once with the address, or without it if the connection was closed before it could be
        // read.
        std::set<std::string> addresses;
        for (const Refusal& r : refusals) {
            EXPECT_TRUE(addresses.insert(r.address).second);
            EXPECT_TRUE(r.address == "127.0.0.1" || r.address.empty()) << r.address;
            EXPECT_EQ(r.public_key, "");
        }
        EXPECT_FALSE(g.server->receive());
    }
}

TEST(Security, AConnectionThatSaysNothingIsClosedAfterTheHandshakesTime) {
    Guarded g;
    RawConnection raw(g.server->port());
    g.expect_works();
    EXPECT_TRUE(raw.closed_by_peer());
    const auto refusals = g.refusals();
    ASSERT_EQ(refusals.size(), 1u);
    EXPECT_EQ(refusals[0].address, "127.0.0.1");
}

TEST(Security, AnEnormousLengthWithoutKeysEndsTheConnectionUnread) {
    Context context;
    auto server = std::move(Link::listen(context, LinkKind::kServer)).value();
    const std::string ready = std::string("\x04\x19\x05READY\x0bSocket-Type\0\0\0\6DEALER", 28);
    RawConnection raw(server->port());
    raw.write(greeting("NULL") + ready);
    // A message of 2^62 bytes: flags "long", length, and then nothing.
    raw.write(std::string("\x02\x40\0\0\0\0\0\0\0", 9));
    EXPECT_TRUE(raw.closed_by_peer());
    EXPECT_FALSE(server->receive());
    auto client = std::move(Link::connect(context, LinkKind::kClient, server->endpoint())).value();
    send(*client, "good");
    EXPECT_EQ(text_of(next(*server)), "good");
}

TEST(Security, WithKeysTheLargestMessagePassesAndALargerOneDoesNot) {
    Guarded g({.max_message_bytes = 5000});
    auto link = g.client(g.context, g.paris);
    send(*link, std::string(5000, 'x'));
    EXPECT_EQ(next(*g.server).bytes().size(), 5000u);
    send(*link, std::string(5001, 'x'));
    auto second = g.client(g.context, g.paris);
    send(*second, "small");
    EXPECT_EQ(text_of(next(*g.server)), "small");
}

TEST(Security, FramesOfAnotherRunOrVersionOrDamagedLeaveTheLinkWorking) {
    Guarded g;
    const FrameRules rules{.run = RunId(7), .num_kinds = 4, .max_payload_bytes = 1000};
    const auto payload = bytes_of("state");
    const Frame frame{.kind = 1, .sender = SiteId(0), .payload = payload};
    const auto good = make_frame(RunId(7), frame);
    auto other_version = good, enormous = good, damaged = good;
    other_version[4] = std::byte{9};
    enormous[31] = std::byte{0x7f};
    damaged.back() ^= std::byte{1};
    const std::pair<std::vector<std::byte>, std::string> cases[] = {
        {make_frame(RunId(8), frame), "of run 0000000000000008"},
        {other_version, "version 9"},
        {enormous, "bytes of payload, at most 1000"},
        {damaged, "checksum"},
        {bytes_of("short"), "less than a header"},
        {bytes_of(std::string(100, 'x')), "not from isthmus"},
    };
    auto link = g.client(g.context, g.paris);
    for (const auto& [bytes, why] : cases) {
        EXPECT_TRUE(wait_until([&] { return link->send(bytes); }));
        const Message message = next(*g.server);
        const auto parsed = parse_frame(message.bytes(), rules);
        ASSERT_FALSE(parsed);
        EXPECT_NE(parsed.error().message.find(why), std::string::npos) << parsed.error().message;
        EXPECT_EQ(message.address(), "127.0.0.1");
    }
    EXPECT_TRUE(wait_until([&] { return link->send(good); }));
    EXPECT_TRUE(parse_frame(next(*g.server).bytes(), rules));
}

/// A proxy that passes on one connection's bytes from the client, records them, and passes back the
/// answers: somebody on the wire.
class Recorder {
  public:
    Recorder() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in at{};
        at.sin_family = AF_INET;
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof at;
        EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&at), size), 0);
        EXPECT_EQ(::listen(listener_.get(), 1), 0);
        EXPECT_EQ(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&at), &size), 0);
        port_ = ntohs(at.sin_port);
    }
    int port() const { return port_; }
    /// What the client wrote until it closed.
    std::string record(int server_port) {
        const Descriptor client(::accept(listener_.get(), nullptr, nullptr));
        const Descriptor server(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_in to{};
        to.sin_family = AF_INET;
        to.sin_port = htons(static_cast<std::uint16_t>(server_port));
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        EXPECT_EQ(::connect(server.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
        std::thread back([&] { pass(server.get(), client.get(), nullptr); });
        std::string recorded;
        pass(client.get(), server.get(), &recorded);
        ::shutdown(server.get(), SHUT_RDWR);
        back.join();
        return recorded;
    }

  private:
    static void pass(int from, int to, std::string* recorded) {
        char buffer[4096];
        for (ssize_t n = 0; (n = ::recv(from, buffer, sizeof buffer, 0)) > 0;) {
            if (recorded) recorded->append(buffer, static_cast<std::size_t>(n));
            if (::send(to, buffer, static_cast<std::size_t>(n), MSG_NOSIGNAL) != n) return;
        }
    }
    Descriptor listener_;
    int port_ = 0;
};

TEST(Security, AReplayedConversationIsNotHeardAgain) {
    Guarded g;
    Recorder recorder;
    std::string recorded;
    std::thread wire([&] { recorded = recorder.record(g.server->port()); });
    LinkOptions options;
    options.security = {.own = g.paris, .server_key = g.server_keys.public_key};
    auto link =
        std::move(Link::connect(g.context, LinkKind::kClient,
                                fmt::format("tcp://127.0.0.1:{}", recorder.port()), options))
            .value();
    send(*link, "drop oslo");
    EXPECT_EQ(text_of(next(*g.server)), "drop oslo");
    link.reset();
    wire.join();
    ASSERT_GT(recorded.size(), 64u);
    EXPECT_EQ(recorded.find("drop oslo"), std::string::npos) << "it went in the clear";
    (void)g.context.take_refusals();
    RawConnection raw(g.server->port());
    raw.write(recorded);
    EXPECT_TRUE(raw.closed_by_peer());
    EXPECT_FALSE(g.server->receive());
    g.expect_works();
}

TEST(Security, ManyStrangersAreReportedUpToABound) {
    Guarded g;
    Context elsewhere;
    std::vector<std::unique_ptr<Link>> strangers;
    for (int i = 0; i < 70; ++i) strangers.push_back(g.client(elsewhere, make_key_pair()));
    std::set<std::string> keys;
    EXPECT_TRUE(wait_until(
        [&] {
            const auto some = g.context.take_refusals();
            EXPECT_LE(some.size(), 64u);
            for (const Refusal& r : some) EXPECT_TRUE(keys.insert(r.public_key).second);
            return keys.size() == strangers.size();
        },
        {g.server.get()}))
        << keys.size();
}

TEST(Security, AContextEndsWhileStrangersKnock) {
    Context elsewhere;
    std::unique_ptr<Link> stranger;
    const auto start = std::chrono::steady_clock::now();
    {
        Guarded g;
        stranger = g.client(elsewhere, make_key_pair());
        EXPECT_EQ(g.refusals().size(), 1u);
    }
    EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
}

}  // namespace
}  // namespace isthmus::net
