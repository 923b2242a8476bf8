#include "net/link.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <thread>

#include "net/mailbox.hpp"
#include "tests/net/support/link_helpers.hpp"

namespace isthmus::net {
namespace {

using namespace std::chrono_literals;

TEST(Link, ServerAnswersEachClientByItsConnection) {
    Context context;
    auto server = std::move(Link::listen(context, LinkKind::kServer)).value();
    EXPECT_TRUE(server->endpoint().starts_with("tcp://127.0.0.1:"));
    std::vector<std::thread> clients;
    std::vector<std::string> answers(3);
    for (int i = 0; i < 3; ++i) {
        clients.emplace_back([&, i] {
            auto client =
                std::move(Link::connect(context, LinkKind::kClient, server->endpoint())).value();
            send(*client, "from " + std::to_string(i));
            answers[i] = text_of(next(*client));
        });
    }
    for (int i = 0; i < 3; ++i) {
        const Message message = next(*server);
        EXPECT_TRUE(server->send(bytes_of("to you: "), message.bytes(), message.from()));
    }
    for (auto& client : clients) client.join();
    for (int i = 0; i < 3; ++i) EXPECT_EQ(answers[i], "to you: from " + std::to_string(i));
    EXPECT_FALSE(server->send(bytes_of("hello"), {}, "nobody"));
}

TEST(Link, OneWayKeepsOrderAndItsQueueIsBounded) {
    Context context;
    const LinkOptions options{.max_message_bytes = 1 << 20, .queue_messages = 2};
    auto receiver = std::move(Link::listen(context, LinkKind::kReceiver, options)).value();
    auto sender =
        std::move(Link::connect(context, LinkKind::kSender, receiver->endpoint(), options)).value();
    // Nobody receives: after queues and socket buffers are full, send refuses.
    const std::vector<std::byte> large(1 << 20);
    int sent = 0;
    const auto try_send = [&] {
        std::byte number[4];
        std::memcpy(number, &sent, sizeof sent);
        if (!sender->send(number, std::span(large).first((1 << 20) - 4))) return false;
        ++sent;
        return true;
    };
    int refused = 0;
    while (refused < 5 && sent < 200) {
        if (try_send()) continue;
        const Interest interest{.link = sender.get(), .readable = false, .writable = true};
        wait(std::span(&interest, 1), nullptr, 50ms);
        ++refused;
    }
    EXPECT_LT(sent, 200);
    const int queued = sent;
    for (int i = 0; i < queued; ++i) {
        const Message message = next(*receiver);
        ASSERT_EQ(message.bytes().size(), 1u << 20);
        int number = -1;
        std::memcpy(&number, message.bytes().data(), sizeof number);
        EXPECT_EQ(number, i);
    }
}

TEST(Link, MessagesBeyondTheLimitAreNotTaken) {
    Context context;
    auto receiver = std::move(Link::listen(context, LinkKind::kReceiver,
                                           {.max_message_bytes = 1000, .queue_messages = 4}))
                        .value();
    auto large = std::move(Link::connect(context, LinkKind::kSender, receiver->endpoint())).value();
    EXPECT_TRUE(large->send(std::vector<std::byte>(1001)));
    auto small = std::move(Link::connect(context, LinkKind::kSender, receiver->endpoint())).value();
    EXPECT_TRUE(small->send(std::vector<std::byte>(1000)));
    EXPECT_EQ(next(*receiver).bytes().size(), 1000u);
    EXPECT_FALSE(receiver->receive());
}

std::string refusal(const Result<std::unique_ptr<Link>>& link) {
    if (link) return "accepted";
    EXPECT_EQ(link.error().message.find('\n'), std::string::npos);
    return link.error().message;
}

TEST(Link, WithoutKeysOnlyThisMachineIsTaken) {
    Context context;
    for (const char* endpoint : {"tcp://10.0.0.1:4000", "tcp://oslo.example:4000"}) {
        const std::string said = refusal(Link::connect(context, LinkKind::kClient, endpoint));
        EXPECT_EQ(said.rfind(std::string(endpoint) + ": without keys only 127.0.0.1", 0), 0u)
            << said;
    }
    for (const char* address : {"0.0.0.0:0", "*:0", "10.0.0.1:4000"}) {
        const std::string said = refusal(Link::listen(context, LinkKind::kServer, {}, address));
        EXPECT_EQ(said.rfind(fmt::format("listening on {}: without keys", address), 0), 0u) << said;
    }
    EXPECT_TRUE(Link::listen(context, LinkKind::kServer, {}, "lo:0"));
    EXPECT_TRUE(Link::listen(context, LinkKind::kServer, {}, "localhost:0"));
}

TEST(Link, EndpointsThatNobodyCanConnectToAreRefused) {
    Context context;
    const std::pair<const char*, const char*> cases[] = {
        {"", "not an endpoint"},
        {"paris", "not an endpoint"},
        {"127.0.0.1:5000", "not an endpoint"},
        {"ipc://", "not an endpoint"},
        {"tcp://127.0.0.1:notaport", "not an endpoint"},
        {"tcp://127.0.0.1:65536", "not an endpoint"},
        {"tcp://127.0.0.1:0", "port 0 cannot be connected to"},
        {"tcp://[::1]:5000", "IPv6 is not supported"},
        {"tcp://0.0.0.0:5000", "for listening"},
    };
    for (const auto& [endpoint, why] : cases) {
        const std::string said = refusal(Link::connect(context, LinkKind::kClient, endpoint));
        EXPECT_NE(said.find(why), std::string::npos) << said;
    }
    EXPECT_NE(
        refusal(Link::listen(context, LinkKind::kServer, {}, "eth77:0"))
            .find("eth77 is neither an IPv4 address nor an interface of this machine; it has"),
        std::string::npos);
    EXPECT_NE(refusal(Link::listen(context, LinkKind::kServer, {}, "[::1]:0")).find("IPv6"),
              std::string::npos);
}

TEST(Link, IncompleteKeysAreRefused) {
    Context context;
    LinkOptions options;
    options.security.server_key = make_key_pair().public_key;
    EXPECT_NE(refusal(Link::connect(context, LinkKind::kClient, "tcp://127.0.0.1:5", options))
                  .find("the own key is not a key pair"),
              std::string::npos);
    options.security = {.own = make_key_pair(), .server_key = ""};
    EXPECT_NE(refusal(Link::connect(context, LinkKind::kClient, "tcp://127.0.0.1:5", options))
                  .find("the other side's public key is not given"),
              std::string::npos);
}

TEST(Link, WithKeysAllAddressesAreListenedOn) {
    Context context;
    LinkOptions options;
    options.security.own = make_key_pair();
    auto server = std::move(Link::listen(context, LinkKind::kServer, options, "0.0.0.0:0")).value();
    EXPECT_GT(server->port(), 0);
    EXPECT_EQ(server->endpoint(), fmt::format("tcp://127.0.0.1:{}", server->port()));
    const KeyPair paris = make_key_pair();
    context.allow({{paris.public_key, "paris"}});
    options.security = {.own = paris, .server_key = options.security.own.public_key};
    auto client =
        std::move(Link::connect(context, LinkKind::kClient,
                                fmt::format("tcp://localhost:{}", server->port()), options))
            .value();
    send(*client, "by name");
    EXPECT_EQ(next(*server).sender_name(), "paris");
}

TEST(Link, AnAddressInUseIsNamedWithItsHolder) {
    Context context;
    auto first = std::move(Link::listen(context, LinkKind::kServer)).value();
    const std::string address = fmt::format("127.0.0.1:{}", first->port());
    const std::string said = refusal(Link::listen(context, LinkKind::kServer, {}, address));
    EXPECT_EQ(said.rfind(fmt::format("listening on {}: address in use, by process {} (", address,
                                     ::getpid()),
                         0),
              0u)
        << said;
}

/// A folder whose path is short enough for a socket, removed at the end.
struct ShortFolder {
    std::string path = "/tmp/isthmus_link_XXXXXX";
    ShortFolder() { EXPECT_NE(::mkdtemp(path.data()), nullptr); }
    ~ShortFolder() { std::filesystem::remove_all(path); }
};

TEST(Link, TalksOverAPathThatOnlyTheOwnerMayOpen) {
    ShortFolder folder;
    const std::string endpoint = "ipc://" + folder.path + "/socket";
    Context context;
    auto server = std::move(Link::listen(context, LinkKind::kServer, {}, endpoint)).value();
    EXPECT_EQ(server->endpoint(), endpoint);
    EXPECT_EQ(server->port(), 0);
    struct stat info {};
    ASSERT_EQ(::stat((folder.path + "/socket").c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
    auto client = std::move(Link::connect(context, LinkKind::kClient, endpoint)).value();
    send(*client, "pause");
    const Message message = next(*server);
    EXPECT_EQ(text_of(message), "pause");
    EXPECT_EQ(message.sender_name(), "");
    EXPECT_TRUE(server->send(bytes_of("paused"), {}, message.from()));
    EXPECT_EQ(text_of(next(*client)), "paused");

    EXPECT_NE(refusal(Link::listen(context, LinkKind::kServer, {}, endpoint))
                  .find("address in use: another process listens there"),
              std::string::npos);
    std::ofstream(folder.path + "/file") << "mine";
    EXPECT_NE(
        refusal(Link::listen(context, LinkKind::kServer, {}, "ipc://" + folder.path + "/file"))
            .find("no socket"),
        std::string::npos);
    EXPECT_NE(
        refusal(Link::listen(context, LinkKind::kServer, {}, "ipc://" + std::string(200, 'x')))
            .find("not ipc://PATH"),
        std::string::npos);
}

TEST(Link, ASocketFileOfADeadProcessIsTakenOver) {
    ShortFolder folder;
    const std::string endpoint = "ipc://" + folder.path + "/socket";
    {
        // Bound and never unlinked, as after kill -9.
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::strcpy(address.sun_path, (folder.path + "/socket").c_str());
        const int dead = ::socket(AF_UNIX, SOCK_STREAM, 0);
        ASSERT_EQ(::bind(dead, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
        ::close(dead);
    }
    Context context;
    EXPECT_TRUE(Link::listen(context, LinkKind::kServer, {}, endpoint));
}

TEST(Link, AClientThatIsGoneIsAnAnswer) {
    Context context;
    auto server = std::move(Link::listen(context, LinkKind::kServer)).value();
    auto client = std::move(Link::connect(context, LinkKind::kClient, server->endpoint())).value();
    send(*client, "bye");
    const PeerId who = next(*server).from();
    client.reset();
    EXPECT_TRUE(wait_until([&] { return !server->send(bytes_of("are you there?"), {}, who); }, {}));
}

TEST(LinkDeathTest, TwoThreadsOnOneSocketAbort) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_DEATH(
        {
            Context context;
            auto link = std::move(Link::listen(context, LinkKind::kServer)).value();
            link->receive();
            std::thread([&] { link->receive(); }).join();
        },
        "a socket is used by two threads");
}

TEST(Mailbox, WakesAWaitOverSockets) {
    Context context;
    auto link = std::move(Link::listen(context, LinkKind::kServer)).value();
    WakeUp wake_up;
    Mailbox<int> box(2, &wake_up);
    std::thread other([&] { box.put(7); });
    const Interest interest{.link = link.get()};
    const auto start = std::chrono::steady_clock::now();
    std::optional<int> got;
    while (!(got = box.take())) wait(std::span(&interest, 1), &wake_up, 20s);
    EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
    EXPECT_EQ(*got, 7);
    other.join();
    wake_up.clear();
    EXPECT_FALSE(box.take_within(1ms));
}

}  // namespace
}  // namespace isthmus::net
