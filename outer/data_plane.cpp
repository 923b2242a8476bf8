#include "outer/data_plane.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "base/check.hpp"
#include "base/record.hpp"

namespace isthmus::outer {

namespace {

/// Kinds of frames, after those of messages.
constexpr std::uint16_t kWant = kNumMessageKinds;      // name of the asker, Want
constexpr std::uint16_t kItem = kNumMessageKinds + 1;  // u16 length of a packed Want, it, the bytes
constexpr std::uint16_t kNone = kNumMessageKinds + 2;  // Want
constexpr std::uint16_t kLater =
    kNumMessageKinds + 3;  // nothing: "I live, and have not got it yet"
constexpr std::uint16_t kNumKinds = kNumMessageKinds + 4;

/// A packed Want and its length.
constexpr std::size_t kWantBytes = 256;
/// Messages taken from one socket in one pump.
constexpr int kAtOnce = 64;
/// Wants that wait for what is not there yet, over all peers.
constexpr std::size_t kMaxWaiting = 16'384;
/// Answers in a socket's queue; what askers' windows allow is less.
constexpr int kQueueMessages = 8192;

struct AskedBy {
    std::string name;
    Want want;
    template <class A>
    void serialize(A& a) {
        a(name, want);
    }
};

std::string key_of(const Want& want) {
    const auto bytes = pack(want);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

struct Waiting {
    net::PeerId connection;
    std::string name;
    Want want;
};

struct Queued {
    Want want;
    std::size_t bytes = 0;
};
struct Out {
    Want want;
    std::size_t bytes = 0;
    std::size_t stream = 0;
};
struct Peer {
    PeerInfo info;
    std::vector<std::unique_ptr<net::Link>> streams;
    std::vector<std::size_t> stream_bytes;  ///< asked for over each, not yet here
    std::deque<Queued> queue;
    std::map<std::string, Out> out;  ///< by packed want
    std::size_t out_bytes = 0;
    TimePoint heard{}, asked{};
};

}  // namespace

struct DataPlane::Impl {
    Impl(net::Context& c, const Options& o, Serve s, Log& l)
        : context(c), options(o), serve(std::move(s)), log(l) {}

    net::Context& context;
    Options options;
    Serve serve;
    Log& log;
    std::unique_ptr<net::Link> server;
    std::string endpoint;
    std::vector<std::unique_ptr<Peer>> peers;  ///< ascending site id
    std::deque<Waiting> waiting;
    bool may_serve = false;
    Traffic traffic;
    std::size_t in_flight = 0;
    std::set<std::string> complaints;

    net::FrameRules rules() const {
        return {.run = options.run,
                .num_kinds = kNumKinds,
                .max_payload_bytes = options.max_item_bytes + kWantBytes};
    }
    net::LinkOptions link_options() const {
        return {.max_message_bytes = net::kFrameHeaderBytes + options.max_item_bytes + kWantBytes,
                .queue_messages = kQueueMessages,
                .security = {.own = options.keys, .server_key = {}}};
    }

    void complain(const std::string& who, const std::string& why) {
        const std::string line = who + ": " + why;
        if (complaints.size() < 256 && complaints.insert(line).second) log.warn("data: {}", line);
    }

    Status listen() {
        auto listening =
            net::Link::listen(context, net::LinkKind::kServer, link_options(), options.listen);
        if (!listening) return listening.error();
        server = std::move(*listening);
        endpoint = server->endpoint();
        if (options.advertise.empty()) return Done{};
        const bool port = options.advertise.find(':') != std::string::npos;
        endpoint = "tcp://" + options.advertise + (port ? "" : fmt::format(":{}", server->port()));
        return Done{};
    }

    // ---- answering ----

    bool is_peer(const std::string& name) const {
        return std::any_of(peers.begin(), peers.end(),
                           [&](const auto& p) { return p->info.name == name; });
    }

    void take_wants() {
        for (int i = 0; i < kAtOnce; ++i) {
            const auto message = server->receive();
            if (!message) return;
            const auto frame = net::parse_frame(message->bytes(), rules());
            if (!frame) {
                complain(message->address(), frame.error().message);
                continue;
            }
            auto asked = unpack<AskedBy>(frame->payload);
            if (frame->kind != kWant || !asked) {
                complain(message->address(),
                         asked ? "it sent what only answers have" : asked.error().message);
                continue;
            }
            if (!options.keys.empty()) asked->name = message->sender_name();
            answer({message->from(), std::move(asked->name), asked->want});
        }
    }

    void answer(Waiting w) {
        if (!is_peer(w.name))
            return complain(w.name, "it is no peer of this site now; its wants are not answered");
        Served served = serve(w.want);
        if (const auto* bytes = std::get_if<std::span<const std::byte>>(&served)) {
            send_item(w, *bytes);
        } else if (std::holds_alternative<NoSuchItem>(served)) {
            send(w.connection, kNone, pack(w.want));
        } else if (waiting.size() < kMaxWaiting) {
            send(w.connection, kLater, {});
            const auto same = [&](const Waiting& o) {
                return o.connection == w.connection && o.want == w.want;
            };
            if (std::none_of(waiting.begin(), waiting.end(), same)) waiting.push_back(std::move(w));
        }
    }

