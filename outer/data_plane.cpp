#include "outer/data_plane.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <set>

#include "base/check.hpp"
#include "base/record.hpp"
#include "outer/data_server.hpp"
#include "outer/data_wire.hpp"

namespace isthmus::outer {

namespace {

/// The wait before asking again doubles up to so many times ask_again: on a slow link answers are
/// late, not lost, and each repeated want would be answered twice.
constexpr int kMaxPatience = 8;
/// A pump that comes so many ask_agains after the last: this process itself stood still, and that
/// time is no silence of others.
constexpr int kStoodStill = 2;

std::string key_of(const Want& want) {
    const auto bytes = pack(want);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

struct Queued {
    std::string key;
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
    std::set<std::string> queued;    ///< keys of the queue
    std::map<std::string, Out> out;  ///< by packed want
    std::size_t out_bytes = 0;
    TimePoint heard{}, asked{};  ///< last answer; last time that wants were sent after a silence
    int patience = 1;            ///< in ask_agains

    bool wants() const { return !queue.empty() || !out.empty(); }
};

}  // namespace

struct DataPlane::Impl {
    Impl(net::Context& c, const Options& o, Serve s, Log& l)
        : context(c),
          options(o),
          wire{o.run, o.max_item_bytes, o.keys},
          complaints(l),
          server(wire, std::move(s), complaints, traffic) {}

    net::Context& context;
    Options options;
    DataWire wire;
    Complaints complaints;
    Traffic traffic;
    DataServer server;
    std::string endpoint;
    std::vector<std::unique_ptr<Peer>> peers;  ///< ascending site id
    std::vector<Arrived> unanswerable;         ///< wants of those who are no peers
    std::size_t in_flight = 0;
    TimePoint pumped{};

    Status listen() {
        if (const Status status = server.listen(context, options.listen); !status) return status;
        endpoint = server.link().endpoint();
        if (options.advertise.empty()) return Done{};
        const bool port = options.advertise.find(':') != std::string::npos;
        endpoint =
            "tcp://" + options.advertise + (port ? "" : fmt::format(":{}", server.link().port()));
        return Done{};
    }

    std::unique_ptr<Peer> connect(const PeerInfo& info) {
        auto peer = std::make_unique<Peer>();
        peer->info = info;
        const std::string through = options.route ? options.route(info) : info.endpoint;
        net::LinkOptions link = wire.link_options();
        if (!options.keys.empty()) link.security.server_key = info.public_key;
        for (int i = 0; i < options.streams; ++i) {
            auto connected = net::Link::connect(context, net::LinkKind::kClient, through, link);
            if (!connected) {
                complaints.about(info.name, connected.error().message);
                break;
            }
            peer->streams.push_back(std::move(*connected));
            peer->stream_bytes.push_back(0);
        }
        return peer;
    }

    void refuse(SiteId site, const Want& want) {
        unanswerable.push_back({.from = site, .want = want, .bytes = {}, .found = false});
    }

    void let_go(Peer& peer) {
        in_flight -= peer.out_bytes;
        for (const auto& [key, out] : peer.out) refuse(peer.info.site, out.want);
        for (const Queued& q : peer.queue) refuse(peer.info.site, q.want);
    }

    bool has_room(const Peer& peer) const {
        const std::size_t window = options.window_bytes / peers.size();
        return !peer.queue.empty() && !peer.streams.empty() &&
               (peer.out_bytes + peer.queue.front().bytes <= window || peer.out.size() < 2);
    }

    void ask_more(Peer& peer, TimePoint now) {
        while (has_room(peer)) {
            Queued q = std::move(peer.queue.front());
            peer.queue.pop_front();
            peer.queued.erase(q.key);
            const auto least = std::min_element(peer.stream_bytes.begin(), peer.stream_bytes.end());
            const auto stream = static_cast<std::size_t>(least - peer.stream_bytes.begin());
            if (peer.out.empty()) hear(peer, now);
            peer.out.emplace(std::move(q.key), Out{q.want, q.bytes, stream});
            peer.stream_bytes[stream] += q.bytes;
            peer.out_bytes += q.bytes;
            in_flight += q.bytes;
            traffic.peak_in_flight_bytes = std::max(traffic.peak_in_flight_bytes, in_flight);
            send_want(peer, stream, q.want);
        }
    }

    static void hear(Peer& peer, TimePoint now) {
        peer.heard = peer.asked = now;
        peer.patience = 1;
    }

    void send_want(Peer& peer, std::size_t stream, const Want& want) {
        const auto payload = pack(AskedBy{options.self, want});
        std::array<std::byte, net::kFrameHeaderBytes> header;
        net::write_frame_header(header, options.run,
                                {.kind = kWant, .sender = SiteId(0), .payload = payload});
        // One that finds the queue full is asked again like one that was lost.
        peer.streams[stream]->send(header, payload);
    }

