#include "outer/exchange.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/check.hpp"
#include "net/bytes.hpp"

namespace isthmus::outer {

namespace {

/// In front of a chunk's floats: round u64, chunk u64.
constexpr std::size_t kChunkHeaderBytes = 16;

std::size_t max_payload(const PeerExchange::Options& options) {
    return kChunkHeaderBytes + options.chunk_elements * sizeof(float);
}

net::LinkOptions link_options(const PeerExchange::Options& options) {
    return {.max_message_bytes = net::kFrameHeaderBytes + max_payload(options),
            .queue_messages = kQueueChunks};
}

}  // namespace

PeerExchange::PeerExchange(const Options& options, Log& log) : options_(options), log_(log) {}

Result<std::unique_ptr<PeerExchange>> PeerExchange::create(net::Context& context,
                                                           const Options& options, Log& log) {
    CHECK(options.self.value < options.num_sites && options.chunk_elements > 0);
    std::unique_ptr<PeerExchange> exchange(new PeerExchange(options, log));
    exchange->listens_.resize(options.num_sites);
    for (std::uint32_t i = 0; i < options.num_sites; ++i) {
        if (SiteId(i) == options.self) continue;
        auto receiver = net::Link::listen(context, net::LinkKind::kReceiver, link_options(options));
        if (!receiver) return receiver.error();
        exchange->listens_[i] = (*receiver)->endpoint();
        Peer peer;
        peer.site = SiteId(i);
        peer.receiver = std::move(*receiver);
        exchange->peers_.push_back(std::move(peer));
    }
    return exchange;
}

Status PeerExchange::connect(net::Context& context, const Endpoints& speak_to) {
    CHECK(speak_to.size() == options_.num_sites);
    for (Peer& peer : peers_) {
        auto sender = net::Link::connect(context, net::LinkKind::kSender, speak_to[peer.site.value],
                                         link_options(options_));
        if (!sender) return sender.error();
        peer.sender = std::move(*sender);
    }
    return Done{};
}

void PeerExchange::begin(const Work& work) {
    CHECK(!work_ && !result_);
    CHECK(work.begin.contributors.size() == options_.num_sites &&
          work.begin.weights.size() == options_.num_sites);
    CHECK(work.anchor.size() == work.local.size() && work.local.size() == work.result.size());
    combined_ = 0;
    for (Peer& peer : peers_) peer.sent_chunks = 0;
    if (peers_.empty() && work.lr == 1.0f) {
        std::copy(work.local.begin(), work.local.end(), work.result.begin());
        result_ = hash_state(work.result);
        return;
    }
    work_ = work;
    hasher_.emplace();
    prepared_ = 0;
}

std::span<const float> PeerExchange::delta(std::size_t index) {
    for (; prepared_ <= index; ++prepared_) {
        const auto local = chunk(work_->local, prepared_);
        pseudo_gradient(chunk(work_->anchor, prepared_), local, local);
    }
    return chunk(work_->local, index);
}

std::size_t PeerExchange::num_chunks() const {
    return (work_->local.size() + options_.chunk_elements - 1) / options_.chunk_elements;
}

template <class T>
std::span<T> PeerExchange::chunk(std::span<T> values, std::size_t index) const {
    const std::size_t first = index * options_.chunk_elements;
    return values.subspan(first, std::min(options_.chunk_elements, values.size() - first));
}

Status PeerExchange::pump() {
    if (!work_) return Done{};
    for (Peer& peer : peers_) {
        send_next(peer);
        if (Status status = receive_next(peer); !status) return status;
    }
    const bool all_here = std::all_of(peers_.begin(), peers_.end(),
                                      [](const Peer& peer) { return !peer.arrived.empty(); });
    if (all_here && combined_ < num_chunks()) combine();
    const bool all_sent = std::all_of(peers_.begin(), peers_.end(), [&](const Peer& peer) {
        return peer.sent_chunks == num_chunks();
    });
    if (all_sent && combined_ == num_chunks()) {
        result_ = hasher_->finish();
        hasher_.reset();
        work_.reset();
    }
    return Done{};
}

void PeerExchange::send_next(Peer& peer) {
    if (peer.sent_chunks == num_chunks()) return;
    const auto values = std::as_bytes(delta(peer.sent_chunks));
    net::ByteWriter payload;
    payload.reserve(kChunkHeaderBytes + values.size());
    payload.u64(work_->begin.round.value);
    payload.u64(peer.sent_chunks);
    payload.bytes(values);
    std::array<std::byte, net::kFrameHeaderBytes> header;
    net::write_frame_header(
        header, options_.run,
        {.kind = kDataKind, .sender = options_.self, .payload = payload.data()});
    if (!peer.sender->send(header, payload.data())) return;  // its queue is full
    ++peer.sent_chunks;
    ++chunks_moved_;
    bytes_sent_ += header.size() + payload.data().size();
}

Status PeerExchange::receive_next(Peer& peer) {
    if (!peer.arrived.empty() || combined_ == num_chunks()) return Done{};
    const auto message = peer.receiver->receive();
    if (!message) return Done{};
    const net::FrameRules rules{
        .run = options_.run, .num_kinds = kNumKinds, .max_payload_bytes = max_payload(options_)};
    const auto frame = net::parse_frame(message->bytes(), rules);
    if (!frame) {
        // Not from this run's sites: whoever it was, the expected chunk may still come.
        log_.warn("data from site {}: {}", peer.site.value, frame.error().message);
        return Done{};
    }
    const std::size_t expected = chunk(work_->local, combined_).size();
    net::ByteReader payload(frame->payload);
    const std::uint64_t round = payload.u64();
    const std::uint64_t index = payload.u64();
    if (frame->kind != kDataKind || frame->sender != peer.site ||
        round != work_->begin.round.value || index != combined_ ||
        payload.left() != expected * sizeof(float)) {
        return Error{
            fmt::format("site {} sent chunk {} of round {} with {} bytes, expected was "
                        "chunk {} of round {} with {}",
                        frame->sender.value, index, round, payload.left(), combined_,
                        work_->begin.round.value, expected * sizeof(float))};
    }
    // Copied, since a message's bytes are not aligned for floats.
    peer.arrived.resize(expected);
    std::memcpy(peer.arrived.data(), payload.bytes(payload.left()).data(),
                expected * sizeof(float));
    ++chunks_moved_;
    return Done{};
}

void PeerExchange::combine() {
    const auto sum = chunk(work_->result, combined_);
    std::fill(sum.begin(), sum.end(), 0.0f);
    auto peer = peers_.begin();
    for (std::size_t i = 0; i < work_->begin.contributors.size(); ++i) {
        const SiteId site = work_->begin.contributors[i];
        if (site == options_.self) {
            accumulate(sum, work_->begin.weights[i], delta(combined_));
        } else {
            CHECK(peer->site == site);
            accumulate(sum, work_->begin.weights[i], peer->arrived);
            peer->arrived.clear();
            ++peer;
        }
    }
    outer_sgd(chunk(work_->anchor, combined_), sum, total_weight(work_->begin.weights), work_->lr,
              sum);
    hasher_->update(sum);
    ++combined_;
}

std::optional<StateHash> PeerExchange::take_result() {
    return std::exchange(result_, {});
}

void PeerExchange::add_interests(std::vector<net::Interest>& interests) const {
    if (!work_) return;
    for (const Peer& peer : peers_) {
        if (peer.arrived.empty() && combined_ < num_chunks()) {
            interests.push_back({.link = peer.receiver.get()});
        }
        if (peer.sent_chunks < num_chunks()) {
            interests.push_back({.link = peer.sender.get(), .readable = false, .writable = true});
        }
    }
}

}  // namespace isthmus::outer
