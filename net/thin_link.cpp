#include "net/thin_link.hpp"

#include <fmt/core.h>
#include <netinet/tcp.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <map>

#include "base/error.hpp"

namespace isthmus::net {

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using std::chrono::nanoseconds;
using namespace std::chrono_literals;

constexpr nanoseconds kStopAsked = 50ms;
/// At high rates quanta are closer than a timer is worth; they are then moved several at a time.
constexpr nanoseconds kFinestWait = 200us;
constexpr nanoseconds kAcceptPause = 200ms;
constexpr int kKernelBufferBytes = 128 << 10;
constexpr std::size_t kMaxConnections = 1024;
constexpr std::size_t kReadBytes = 64 << 10;

enum class ConnectionId : std::uint64_t {};

/// Two sockets and their two flows; flow i goes from socket i to the other.
struct Connection {
    explicit Connection(tcp::socket accepted)
        : sockets{std::move(accepted), tcp::socket(sockets[0].get_executor())} {}
    std::array<tcp::socket, 2> sockets;
    std::array<FlowId, 2> flows{};
    std::array<bool, 2> awaits_read{}, awaits_write{};
    std::array<bool, 2> read_ended{};  // socket i has no more to say
    std::array<bool, 2> passed_on{};   // and the other was told so
    bool connected = false;
};

void prepare(tcp::socket& socket) {
    error_code ignored;  // a socket that was reset meanwhile says so when it is read
    socket.non_blocking(true, ignored);
    socket.set_option(tcp::no_delay(true), ignored);
    socket.set_option(asio::socket_base::keep_alive(true), ignored);
    using Seconds = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_KEEPIDLE>;
    using Interval = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_KEEPINTVL>;
    using Count = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_KEEPCNT>;
    socket.set_option(Seconds(30), ignored);
    socket.set_option(Interval(10), ignored);
    socket.set_option(Count(3), ignored);
}

/// Ends with a reset, so that the peer takes it for a lost connection and not for a proper end.
void reset(tcp::socket& socket) {
    error_code ignored;
    if (!socket.is_open()) return;
    socket.set_option(asio::socket_base::linger(true, 0), ignored);
    socket.close(ignored);
}

bool later(const error_code& error) {
    return error == asio::error::would_block || error == asio::error::try_again ||
           error == asio::error::interrupted;
}

}  // namespace

struct ThinLink::Impl {
    explicit Impl(const ThinLinkOptions& given)
        : options(given),
          acceptor(io),
          accept_pause(io),
          timer(io),
          shapers{Shaper(given.shape), Shaper(seeded(given.shape))} {
        listen();
        resolve();
        accept();
    }

    /// The two directions must not jitter alike.
    static ShaperConfig seeded(ShaperConfig shape) {
        shape.seed += 0x9e3779b97f4a7c15;
        return shape;
    }

    nanoseconds now() const { return std::chrono::steady_clock::now() - begun; }

    void listen() {
        const std::string where = fmt::format("{}:{}", options.listen_address, options.listen_port);
        error_code error;
        const auto address = asio::ip::make_address(options.listen_address, error);
        if (error) throw fatal(ExitCode::kUsage, "{}: not an IP address to listen on", where);
        const tcp::endpoint endpoint(address, options.listen_port);
        acceptor.open(endpoint.protocol(), error);
        if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
        // Before listen, or the window is larger than the buffer. Small: what the kernel takes off
        // a sender has not travelled yet.
        if (!error)
            acceptor.set_option(asio::socket_base::receive_buffer_size(kKernelBufferBytes), error);
        if (!error) acceptor.bind(endpoint, error);
        if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
        if (error == asio::error::address_in_use) {
            throw fatal(ExitCode::kResources,
                        "{}: address in use, by another isthmus link or site perhaps "
                        "(ss -ltnp 'sport = :{}' shows whom); stop it or choose another port, "
                        "0 lets the system choose",
                        where, options.listen_port);
        }
        if (error)
            throw fatal(ExitCode::kUsage, "{}: cannot be listened on: {}", where, error.message());
    }

    void resolve() {
        error_code error;
        tcp::resolver resolver(io);
        const auto found =
            resolver.resolve(options.to_host, std::to_string(options.to_port), error);
        if (error || found.empty()) {
            throw fatal(ExitCode::kUsage, "{}: the host has no address: {}", options.to_host,
                        error.message());
        }
        target = found.begin()->endpoint();
    }

    void accept() {
        acceptor.async_accept([this](const error_code& error, tcp::socket socket) {
            if (error == asio::error::operation_aborted) return;
            if (error) {  // out of descriptors: those of ended connections come back
                options.say(fmt::format("no connection can be taken: {}", error.message()));
                accept_pause.expires_after(kAcceptPause);
                accept_pause.async_wait([this](const error_code& ended) {
                    if (!ended) accept();
                });
                return;
            }
            add(std::move(socket));
            accept();
        });
    }

    void add(tcp::socket socket) {
        if (connections.size() >= kMaxConnections) {
            options.say(fmt::format("a connection is refused: {} are open", kMaxConnections));
            reset(socket);
            return;
        }
        const ConnectionId id{next_connection++};
        Connection& c = connections.try_emplace(id, std::move(socket)).first->second;
        for (std::size_t i = 0; i < 2; ++i) c.flows[i] = shapers[i].add_flow();
        prepare(c.sockets[0]);
        error_code error;
        c.sockets[1].open(target.protocol(), error);
        if (!error) {
            c.sockets[1].set_option(asio::socket_base::receive_buffer_size(kKernelBufferBytes),
                                    error);
        }
        if (error) {
            unreachable(error);
            end(id);
            return;
        }
        c.sockets[1].async_connect(target, [this, id](const error_code& failed) {
            const auto found = connections.find(id);
            if (found == connections.end()) return;
            if (failed) {
                unreachable(failed);
                end(id);
                return;
            }
            target_failing = false;
            found->second.connected = true;
            prepare(found->second.sockets[1]);
            tick();
        });
    }

