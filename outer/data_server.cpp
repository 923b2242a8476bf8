#include "outer/data_server.hpp"

#include <array>

#include "base/check.hpp"
#include "base/record.hpp"

namespace isthmus::outer {

namespace {

/// Wants of one peer that wait for what is not there yet. One that is not kept is asked again.
constexpr std::size_t kMaxWaitingOfOne = 4096;

}  // namespace

DataServer::DataServer(const DataWire& wire, DataPlane::Serve serve, Complaints& complaints,
                       DataPlane::Traffic& traffic)
    : wire_(wire), serve_(std::move(serve)), complaints_(complaints), traffic_(traffic) {}

Status DataServer::listen(net::Context& context, const std::string& address) {
    auto listening =
        net::Link::listen(context, net::LinkKind::kServer, wire_.link_options(), address);
    if (!listening) return listening.error();
    link_ = std::move(*listening);
    return Done{};
}

void DataServer::set_names(std::set<std::string> names) {
    names_ = std::move(names);
    std::deque<Waiting> before;
    before.swap(waiting_);
    waiting_keys_.clear();
    waiting_of_.clear();
    for (Waiting& w : before) {
        if (names_.count(w.name) > 0) wait(std::move(w));
    }
}

void DataServer::pump() {
    for (int i = 0; i < kAtOnce; ++i) {
        const auto message = link_->receive();
        if (!message) break;
        take(*message);
    }
    serve_waiting();
}

void DataServer::take(const net::Message& message) {
    const auto frame = net::parse_frame(message.bytes(), wire_.rules());
    if (!frame) return complaints_.about(message.address(), frame.error().message);
    if (frame->kind != kWant)
        return complaints_.about(message.address(), "it sent what only answers have");
    auto asked = unpack<AskedBy>(frame->payload);
    if (!asked) return complaints_.about(message.address(), asked.error().message);
    if (!wire_.keys.empty()) asked->name = message.sender_name();
    const auto want = pack(asked->want);
    std::string key = message.from();
    key.append(reinterpret_cast<const char*>(want.data()), want.size());
    answer({message.from(), std::move(asked->name), asked->want, std::move(key)});
}

void DataServer::answer(Waiting w) {
    if (names_.count(w.name) == 0) {
        return complaints_.about(w.name,
                                 "it is no peer of this site now; its wants are not answered");
    }
    if (waiting_keys_.count(w.key) > 0) {
        // Asked again meanwhile: one answer is enough.
        send(w.connection, kLater, {});
        may_serve_ = true;
        return;
    }
    if (reply(w)) return;
    send(w.connection, kLater, {});
    wait(std::move(w));
}

void DataServer::wait(Waiting w) {
    std::size_t& of_this_one = waiting_of_[w.name];
    if (of_this_one >= kMaxWaitingOfOne || !waiting_keys_.insert(w.key).second) return;
    ++of_this_one;
    waiting_.push_back(std::move(w));
}

void DataServer::serve_waiting() {
    if (!std::exchange(may_serve_, false)) return;
    for (std::size_t left = waiting_.size(); left > 0; --left) {
        Waiting w = std::move(waiting_.front());
        waiting_.pop_front();
        if (reply(w)) {
            waiting_keys_.erase(w.key);
            --waiting_of_[w.name];
        } else {
            waiting_.push_back(std::move(w));
        }
    }
}

bool DataServer::reply(const Waiting& w) {
    const Served served = serve_(w.want);
    if (std::holds_alternative<NotYet>(served)) return false;
    if (const auto* bytes = std::get_if<std::span<const std::byte>>(&served)) {
        send_item(w, *bytes);
    } else {
        send(w.connection, kNone, pack(w.want));
    }
    return true;
}

void DataServer::send_item(const Waiting& w, std::span<const std::byte> bytes) {
    CHECK(bytes.size() <= wire_.max_item_bytes, "an item of {} bytes", bytes.size());
    const auto want = pack(w.want);
    payload_.clear();
    payload_.push_back(static_cast<std::byte>(want.size() & 0xff));
    payload_.push_back(static_cast<std::byte>(want.size() >> 8));
    payload_.insert(payload_.end(), want.begin(), want.end());
    payload_.insert(payload_.end(), bytes.begin(), bytes.end());
    if (!send(w.connection, kItem, payload_)) return;
    traffic_.bytes_sent += bytes.size();
    ++traffic_.items_sent;
}

/// A message that cannot be sent (its asker is gone, or does not read) is lost like one on the way:
/// it is asked for again. Nothing is kept for it here.
bool DataServer::send(const net::PeerId& to, std::uint16_t kind,
                      std::span<const std::byte> payload) {
    std::array<std::byte, net::kFrameHeaderBytes> header;
    net::write_frame_header(header, wire_.run,
                            {.kind = kind, .sender = SiteId(0), .payload = payload});
    return link_->send(header, payload, to);
}

}  // namespace isthmus::outer
