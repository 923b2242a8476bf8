// The link to the coordinator: whom a site speaks with, and what is said.
#include <algorithm>

#include "outer/site_network.hpp"

namespace isthmus::outer {

namespace {

/// Without an answer for so many beats the next address is tried.
constexpr int kBeatsForAnswer = 6;

TimePoint now() {
    return std::chrono::steady_clock::now();
}

}  // namespace

/// Speaks with the first address that answers; while none does, tries the next, with growing
/// patience.
void SiteNetwork::keep_connected() {
    const TimePoint time = now();
    if (control_ && time - last_heard_ < options_.budget.silence() && patience_.count() == 0)
        return;
    if (time < try_next_) return;
    connect_next();
    const auto least =
        std::max(std::chrono::milliseconds(500), kBeatsForAnswer * options_.budget.beat());
    if (control_)
        patience_ =
            std::clamp(patience_ * 2, least, std::max(least, std::chrono::milliseconds(15'000)));
    try_next_ = time + (control_ ? patience_ : std::min(least, std::chrono::milliseconds(500)));
}

void SiteNetwork::connect_next() {
    std::vector<std::string> endpoints = options_.coordinator;
    if (options_.find_coordinator) {
        for (std::string& found : options_.find_coordinator())
            endpoints.push_back(std::move(found));
    }
    if (endpoints.empty()) return;
    const std::string endpoint = endpoints[next_endpoint_++ % endpoints.size()];
    if (control_) {
        // ZeroMQ builds a broken connection up again by itself; only another address needs another
        // socket.
        log_.warn("no answer from the coordinator at {}{}{}", control_endpoint_,
                  options_.data.keys.empty()
                      ? ""
                      : " (none is there, or it does not know this site's key: its log says)",
                  endpoint == control_endpoint_ ? "; still trying" : "; trying " + endpoint);
        if (endpoint == control_endpoint_) return;
    }
    net::LinkOptions link{.max_message_bytes = net::kFrameHeaderBytes + kMaxMessageBytes};
    link.security = {.own = options_.data.keys, .server_key = options_.coordinator_key};
    const std::string through =
        options_.route_coordinator ? options_.route_coordinator(endpoint) : endpoint;
    auto connected = net::Link::connect(context_, net::LinkKind::kClient, through, link);
    if (!connected) return decide(Quit{connected.error().message});
    control_ = std::move(*connected);
    control_endpoint_ = endpoint;
}

void SiteNetwork::hear(const net::Message& message) {
    const net::FrameRules rules{
        .run = options_.run, .num_kinds = kNumMessageKinds, .max_payload_bytes = kMaxMessageBytes};
    const auto frame = net::parse_frame(message.bytes(), rules);
    auto said = frame ? decode(frame->kind, frame->payload) : Result<Message>(frame.error());
    if (!said) {
        const std::string& why = said.error().message;
        if (complaints_.size() < 64 &&
            std::find(complaints_.begin(), complaints_.end(), why) == complaints_.end()) {
            complaints_.push_back(why);
            log_.warn("from the coordinator at {}: {}", control_endpoint_, why);
        }
        return;
    }
    last_heard_ = now();
    patience_ = std::chrono::milliseconds(0);
    decide(Heard{std::move(*said)});
}

void SiteNetwork::on(Say& say) {
    if (!control_) return;
    const auto payload = encode(say.message);
    // If the queue is full the message is lost like one on the way; it is said again.
    control_->send(net::make_frame(
        options_.run, {.kind = kind_of(say.message), .sender = site_.self, .payload = payload}));
}

void SiteNetwork::on(Connect& connect) {
    peers_ = connect.peers;
    know_peers();
}

void SiteNetwork::know_peers() {
    net::Allowlist allowed;
    for (const PeerInfo& peer : peers_) {
        if (!peer.public_key.empty()) allowed[peer.public_key] = peer.name;
    }
    context_.allow(std::move(allowed));
    data_->set_peers(peers_);
}

}  // namespace isthmus::outer
