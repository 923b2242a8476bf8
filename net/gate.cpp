#include "net/gate.hpp"

#include <arpa/inet.h>
#include <pthread.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <tuple>
#include <zmq.hpp>

#include "base/check.hpp"

namespace isthmus::net {

namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kZapEndpoint = "inproc://zeromq.zap.01";
constexpr std::size_t kMostRefusals = 64;
/// Different strangers that are remembered, so that each is reported once; further ones are not
/// reported until the list changes, or a stranger who invents keys could fill the log.
constexpr std::size_t kMostRemembered = 1024;
constexpr std::size_t kKeyBytes = 32;
/// Unknown keys that are held; further ones are refused at once.
constexpr std::size_t kMostHeld = 256;
constexpr const char* kNoHandshake =
    "did not complete the handshake: another program, a port scan, a side without keys, or one "
    "that "
    "expects another key here";

/// All parts of one message; nothing if none is here.
std::vector<std::string> receive_parts(zmq::socket_t& socket) {
    std::vector<std::string> parts;
    zmq::message_t part;
    do {
        if (!socket.recv(part, zmq::recv_flags::dontwait)) return {};
        parts.push_back(part.to_string());
    } while (part.more());
    return parts;
}

/// Address of the other end of a connection. The descriptor is another thread's and may be gone.
std::string peer_of(int descriptor) {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    if (::getpeername(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "";
    char text[INET6_ADDRSTRLEN] = {};
    if (address.ss_family == AF_INET) {
        ::inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in&>(address).sin_addr, text, sizeof text);
    } else if (address.ss_family == AF_UNIX) {
        return "this machine";
    }
    return text;
}

/// The refusals that were not fetched yet.
/// THREAD  safe.
class Book {
  public:
    void allow(Allowlist list) {
        const std::lock_guard lock(mutex_);
        if (list == list_) return;
        list_ = std::move(list);
        remembered_.clear();
    }
    /// The key's name; "" if it is not on the list.
    std::string name_of(const std::string& public_key) {
        const std::lock_guard lock(mutex_);
        const auto found = list_.find(public_key);
        return found == list_.end() ? "" : found->second;
    }
    void note(Refusal refusal) {
        const std::lock_guard lock(mutex_);
        if (refusals_.size() >= kMostRefusals || remembered_.size() >= kMostRemembered) return;
        if (!remembered_.emplace(refusal.address, refusal.public_key).second) return;
        refusals_.push_back(std::move(refusal));
    }
    std::vector<Refusal> take() {
        const std::lock_guard lock(mutex_);
        return std::exchange(refusals_, {});
    }

  private:
    std::mutex mutex_;
    Allowlist list_;
    std::vector<Refusal> refusals_;
    std::set<std::pair<std::string, std::string>> remembered_;
};

/// What the monitor of one listening socket tells. ZeroMQ does not say which connection completed
/// its handshake, only how many did; so a connection that ends is blamed only if that is certain.
class Monitor {
  public:
    explicit Monitor(zmq::socket_t socket) : socket_(std::move(socket)) {}
    zmq::socket_t& socket() { return socket_; }

    /// Takes all events; false once the socket is closed.
    bool hear(Book& book) {
        for (;;) {
            const auto parts = receive_parts(socket_);
            if (parts.empty()) return true;
            std::uint16_t event = 0;
            std::int32_t value = 0;
            CHECK(parts[0].size() == sizeof event + sizeof value);
            std::memcpy(&event, parts[0].data(), sizeof event);
            std::memcpy(&value, parts[0].data() + sizeof event, sizeof value);
            if (event == ZMQ_EVENT_MONITOR_STOPPED) return false;
            take(event, value, book);
        }
    }

  private:
    void take(int event, int value, Book& book) {
        switch (event) {
            case ZMQ_EVENT_ACCEPTED:
                young_[value] = peer_of(value);
                break;
            case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
                if (++completed_ >= young_.size()) grow_up();
                break;
            case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
            case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
                failed_ = true;
                break;
            case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
                refused_ = true;
                break;
            case ZMQ_EVENT_DISCONNECTED:
                disconnected(value, book);
                break;
            default:
                break;
        }
    }
    void disconnected(int descriptor, Book& book) {
        const bool failed = std::exchange(failed_, false);
        // Judged by its key: that is noted.
        const bool refused = std::exchange(refused_, false);
        const auto found = young_.find(descriptor);
        if (found == young_.end()) return;
        if (!refused && (failed || completed_ == 0))
            book.note({found->second, "", kNoHandshake});
        else if (!refused)
            --completed_;
        young_.erase(found);
        if (completed_ >= young_.size()) grow_up();
    }
    void grow_up() {
        young_.clear();
        completed_ = 0;
    }

    zmq::socket_t socket_;
    std::map<int, std::string> young_;  ///< descriptor -> address: handshake perhaps not complete
    std::size_t completed_ = 0;         ///< so many of them have completed it
    bool failed_ = false, refused_ = false;  ///< the next that disconnects is meant
};

}  // namespace

struct Gate::Impl {
    explicit Impl(zmq::context_t& given) : context(given) {}

