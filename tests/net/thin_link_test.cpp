#include "net/thin_link.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "base/error.hpp"

namespace isthmus::net {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// A plain blocking TCP socket on loopback; every wait is bounded by 10 s.
class Socket {
  public:
    explicit Socket(int descriptor) : descriptor_(descriptor) {
        const timeval limit{10, 0};
        setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        setsockopt(descriptor_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    }
    Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
    ~Socket() {
        if (descriptor_ >= 0) close(descriptor_);
    }
    static sockaddr_in loopback(std::uint16_t port) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(port);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        return address;
    }
    static Socket listening() {
        Socket s(socket(AF_INET, SOCK_STREAM, 0));
        const auto address = loopback(0);
        EXPECT_EQ(bind(s.descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address),
                  0);
        EXPECT_EQ(listen(s.descriptor_, 16), 0);
        return s;
    }
    static Socket connected(std::uint16_t port) {
        Socket s(socket(AF_INET, SOCK_STREAM, 0));
        const auto address = loopback(port);
        EXPECT_EQ(
            connect(s.descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
        return s;
    }
    std::uint16_t port() const {
        sockaddr_in address{};
        socklen_t size = sizeof address;
        getsockname(descriptor_, reinterpret_cast<sockaddr*>(&address), &size);
        return ntohs(address.sin_port);
    }
    Socket accept() const { return Socket(::accept(descriptor_, nullptr, nullptr)); }
    bool send_all(std::size_t bytes) const {
        const std::vector<char> data(16 << 10, 'x');
        while (bytes > 0) {
            const auto sent =
                send(descriptor_, data.data(), std::min(bytes, data.size()), MSG_NOSIGNAL);
            if (sent <= 0) return false;
            bytes -= static_cast<std::size_t>(sent);
        }
        return true;
    }
    /// Bytes, 0 at the end, -1 for a reset or a time-out.
    ssize_t receive() const {
        char data[16 << 10];
        return recv(descriptor_, data, sizeof data, 0);
    }
    std::size_t receive_all(std::size_t bytes) const {
        std::size_t got = 0;
        while (got < bytes) {
            const ssize_t n = receive();
            if (n <= 0) break;
            got += static_cast<std::size_t>(n);
        }
        return got;
    }
    void end_sending() const { shutdown(descriptor_, SHUT_WR); }
    void reset() {
        const linger now{1, 0};
        setsockopt(descriptor_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
        close(std::exchange(descriptor_, -1));
    }

  private:
    int descriptor_;
};

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

class ThinLinkTest : public testing::Test {
  protected:
    void start(std::int64_t rate, std::chrono::nanoseconds latency) {
        ThinLinkOptions options;
        options.to_host = "127.0.0.1";
        options.to_port = server_.port();
        options.shape.bits_per_second = rate;
        options.shape.latency = latency;
        link_ = std::make_unique<ThinLink>(options);
        thread_ = std::thread([this] { link_->run([this] { return stop_.load(); }); });
    }
    void stop() {
        stop_ = true;
        if (thread_.joinable()) thread_.join();
    }
    ~ThinLinkTest() override { stop(); }

    struct Pair {
        Socket near, far;
    };
    Pair pair() {
        Socket near = Socket::connected(link_->port());
        Socket far = server_.accept();
        return {std::move(near), std::move(far)};
    }

    Socket server_ = Socket::listening();
    std::unique_ptr<ThinLink> link_;
    std::thread thread_;
    std::atomic<bool> stop_{false};
};

constexpr std::int64_t kRate = 20'000'000;
constexpr std::size_t kBytes = 1'250'000;  // half a second of it

/// Never faster than the link, however busy the machine; slower only if it is. How exact the rate
/// is when nobody disturbs is shaper_test's, in fake time.
void expect_rate(double bits_per_second) {
    EXPECT_LE(bits_per_second, kRate * 1.03);
    EXPECT_GE(bits_per_second, kRate * 0.3);
}

TEST_F(ThinLinkTest, BothDirectionsCarryTheRateAtOnce) {
    start(kRate, 50ms);
    Pair p = pair();
    const auto begun = Clock::now();
    std::thread there([&] { EXPECT_TRUE(p.near.send_all(kBytes)); });
    std::thread back([&] { EXPECT_TRUE(p.far.send_all(kBytes)); });
    double took_back = 0;
    std::thread near_reads([&] {
        EXPECT_EQ(p.near.receive_all(kBytes), kBytes);
        took_back = seconds_since(begun);
    });
    EXPECT_EQ(p.far.receive_all(kBytes), kBytes);
    const double took = seconds_since(begun);
    for (std::thread* t : {&there, &back, &near_reads}) t->join();
    expect_rate(kBytes * 8 / (took - .050));
    expect_rate(kBytes * 8 / (took_back - .050));
}

TEST_F(ThinLinkTest, AByteTakesTheLatencyEachWay) {
    start(kRate, 50ms);
    Pair p = pair();
    const auto begun = Clock::now();
    ASSERT_TRUE(p.near.send_all(1));
    ASSERT_EQ(p.far.receive_all(1), 1u);
    ASSERT_TRUE(p.far.send_all(1));
    ASSERT_EQ(p.near.receive_all(1), 1u);
    EXPECT_GE(seconds_since(begun), .100);
    EXPECT_LT(seconds_since(begun), 5.0);  // a busy machine wakes late
}

TEST_F(ThinLinkTest, ConnectionsShareTheRate) {
    start(kRate, 5ms);
    Pair one = pair(), two = pair();
    const auto begun = Clock::now();
    std::thread first([&] { one.near.send_all(kBytes / 2); });
    std::thread second([&] { two.near.send_all(kBytes / 2); });
    double took_one = 0;
    std::thread reads([&] {
        EXPECT_EQ(one.far.receive_all(kBytes / 2), kBytes / 2);
        took_one = seconds_since(begun);
    });
    EXPECT_EQ(two.far.receive_all(kBytes / 2), kBytes / 2);
    const double took_two = seconds_since(begun);
    for (std::thread* t : {&first, &second, &reads}) t->join();
    // Fair: both need the time that the sum needs; the first of an unfair pair would need half.
    expect_rate(kBytes * 8 / (std::max(took_one, took_two) - .005));
    EXPECT_GT(std::min(took_one, took_two), 0.7 * std::max(took_one, took_two));
}

TEST_F(ThinLinkTest, AHalfCloseIsPassedOnBehindTheLastByte) {
    start(kRate, 20ms);
    Pair p = pair();
    ASSERT_TRUE(p.near.send_all(50'000));
    p.near.end_sending();
    EXPECT_EQ(p.far.receive_all(50'001), 50'000u);
    ASSERT_TRUE(p.far.send_all(70'000));  // the other half still works
    p.far.end_sending();
    EXPECT_EQ(p.near.receive_all(70'001), 70'000u);
    EXPECT_EQ(p.near.receive(), 0);
}

TEST_F(ThinLinkTest, AResetEndsTheOtherSideAsAReset) {
    start(kRate, 1ms);
    Pair p = pair();
    p.near.reset();
    EXPECT_EQ(p.far.receive(), -1);
    EXPECT_EQ(errno, ECONNRESET);
    Pair next = pair();  // and hurts nobody else
    ASSERT_TRUE(next.near.send_all(10));
    EXPECT_EQ(next.far.receive_all(10), 10u);
}

TEST_F(ThinLinkTest, StopsWithinABoundUnderTraffic) {
    start(kRate, 50ms);
    Pair p = pair();
    std::thread sender([&] { EXPECT_FALSE(p.near.send_all(std::size_t{1} << 30)); });
    EXPECT_GE(p.far.receive_all(100'000), 100'000u);
    const auto begun = Clock::now();
    stop();
    EXPECT_LT(seconds_since(begun), 1.0);
    link_.reset();  // ends the connections, so the sender returns
    sender.join();
}

TEST_F(ThinLinkTest, NobodyAtTheFarEndEndsTheConnectionAndIsSaidOnce) {
    ThinLinkOptions options;
    options.to_host = "127.0.0.1";
    {
        const Socket gone = Socket::listening();
        options.to_port = gone.port();
    }
    std::atomic<int> lines{0};
    options.say = [&](const std::string& line) {
        ++lines;
        EXPECT_NE(line.find("cannot be reached"), std::string::npos) << line;
    };
    ThinLink link(options);
    std::thread thread([&] { link.run([this] { return stop_.load(); }); });
    for (int i = 0; i < 3; ++i) EXPECT_EQ(Socket::connected(link.port()).receive(), -1);
    stop_ = true;
    thread.join();
    EXPECT_EQ(lines, 1);
}

TEST_F(ThinLinkTest, AnAddressInUseIsNamed) {
    ThinLinkOptions options;
    options.listen_port = server_.port();
    options.to_host = "127.0.0.1";
    options.to_port = server_.port();
    try {
        const ThinLink link(options);
        FAIL() << "listened on a port in use";
    } catch (const Fatal& error) {
        const std::string line = error.what();
        EXPECT_EQ(error.code(), ExitCode::kResources);
        EXPECT_NE(line.find("127.0.0.1:" + std::to_string(server_.port())), std::string::npos);
        EXPECT_NE(line.find("in use, by"), std::string::npos) << line;
        EXPECT_EQ(line.find('\n'), std::string::npos);
    }
}

}  // namespace
}  // namespace isthmus::net
