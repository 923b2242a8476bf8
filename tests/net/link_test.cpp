#include "net/link.hpp"

#include <cstring>
#include <thread>

#include "net/mailbox.hpp"

namespace isthmus::net {
namespace {

using namespace std::chrono_literals;

std::vector<std::byte> bytes_of(std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
    return {bytes.begin(), bytes.end()};
}
std::string text_of(const Message& message) {
    return {reinterpret_cast<const char*>(message.bytes().data()), message.bytes().size()};
}

/// The next message within ten seconds, else an empty one.
Message next(Link& link) {
    const auto end = std::chrono::steady_clock::now() + 10s;
    while (std::chrono::steady_clock::now() < end) {
        if (auto message = link.receive()) return std::move(*message);
        const Interest interest{.link = &link};
        wait(std::span(&interest, 1), nullptr, 100ms);
    }
    ADD_FAILURE() << "no message within 10 s";
    return {};
}

/// Sends once the queue takes it.
void send(Link& link, std::string_view text) {
    while (!link.send(bytes_of(text))) {
        const Interest interest{.link = &link, .readable = false, .writable = true};
        wait(std::span(&interest, 1), nullptr, 100ms);
    }
}

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

TEST(Link, OnlyLoopbackIsTaken) {
    Context context;
    for (const char* endpoint : {"tcp://10.0.0.1:4000", "tcp://*:4000", "ipc:///x", "", "paris"}) {
        const auto link = Link::connect(context, LinkKind::kClient, endpoint);
        ASSERT_FALSE(link) << endpoint;
        EXPECT_NE(link.error().message.find("only tcp://127.0.0.1:PORT is taken"),
                  std::string::npos);
    }
    EXPECT_FALSE(Link::connect(context, LinkKind::kClient, "tcp://127.0.0.1:notaport"));
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
