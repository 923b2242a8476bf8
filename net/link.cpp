#include "net/link.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <zmq.hpp>

#include "base/check.hpp"

namespace isthmus::net {

namespace {

constexpr std::string_view kLoopback = "tcp://127.0.0.1:";
/// How long a closing socket may still deliver what it queued, a last STOP for instance.
constexpr int kLingerMilliseconds = 1000;
constexpr int kHandshakeMilliseconds = 5000;
constexpr int kReconnectMilliseconds = 50;
constexpr int kReconnectMaxMilliseconds = 1000;

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

struct Context::Impl {
    zmq::context_t zmq{1};
};
Context::Context() : impl_(std::make_unique<Impl>()) {}
Context::~Context() = default;

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

Result<std::unique_ptr<Link>> Link::open(Context& context, LinkKind kind,
                                         const LinkOptions& options, std::string_view endpoint) {
    try {
        auto impl = std::make_unique<Impl>();
        impl->socket = zmq::socket_t(context.impl_->zmq, socket_type(kind));
        impl->kind = kind;
        zmq::socket_t& s = impl->socket;
        s.set(zmq::sockopt::linger, kLingerMilliseconds);
        s.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(options.max_message_bytes));
        s.set(zmq::sockopt::handshake_ivl, kHandshakeMilliseconds);
        s.set(zmq::sockopt::reconnect_ivl, kReconnectMilliseconds);
        s.set(zmq::sockopt::reconnect_ivl_max, kReconnectMaxMilliseconds);
        s.set(zmq::sockopt::sndhwm, options.queue_messages);
        s.set(zmq::sockopt::rcvhwm, options.queue_messages);
        // A message to a peer that is gone is an answer (false), not silence.
        if (kind == LinkKind::kServer) s.set(zmq::sockopt::router_mandatory, 1);
        if (endpoint.empty()) {
            s.bind(std::string(kLoopback) + "*");
        } else {
            s.connect(std::string(endpoint));
        }
        std::unique_ptr<Link> link(new Link(std::move(impl)));
        link->endpoint_ = link->impl_->socket.get(zmq::sockopt::last_endpoint);
        return link;
    } catch (const zmq::error_t& e) {
        return Error{fmt::format("{}: {}", endpoint.empty() ? "listening on 127.0.0.1" : endpoint,
                                 e.what())};
    }
}

Result<std::unique_ptr<Link>> Link::listen(Context& context, LinkKind kind,
                                           const LinkOptions& options) {
    return open(context, kind, options, {});
}

Result<std::unique_ptr<Link>> Link::connect(Context& context, LinkKind kind,
                                            const std::string& endpoint,
                                            const LinkOptions& options) {
    if (!std::string_view(endpoint).starts_with(kLoopback)) {
        return Error{fmt::format("{}: only {}PORT is taken, since this build does not encrypt yet",
                                 endpoint, kLoopback)};
    }
    return open(context, kind, options, endpoint);
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
