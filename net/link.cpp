#include "net/link.hpp"

#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <zmq.hpp>

#include "base/check.hpp"
#include "net/address.hpp"
#include "net/gate.hpp"

namespace isthmus::net {

namespace {

/// How long a closing socket may still deliver what it queued, a last STOP for instance.
constexpr int kLingerMilliseconds = 1000;
constexpr int kHandshakeMilliseconds = 5000;
constexpr int kReconnectMilliseconds = 50;
constexpr int kReconnectMaxMilliseconds = 1000;
/// A connection without traffic is kept alive (proxies close idle ones), and one whose other end
/// vanished without a word is given up.
constexpr int kHeartbeatMilliseconds = 10'000;
constexpr int kHeartbeatTimeoutMilliseconds = 30'000;
/// CurveZMQ (RFC 26) wraps a message into a command of so many bytes more; its handshake's commands
/// are themselves up to about 500.
constexpr std::int64_t kCurveBytes = 33;
constexpr std::int64_t kCurveHandshakeBytes = 1024;

zmq::socket_type socket_type(LinkKind kind) {
    switch (kind) {
        case LinkKind::kServer:
            return zmq::socket_type::router;
        case LinkKind::kClient:
            return zmq::socket_type::dealer;
        case LinkKind::kSender:
            return zmq::socket_type::push;
        case LinkKind::kReceiver:
            return zmq::socket_type::pull;
    }
    CHECK(false);
}

}  // namespace

std::string to_string(const Refusal& r) {
    return fmt::format("{}{}: {}", r.address.empty() ? "somebody who was gone at once" : r.address,
                       r.public_key.empty() ? "" : " with key " + r.public_key, r.reason);
}

struct Context::Impl {
    explicit Impl(int io_threads) : zmq(io_threads), gate(zmq) {}
    zmq::context_t zmq;
    Gate gate;
};
Context::Context(int io_threads) : impl_(std::make_unique<Impl>(io_threads)) {}
Context::~Context() = default;
void Context::allow(Allowlist list) {
    impl_->gate.allow(std::move(list));
}
void Context::hold_unknown(std::chrono::milliseconds limit) {
    impl_->gate.hold_unknown(limit);
}
std::vector<Refusal> Context::take_refusals() {
    return impl_->gate.take_refusals();
}

WakeUp::WakeUp() : descriptor_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    CHECK(descriptor_ >= 0, "eventfd: {}", std::strerror(errno));
}
WakeUp::~WakeUp() {
    ::close(descriptor_);
}
void WakeUp::notify() {
    const std::uint64_t one = 1;
    // EAGAIN: the counter is full, so the waiter is awake already.
    if (::write(descriptor_, &one, sizeof one) < 0) CHECK(errno == EAGAIN);
}
void WakeUp::clear() {
    std::uint64_t count = 0;
    if (::read(descriptor_, &count, sizeof count) < 0) CHECK(errno == EAGAIN);
}

struct Message::Impl {
    zmq::message_t zmq;
};
Message::Message() : impl_(std::make_unique<Impl>()) {}
Message::~Message() = default;
Message::Message(Message&&) noexcept = default;
Message& Message::operator=(Message&&) noexcept = default;
std::span<const std::byte> Message::bytes() const {
    return {static_cast<const std::byte*>(impl_->zmq.data()), impl_->zmq.size()};
}

struct Link::Impl {
    zmq::socket_t socket;
    LinkKind kind = LinkKind::kClient;
    std::thread::id owner{};

    void assert_owner() {
        if (owner == std::thread::id()) owner = std::this_thread::get_id();
        CHECK(owner == std::this_thread::get_id(), "a socket is used by two threads");
    }
};