    void send_item(const Waiting& w, std::span<const std::byte> bytes) {
        CHECK(bytes.size() <= options.max_item_bytes, "an item of {} bytes", bytes.size());
        const auto want = pack(w.want);
        std::vector<std::byte> payload(2 + want.size() + bytes.size());
        payload[0] = static_cast<std::byte>(want.size() & 0xff);
        payload[1] = static_cast<std::byte>(want.size() >> 8);
        std::copy(want.begin(), want.end(), payload.begin() + 2);
        std::copy(bytes.begin(), bytes.end(),
                  payload.begin() + 2 + static_cast<std::ptrdiff_t>(want.size()));
        // A message that cannot be sent is lost like one on the way: it is asked for again.
        if (!send(w.connection, kItem, payload)) return;
        traffic.bytes_sent += bytes.size();
        ++traffic.items_sent;
    }

    bool send(const net::PeerId& to, std::uint16_t kind, std::span<const std::byte> payload) {
        std::array<std::byte, net::kFrameHeaderBytes> header;
        net::write_frame_header(header, options.run,
                                {.kind = kind, .sender = SiteId(0), .payload = payload});
        return server->send(header, payload, to);
    }

    void serve_waiting() {
        if (!std::exchange(may_serve, false)) return;
        for (std::size_t left = waiting.size(); left > 0; --left) {
            Waiting w = std::move(waiting.front());
            waiting.pop_front();
            const Served served = serve(w.want);
            if (const auto* bytes = std::get_if<std::span<const std::byte>>(&served)) {
                if (is_peer(w.name)) send_item(w, *bytes);
            } else if (std::holds_alternative<NoSuchItem>(served)) {
                send(w.connection, kNone, pack(w.want));
            } else {
                waiting.push_back(std::move(w));
            }
        }
    }

    // ---- asking ----

    std::unique_ptr<Peer> connect(const PeerInfo& info) {
        auto peer = std::make_unique<Peer>();
        peer->info = info;
        const std::string through = options.route ? options.route(info) : info.endpoint;
        net::LinkOptions link = link_options();
        if (!options.keys.empty()) link.security.server_key = info.public_key;
        for (int i = 0; i < options.streams; ++i) {
            auto connected = net::Link::connect(context, net::LinkKind::kClient, through, link);
            if (!connected) {
                complain(info.name, connected.error().message);
                break;
            }
            peer->streams.push_back(std::move(*connected));
            peer->stream_bytes.push_back(0);
        }
        return peer;
    }

    void drop(Peer& peer) { in_flight -= peer.out_bytes; }

    void ask_more(Peer& peer, TimePoint now) {
        if (peer.streams.empty()) return;
        const std::size_t window = options.window_bytes / peers.size();
        while (!peer.queue.empty() &&
               (peer.out_bytes + peer.queue.front().bytes <= window || peer.out.size() < 2)) {
            const Queued q = std::move(peer.queue.front());
            peer.queue.pop_front();
            const auto least = std::min_element(peer.stream_bytes.begin(), peer.stream_bytes.end());
            const auto stream = static_cast<std::size_t>(least - peer.stream_bytes.begin());
            if (peer.out.empty()) peer.heard = peer.asked = now;
            if (!peer.out.emplace(key_of(q.want), Out{q.want, q.bytes, stream}).second) continue;
            peer.stream_bytes[stream] += q.bytes;
            peer.out_bytes += q.bytes;
            in_flight += q.bytes;
            traffic.peak_in_flight_bytes = std::max(traffic.peak_in_flight_bytes, in_flight);
            send_want(peer, stream, q.want);
        }
    }

    void send_want(Peer& peer, std::size_t stream, const Want& want) {
        const auto payload = pack(AskedBy{options.self, want});
        std::array<std::byte, net::kFrameHeaderBytes> header;
        net::write_frame_header(header, options.run,
                                {.kind = kWant, .sender = SiteId(0), .payload = payload});
        peer.streams[stream]->send(header, payload);
    }

    void ask_again(Peer& peer, TimePoint now) {
        if (peer.out.empty() || now - std::max(peer.heard, peer.asked) < options.ask_again) return;
        peer.asked = now;
        for (auto& [key, out] : peer.out) {
            ++traffic.asked_again;
            send_want(peer, out.stream, out.want);
        }
    }

    void take_answers(Peer& peer, std::vector<Arrived>& arrived, TimePoint now) {
        for (const auto& link : peer.streams) {
            for (int i = 0; i < kAtOnce; ++i) {
                const auto message = link->receive();
                if (!message) break;
                const auto frame = net::parse_frame(message->bytes(), rules());
                if (!frame) {
                    complain(peer.info.name, frame.error().message);
                    continue;
                }
                peer.heard = now;
                if (frame->kind != kLater) take_answer(peer, *frame, arrived);
            }
        }
    }