    void ask_again(Peer& peer, TimePoint now) {
        if (peer.out.empty() || now - peer.asked < peer.patience * options.ask_again) return;
        peer.asked = now;
        peer.patience = std::min(2 * peer.patience, kMaxPatience);
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
                const auto frame = net::parse_frame(message->bytes(), wire.rules());
                if (!frame) {
                    complaints.about(peer.info.name, frame.error().message);
                    continue;
                }
                hear(peer, now);
                if (frame->kind != kLater) take_answer(peer, *frame, arrived);
            }
        }
    }

    void take_answer(Peer& peer, const net::Frame& frame, std::vector<Arrived>& arrived) {
        auto want_bytes = frame.payload;
        auto bytes = std::span<const std::byte>();
        if (frame.kind == kItem) {
            if (want_bytes.size() < 2)
                return complaints.about(peer.info.name, "an item without a name");
            const std::size_t n = std::to_integer<std::size_t>(want_bytes[0]) |
                                  std::to_integer<std::size_t>(want_bytes[1]) << 8;
            if (n + 2 > want_bytes.size())
                return complaints.about(peer.info.name, "an item whose name is longer than it");
            bytes = want_bytes.subspan(2 + n);
            want_bytes = want_bytes.subspan(2, n);
        } else if (frame.kind != kNone) {
            return complaints.about(peer.info.name, "an answer of no known kind");
        }
        const std::string key(reinterpret_cast<const char*>(want_bytes.data()), want_bytes.size());
        const auto found = peer.out.find(key);
        if (found == peer.out.end()) return;  // twice, or not wanted any more
        const Out out = std::move(found->second);
        peer.out.erase(found);
        settle(peer, out);
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

    /// Time in which this process did not look is no silence of others.
    void forgive_own_pause(TimePoint now) {
        const auto pause = now - std::exchange(pumped, now);
        if (pause < kStoodStill * options.ask_again) return;
        for (const auto& peer : peers) {
            if (peer->wants()) hear(*peer, now);
        }
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
    std::set<std::string> names;
    for (const PeerInfo& info : infos) {
        const auto known = std::find_if(impl_->peers.begin(), impl_->peers.end(),
                                        [&](const auto& p) { return p && p->info == info; });
        next.push_back(known == impl_->peers.end() ? impl_->connect(info) : std::move(*known));
        names.insert(info.name);
    }
    for (const auto& gone : impl_->peers) {
        if (gone) impl_->let_go(*gone);
    }
    std::sort(next.begin(), next.end(),
              [](const auto& a, const auto& b) { return a->info.site < b->info.site; });
    impl_->peers = std::move(next);
    impl_->server.set_names(std::move(names));
}

void DataPlane::ask(SiteId site, const Want& want, std::size_t bytes) {
    for (const auto& peer : impl_->peers) {
        if (peer->info.site != site) continue;
        std::string key = key_of(want);
        if (peer->out.count(key) > 0 || !peer->queued.insert(key).second) return;
        if (!peer->wants()) peer->heard = impl_->pumped;
        peer->queue.push_back({std::move(key), want, bytes});
        return;
    }
    impl_->refuse(site, want);
}

void DataPlane::forget(const std::function<bool(const Want&)>& which) {
    for (const auto& peer : impl_->peers) {
        std::erase_if(peer->queue, [&](const Queued& q) {
            return which(q.want) && peer->queued.erase(q.key) > 0;
        });
        for (auto it = peer->out.begin(); it != peer->out.end();) {
            if (!which(it->second.want)) {
                ++it;
                continue;
            }
            impl_->settle(*peer, it->second);
            it = peer->out.erase(it);
        }
    }
    std::erase_if(impl_->unanswerable, [&](const Arrived& a) { return which(a.want); });
}

void DataPlane::forget_all() {
    forget([](const Want&) { return true; });
}

std::vector<DataPlane::Arrived> DataPlane::pump(TimePoint now) {
    impl_->forgive_own_pause(now);
    std::vector<Arrived> arrived = std::exchange(impl_->unanswerable, {});
    impl_->server.pump();
    for (const auto& peer : impl_->peers) {
        impl_->take_answers(*peer, arrived, now);
        impl_->ask_again(*peer, now);
        impl_->ask_more(*peer, now);
    }
    return arrived;
}

void DataPlane::may_serve_now() {
    impl_->server.may_serve_now();
}

std::vector<SiteId> DataPlane::silent_peers(TimePoint now, std::chrono::milliseconds limit) const {
    std::vector<SiteId> silent;
    for (const auto& peer : impl_->peers) {
        if (peer->wants() && now - peer->heard > limit) silent.push_back(peer->info.site);
    }
    return silent;
}

void DataPlane::add_interests(std::vector<net::Interest>& interests) const {
    interests.push_back({.link = &impl_->server.link()});
    for (const auto& peer : impl_->peers) {
        for (const auto& link : peer->streams) interests.push_back({.link = link.get()});
    }
}

bool DataPlane::busy() const {
    return impl_->server.busy() || !impl_->unanswerable.empty() ||
           std::any_of(impl_->peers.begin(), impl_->peers.end(),
                       [&](const auto& p) { return impl_->has_room(*p); });
}

const DataPlane::Traffic& DataPlane::traffic() const {
    return impl_->traffic;
}

}  // namespace isthmus::outer