Link::Link(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Link::~Link() = default;

namespace {

void set_options(zmq::socket_t& s, LinkKind kind, const LinkOptions& options) {
    auto limit = static_cast<std::int64_t>(options.max_message_bytes);
    if (!options.security.own.empty()) limit = std::max(limit, kCurveHandshakeBytes) + kCurveBytes;
    s.set(zmq::sockopt::maxmsgsize, limit);
    s.set(zmq::sockopt::linger, kLingerMilliseconds);
    s.set(zmq::sockopt::handshake_ivl, kHandshakeMilliseconds);
    s.set(zmq::sockopt::reconnect_ivl, kReconnectMilliseconds);
    s.set(zmq::sockopt::reconnect_ivl_max, kReconnectMaxMilliseconds);
    s.set(zmq::sockopt::heartbeat_ivl, kHeartbeatMilliseconds);
    s.set(zmq::sockopt::heartbeat_timeout, kHeartbeatTimeoutMilliseconds);
    s.set(zmq::sockopt::sndhwm, options.queue_messages);
    s.set(zmq::sockopt::rcvhwm, options.queue_messages);
    if (options.socket_buffer_bytes > 0) {
        s.set(zmq::sockopt::sndbuf, options.socket_buffer_bytes);
        s.set(zmq::sockopt::rcvbuf, options.socket_buffer_bytes);
    }
    // A message to a peer that is gone is an answer (false), not silence.
    if (kind == LinkKind::kServer) s.set(zmq::sockopt::router_mandatory, 1);
}

/// REQUIRES  the keys are keys.
void set_keys(zmq::socket_t& s, const Security& security, bool listens) {
    if (security.own.empty()) return;
    s.set(zmq::sockopt::curve_publickey, security.own.public_key);
    s.set(zmq::sockopt::curve_secretkey, security.own.secret_key);
    if (listens) {
        s.set(zmq::sockopt::curve_server, true);
        s.set(zmq::sockopt::zap_domain, "isthmus");
    } else {
        s.set(zmq::sockopt::curve_serverkey, security.server_key);
    }
}

/// What is wrong with the keys for an address, or nothing.
std::string trouble_with_keys(const Security& security, bool local, bool listens) {
    const KeyPair& own = security.own;
    if (own.empty() && security.server_key.empty()) {
        if (local) return "";
        return "without keys only 127.0.0.1 and ipc are taken, since nothing is encrypted then; "
               "make "
               "keys with isthmus keys new";
    }
    if (!is_key(own.public_key) || !is_key(own.secret_key)) return "the own key is not a key pair";
    if (!listens && !is_key(security.server_key)) return "the other side's public key is not given";
    return "";
}

Error bind_error(const ListenAddress& at, const std::string& address, const zmq::error_t& e) {
    if (e.num() != EADDRINUSE) return Error{fmt::format("listening on {}: {}", address, e.what())};
    return Error{
        fmt::format("listening on {}: address in use, by {}; stop it, or listen on another "
                    "port",
                    address, holder_of_port(at.port))};
}

/// What ZeroMQ says it listens on, as a peer on this machine would connect to it.
std::string reachable(std::string endpoint) {
    const std::string all = std::string(kTcp) + "0.0.0.0:";
    if (endpoint.starts_with(all))
        endpoint.replace(0, all.size(), std::string(kTcp) + "127.0.0.1:");
    return endpoint;
}

}  // namespace

Result<std::unique_ptr<Link>> Link::listen(Context& context, LinkKind kind,
                                           const LinkOptions& options, const std::string& address) {
    const auto at = parse_listen_address(address);
    if (!at) return Error{"listening on " + at.error().message};
    const std::string trouble = trouble_with_keys(options.security, at->local, true);
    if (!trouble.empty()) return Error{fmt::format("listening on {}: {}", address, trouble)};
    if (at->ipc) {
        if (const Status free = check_ipc_path(at->path); !free)
            return Error{"listening on " + free.error().message};
    }
    try {
        auto impl = std::make_unique<Impl>();
        impl->socket = zmq::socket_t(context.impl_->zmq, socket_type(kind));
        impl->kind = kind;
        zmq::socket_t& s = impl->socket;
        set_options(s, kind, options);
        set_keys(s, options.security, true);
        if (const Status watched = context.impl_->gate.watch(s); !watched) return watched.error();
        s.bind(at->endpoint());
        if (at->ipc && ::chmod(at->path.c_str(), 0600) != 0) throw zmq::error_t();
        std::unique_ptr<Link> link(new Link(std::move(impl)));
        link->endpoint_ = reachable(link->impl_->socket.get(zmq::sockopt::last_endpoint));
        return link;
    } catch (const zmq::error_t& e) {
        return bind_error(*at, address, e);
    }
}

Result<std::unique_ptr<Link>> Link::connect(Context& context, LinkKind kind,
                                            const std::string& endpoint,
                                            const LinkOptions& options) {
    const auto local = check_endpoint(endpoint);
    if (!local) return local.error();
    const std::string trouble = trouble_with_keys(options.security, *local, false);
    if (!trouble.empty()) return Error{fmt::format("{}: {}", endpoint, trouble)};
    try {
        auto impl = std::make_unique<Impl>();
        impl->socket = zmq::socket_t(context.impl_->zmq, socket_type(kind));
        impl->kind = kind;
        set_options(impl->socket, kind, options);
        set_keys(impl->socket, options.security, false);
        impl->socket.connect(endpoint);
        std::unique_ptr<Link> link(new Link(std::move(impl)));
        link->endpoint_ = endpoint;
        return link;
    } catch (const zmq::error_t& e) {
        return Error{fmt::format("{}: {}", endpoint, e.what())};
    }
}

int Link::port() const {
    if (endpoint_.starts_with(kIpc)) return 0;
    return parse_host_port(std::string_view(endpoint_).substr(kTcp.size())).value().port;
}

bool Link::send(std::span<const std::byte> first, std::span<const std::byte> second,
                const PeerId& to) {
    impl_->assert_owner();
    CHECK(to.empty() == (impl_->kind != LinkKind::kServer));
    zmq::message_t message(first.size() + second.size());
    std::copy(first.begin(), first.end(), static_cast<std::byte*>(message.data()));
    std::copy(second.begin(), second.end(), static_cast<std::byte*>(message.data()) + first.size());
    try {
        if (impl_->kind == LinkKind::kServer) {
            zmq::message_t id(to.data(), to.size());
            const auto more = zmq::send_flags::dontwait | zmq::send_flags::sndmore;
            if (!impl_->socket.send(id, more)) return false;
        }
        return impl_->socket.send(message, zmq::send_flags::dontwait).has_value();
    } catch (const zmq::error_t& e) {
        if (e.num() == EHOSTUNREACH || e.num() == EINTR) return false;
        CHECK(false, "zmq_send: {}", e.what());
    }
}

namespace {

std::string property(const zmq::message_t& message, const char* name) {
    const char* value = zmq_msg_gets(message.handle(), name);
    return value ? value : "";
}

}  // namespace

std::optional<Message> Link::receive() {
    impl_->assert_owner();
    try {
        zmq::message_t part;
        Message message;
        if (!impl_->socket.recv(part, zmq::recv_flags::dontwait)) return std::nullopt;
        if (impl_->kind == LinkKind::kServer) {
            message.from_ = part.to_string();
            if (!part.more()) return std::nullopt;
            // Parts of one message arrive together.
            CHECK(impl_->socket.recv(part, zmq::recv_flags::dontwait));
        }
        // We send one part; a stranger's further parts are read and dropped with the whole message.
        bool foreign = false;
        zmq::message_t rest;
        for (bool more = part.more(); more; more = rest.more()) {
            foreign = true;
            CHECK(impl_->socket.recv(rest, zmq::recv_flags::dontwait));
        }
        message.sender_name_ = property(part, "User-Id");
        message.address_ = property(part, "Peer-Address");
        if (foreign) part.rebuild();
        message.impl_->zmq = std::move(part);
        return message;
    } catch (const zmq::error_t& e) {
        if (e.num() == EINTR) return std::nullopt;
        CHECK(false, "zmq_recv: {}", e.what());
    }
}

void wait(std::span<const Interest> interests, const WakeUp* wake_up,
          std::chrono::milliseconds limit) {
    std::vector<zmq::pollitem_t> items;
    for (const Interest& i : interests) {
        i.link->impl_->assert_owner();
        const int events = (i.readable ? ZMQ_POLLIN : 0) | (i.writable ? ZMQ_POLLOUT : 0);
        if (events != 0) {
            items.push_back({i.link->impl_->socket.handle(), 0, static_cast<short>(events), 0});
        }
    }
    if (wake_up) items.push_back({nullptr, wake_up->descriptor(), ZMQ_POLLIN, 0});
    try {
        zmq::poll(items, std::max(limit, std::chrono::milliseconds(0)));
    } catch (const zmq::error_t& e) {
        CHECK(e.num() == EINTR, "zmq_poll: {}", e.what());
    }
}

}  // namespace isthmus::net