    void take_answer(Peer& peer, const net::Frame& frame, std::vector<Arrived>& arrived) {
        auto want_bytes = frame.payload;
        auto bytes = std::span<const std::byte>();
        if (frame.kind == kItem) {
            if (want_bytes.size() < 2) return complain(peer.info.name, "an item without a name");
            const std::size_t n = std::to_integer<std::size_t>(want_bytes[0]) |
                                  std::to_integer<std::size_t>(want_bytes[1]) << 8;
            if (n + 2 > want_bytes.size())
                return complain(peer.info.name, "an item whose name is longer than it");
            bytes = want_bytes.subspan(2 + n);
            want_bytes = want_bytes.subspan(2, n);
        } else if (frame.kind != kNone) {
            return complain(peer.info.name, "an answer of no known kind");
        }
        const std::string key(reinterpret_cast<const char*>(want_bytes.data()), want_bytes.size());
        const auto found = peer.out.find(key);
        if (found == peer.out.end()) return;  // twice, or not wanted any more
        Out out = std::move(found->second);
        settle(peer, out);
        peer.out.erase(found);
        traffic.bytes_received += bytes.size();
        ++traffic.items_received;
        arrived.push_back({.from = peer.info.site,
                           .want = out.want,
                           .bytes = {bytes.begin(), bytes.end()},
                           .found = frame.kind == kItem});
    }

    void settle(Peer& peer, const Out& out) {
        peer.out_bytes -= out.bytes;
        peer.stream_bytes[out.stream] -= out.bytes;
        in_flight -= out.bytes;
    }
};

DataPlane::DataPlane(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DataPlane::~DataPlane() = default;

Result<std::unique_ptr<DataPlane>> DataPlane::create(net::Context& context, const Options& options,
                                                     Serve serve, Log& log) {
    CHECK(options.streams > 0 && options.window_bytes > 0 && serve);
    auto impl = std::make_unique<Impl>(context, options, std::move(serve), log);
    if (const Status status = impl->listen(); !status) return status.error();
    return std::unique_ptr<DataPlane>(new DataPlane(std::move(impl)));
}

const std::string& DataPlane::endpoint() const {
    return impl_->endpoint;
}

void DataPlane::set_peers(const std::vector<PeerInfo>& infos) {
    std::vector<std::unique_ptr<Peer>> next;
    for (const PeerInfo& info : infos) {
        const auto known = std::find_if(impl_->peers.begin(), impl_->peers.end(),
                                        [&](const auto& p) { return p && p->info == info; });
        next.push_back(known == impl_->peers.end() ? impl_->connect(info) : std::move(*known));
    }
    for (const auto& gone : impl_->peers) {
        if (gone) impl_->drop(*gone);
    }
    std::sort(next.begin(), next.end(),
              [](const auto& a, const auto& b) { return a->info.site < b->info.site; });
    impl_->peers = std::move(next);
}

void DataPlane::ask(SiteId site, const Want& want, std::size_t bytes) {
    for (const auto& peer : impl_->peers) {
        if (peer->info.site == site) peer->queue.push_back({want, bytes});
    }
}

void DataPlane::forget(const std::function<bool(const Want&)>& which) {
    for (const auto& peer : impl_->peers) {
        std::erase_if(peer->queue, [&](const Queued& q) { return which(q.want); });
        for (auto it = peer->out.begin(); it != peer->out.end();) {
            if (!which(it->second.want)) {
                ++it;
                continue;
            }
            impl_->settle(*peer, it->second);
            it = peer->out.erase(it);
        }
    }
}

void DataPlane::forget_all() {
    forget([](const Want&) { return true; });
}

std::vector<DataPlane::Arrived> DataPlane::pump(TimePoint now) {
    std::vector<Arrived> arrived;
    impl_->take_wants();
    impl_->serve_waiting();
    for (const auto& peer : impl_->peers) {
        impl_->take_answers(*peer, arrived, now);
        impl_->ask_again(*peer, now);
        impl_->ask_more(*peer, now);
    }
    return arrived;
}

void DataPlane::may_serve_now() {
    impl_->may_serve = true;
}

std::vector<SiteId> DataPlane::silent_peers(TimePoint now, std::chrono::milliseconds limit) const {
    std::vector<SiteId> silent;
    for (const auto& peer : impl_->peers) {
        if (!peer->out.empty() && now - peer->heard > limit) silent.push_back(peer->info.site);
    }
    return silent;
}

void DataPlane::add_interests(std::vector<net::Interest>& interests) const {
    interests.push_back({.link = impl_->server.get()});
    for (const auto& peer : impl_->peers) {
        for (const auto& link : peer->streams) interests.push_back({.link = link.get()});
    }
}

bool DataPlane::busy() const {
    if (impl_->may_serve && !impl_->waiting.empty()) return true;
    const std::size_t window =
        impl_->options.window_bytes / std::max<std::size_t>(1, impl_->peers.size());
    return std::any_of(impl_->peers.begin(), impl_->peers.end(), [&](const auto& p) {
        return !p->queue.empty() && !p->streams.empty() &&
               (p->out_bytes + p->queue.front().bytes <= window || p->out.size() < 2);
    });
}

const DataPlane::Traffic& DataPlane::traffic() const {
    return impl_->traffic;
}

}  // namespace isthmus::outer