    void start() {
        zap = zmq::socket_t(context, zmq::socket_type::router);
        zap.set(zmq::sockopt::linger, 0);
        zap.bind(kZapEndpoint);
        // Signals are for the threads that look after them.
        sigset_t all, before;
        sigfillset(&all);
        CHECK(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
        thread = std::thread([this] { run(); });
        CHECK(pthread_sigmask(SIG_SETMASK, &before, nullptr) == 0);
    }

    void run() {
        try {
            for (;;) turn();
        } catch (const zmq::error_t& e) {
            CHECK(e.num() == ETERM, "the thread that checks keys: {}", e.what());
        }
        monitors.clear();
        zap.close();
    }

    /// Waits for something and does it. Throws ETERM when the context is shut down.
    void turn() {
        std::vector<zmq::pollitem_t> items{{nullptr, wake_up.descriptor(), ZMQ_POLLIN, 0},
                                           {zap.handle(), 0, ZMQ_POLLIN, 0}};
        for (Monitor& monitor : monitors)
            items.push_back({monitor.socket().handle(), 0, ZMQ_POLLIN, 0});
        zmq::poll(items, until_next_expiry());
        if (items[0].revents != 0) {
            wake_up.clear();
            const std::lock_guard lock(mutex);
            for (Monitor& monitor : arrived) monitors.push_back(std::move(monitor));
            arrived.clear();
        }
        take_questions();
        answer_questions();
        std::erase_if(monitors, [this](Monitor& monitor) { return !monitor.hear(book); });
    }

    /// A question about a key (RFC 27), as it came: identity of the asking socket and an empty
    /// part, then version, request id, domain, address, identity, mechanism, credentials.
    struct Question {
        std::vector<std::string> parts;
        std::string public_key;
        Clock::time_point expires;
        const std::string& address() const { return parts[5]; }
    };

    void take_questions() {
        for (;;) {
            Question q{receive_parts(zap), "", Clock::now() + hold.load()};
            if (q.parts.empty()) return;
            if (q.parts.size() == 9 && q.parts[7] == "CURVE" && q.parts[8].size() == kKeyBytes) {
                char key[kKeyBytes * 5 / 4 + 1] = {};
                const auto* bytes = reinterpret_cast<const std::uint8_t*>(q.parts[8].data());
                CHECK(zmq_z85_encode(key, bytes, kKeyBytes) != nullptr);
                q.public_key = key;
            }
            CHECK(q.parts.size() >= 6, "a question about a key in {} parts", q.parts.size());
            if (held.size() >= kMostHeld) q.expires = Clock::time_point::min();
            held.push_back(std::move(q));
        }
    }

    /// Answers what can be answered now, and holds the rest.
    void answer_questions() {
        const auto now = Clock::now();
        std::erase_if(held, [&](const Question& q) {
            const std::string name = book.name_of(q.public_key);
            if (name.empty() && now < q.expires) return false;
            if (name.empty())
                book.note({q.address(), q.public_key, "its key is not among those that may join"});
            answer(q, name);
            return true;
        });
    }

    void answer(const Question& q, const std::string& name) {
        // 300, "temporary": the other side goes on trying, so that a key that is added gets in.
        // After 400 ZeroMQ's client gives up for good.
        const bool in = !name.empty();
        const std::string answers[] = {
            q.parts[0], "", "1.0", q.parts[3], in ? "200" : "300", in ? "" : "unknown key",
            name,       ""};
        for (const std::string& part : answers) {
            const bool last = &part == std::end(answers) - 1;
            const auto more = last ? zmq::send_flags::none : zmq::send_flags::sndmore;
            // A session that asked has room for its one answer; one that is gone needs none.
            CHECK(zap.send(zmq::buffer(part), more | zmq::send_flags::dontwait));
        }
    }

    std::chrono::milliseconds until_next_expiry() const {
        if (held.empty()) return std::chrono::milliseconds(-1);
        const auto first = std::min_element(
            held.begin(), held.end(),
            [](const Question& a, const Question& b) { return a.expires < b.expires; });
        const auto left =
            std::chrono::ceil<std::chrono::milliseconds>(first->expires - Clock::now());
        return std::max(left, std::chrono::milliseconds(0));
    }

    zmq::context_t& context;
    Book book;
    zmq::socket_t zap;              ///< the thread's once it runs
    std::vector<Monitor> monitors;  ///< the thread's
    std::vector<Question> held;     ///< the thread's
    std::atomic<std::chrono::milliseconds> hold{std::chrono::milliseconds(0)};
    WakeUp wake_up;
    std::mutex mutex;  ///< guards what follows
    std::vector<Monitor> arrived;
    int num_watched = 0;
    std::thread thread;
};

Gate::Gate(zmq::context_t& context) : impl_(std::make_unique<Impl>(context)) {}
Gate::~Gate() {
    if (!impl_->thread.joinable()) return;
    impl_->context.shutdown();
    impl_->thread.join();
}

void Gate::allow(Allowlist list) {
    impl_->book.allow(std::move(list));
    impl_->wake_up.notify();  // who is held may be on it
}
void Gate::hold_unknown(std::chrono::milliseconds limit) {
    impl_->hold = limit;
}
std::vector<Refusal> Gate::take_refusals() {
    return impl_->book.take();
}

Status Gate::watch(zmq::socket_t& socket) {
    const std::lock_guard lock(impl_->mutex);
    try {
        if (!impl_->thread.joinable()) impl_->start();
        const std::string endpoint = fmt::format("inproc://monitor.{}", impl_->num_watched++);
        constexpr int kEvents = ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED |
                                ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH |
                                ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                                ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_MONITOR_STOPPED;
        if (zmq_socket_monitor(socket.handle(), endpoint.c_str(), kEvents) != 0)
            throw zmq::error_t();
        // Connected before any event can come: ZeroMQ would block on one that nobody can take. The
        // mutex hands the socket over to the thread.
        zmq::socket_t reader(impl_->context, zmq::socket_type::pair);
        reader.set(zmq::sockopt::linger, 0);
        reader.connect(endpoint);
        impl_->arrived.emplace_back(std::move(reader));
        impl_->wake_up.notify();
        return Done{};
    } catch (const zmq::error_t& e) {
        return Error{fmt::format("starting to check keys: {}", e.what())};
    }
}

}  // namespace isthmus::net