    /// Said once: whoever connects through the link will try again and again.
    void unreachable(const error_code& error) {
        if (!target_failing) {
            options.say(
                fmt::format("{}:{} cannot be reached: {}; connections are refused until "
                            "it can",
                            options.to_host, options.to_port, error.message()));
        }
        target_failing = true;
    }

    /// Resets what is still open.
    void end(ConnectionId id) {
        const auto found = connections.find(id);
        if (found == connections.end()) return;
        for (std::size_t i = 0; i < 2; ++i) {
            shapers[i].remove_flow(found->second.flows[i]);
            reset(found->second.sockets[i]);
        }
        connections.erase(found);
    }

    /// Both sides said their end: what the kernel still holds for them is delivered.
    void end_properly(ConnectionId id, Connection& c) {
        error_code ignored;
        for (tcp::socket& socket : c.sockets) socket.close(ignored);
        end(id);
    }

    /// ERRORS  false: the socket is lost.
    bool read(Connection& c, std::size_t i) {
        const std::size_t room = std::min(shapers[i].room(c.flows[i]), scratch.size());
        if (c.read_ended[i] || room == 0) return true;
        error_code error;
        const std::size_t bytes = c.sockets[i].read_some(asio::buffer(scratch.data(), room), error);
        if (later(error)) return true;
        if (error == asio::error::eof) {
            c.read_ended[i] = true;
            shapers[i].push_end(c.flows[i], now());
            return true;
        }
        if (error) return false;
        shapers[i].push(c.flows[i], {scratch.data(), bytes}, now());
        return true;
    }

    /// ERRORS  false: the socket is lost.
    bool write(Connection& c, std::size_t i) {
        tcp::socket& out = c.sockets[1 - i];
        Shaper& shaper = shapers[i];
        while (!c.awaits_write[1 - i] && !shaper.ready(c.flows[i]).empty()) {
            const auto bytes = shaper.ready(c.flows[i]);
            error_code error;
            const std::size_t taken =
                out.write_some(asio::buffer(bytes.data(), bytes.size()), error);
            if (error && !later(error)) return false;
            shaper.consume(c.flows[i], taken);
            if (error) return true;
        }
        if (shaper.end_arrived(c.flows[i]) && !c.passed_on[i]) {
            error_code error;
            out.shutdown(tcp::socket::shutdown_send, error);
            c.passed_on[i] = true;
            return !error;
        }
        return true;
    }

    /// Asks to be told when a socket can be read or written, where that is what is lacking.
    void await(ConnectionId id, Connection& c, std::size_t i) {
        if (!c.awaits_read[i] && !c.read_ended[i] && shapers[i].room(c.flows[i]) > 0) {
            c.awaits_read[i] = true;
            c.sockets[i].async_wait(tcp::socket::wait_read, [this, id, i](const error_code&) {
                const auto found = connections.find(id);
                if (found == connections.end()) return;
                found->second.awaits_read[i] = false;
                if (read(found->second, i)) {
                    tick();
                } else {
                    end(id);
                }
            });
        }
        if (!c.awaits_write[1 - i] && !shapers[i].ready(c.flows[i]).empty()) {
            c.awaits_write[1 - i] = true;
            c.sockets[1 - i].async_wait(tcp::socket::wait_write, [this, id, i](const error_code&) {
                const auto found = connections.find(id);
                if (found == connections.end()) return;
                found->second.awaits_write[1 - i] = false;
                tick();
            });
        }
    }

    void tick() {
        const nanoseconds time = now();
        for (Shaper& shaper : shapers) shaper.advance(time);
        for (auto at = connections.begin(); at != connections.end();) {
            auto& [id, c] = *at++;  // end() below takes this one out
            if (!c.connected) continue;
            if (!write(c, 0) || !write(c, 1)) {
                end(id);
                continue;
            }
            if (c.passed_on[0] && c.passed_on[1]) {
                end_properly(id, c);
                continue;
            }
            await(id, c, 0);
            await(id, c, 1);
        }
        wake_for_next_event();
    }

    void wake_for_next_event() {
        std::optional<nanoseconds> next = shapers[0].next_event();
        if (const auto other = shapers[1].next_event(); other && (!next || *other < *next))
            next = other;
        if (!next) return;
        const nanoseconds at = std::max(*next, now() + kFinestWait);
        timer.expires_at(begun + std::chrono::duration_cast<Clock::duration>(at));
        timer.async_wait([this](const error_code& error) {
            if (!error) tick();
        });
    }

    using Clock = std::chrono::steady_clock;
    ThinLinkOptions options;
    asio::io_context io{1};
    tcp::acceptor acceptor;
    asio::steady_timer accept_pause, timer;
    tcp::endpoint target;
    std::array<Shaper, 2> shapers;
    std::map<ConnectionId, Connection> connections;
    std::array<std::byte, kReadBytes> scratch;
    Clock::time_point begun = Clock::now();
    std::uint64_t next_connection = 0;
    bool target_failing = false;
};

ThinLink::ThinLink(const ThinLinkOptions& options) : impl_(std::make_unique<Impl>(options)) {}

ThinLink::~ThinLink() {
    while (!impl_->connections.empty()) impl_->end(impl_->connections.begin()->first);
}

std::uint16_t ThinLink::port() const {
    return impl_->acceptor.local_endpoint().port();
}

void ThinLink::run(const std::function<bool()>& stop) {
    while (!stop()) impl_->io.run_for(kStopAsked);
}

}  // namespace isthmus::net
