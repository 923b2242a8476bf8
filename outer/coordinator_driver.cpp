#include "outer/coordinator_driver.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace isthmus::outer {

namespace {

constexpr std::chrono::milliseconds kAskStop{200};

TimePoint now() {
    return std::chrono::steady_clock::now();
}

}  // namespace

Result<std::unique_ptr<CoordinatorDriver>> CoordinatorDriver::create(net::Context& context,
                                                                     const Options& options,
                                                                     Log& log) {
    std::unique_ptr<CoordinatorDriver> driver(new CoordinatorDriver(options, log));
    auto link = net::Link::listen(context, net::LinkKind::kServer,
                                  {.max_message_bytes = net::kFrameHeaderBytes + kMaxMessageBytes});
    if (!link) return link.error();
    driver->link_ = std::move(*link);
    return driver;
}

Status CoordinatorDriver::run(const std::function<bool()>& stop) {
    state_ = make_coordinator(options_.num_sites, options_.budget, now());
    JudgeGate gate(options_.budget, now());
    while (!end_) {
        while (const auto message = link_->receive()) {
            hear(*message);
            if (end_) break;
        }
        if (!end_ && stop && stop()) act(step(state_, Quit{"interrupted"}, now()));
        if (!end_) act(step(state_, Tick{.judge = gate.open(now())}, now()));
        if (end_) break;
        const auto until_beat =
            std::chrono::ceil<std::chrono::milliseconds>(state_.next_beat - now());
        const net::Interest interest{.link = link_.get()};
        net::wait(std::span(&interest, 1), nullptr, std::min(until_beat, kAskStop));
    }
    if (end_->good) return Done{};
    return Error{end_->reason};
}

void CoordinatorDriver::hear(const net::Message& message) {
    const net::FrameRules rules{
        .run = options_.run, .num_kinds = kDataKind, .max_payload_bytes = kMaxMessageBytes};
    const auto frame = net::parse_frame(message.bytes(), rules);
    if (!frame) return log_.warn("control: {}", frame.error().message);
    const auto said = decode(frame->kind, frame->payload);
    if (!said) return log_.warn("control: {}", said.error().message);
    const SiteId site = frame->sender;
    if (site.value >= options_.num_sites) {
        return log_.warn("site {} is none of this run's {} sites", site.value, options_.num_sites);
    }
    if (std::holds_alternative<Hello>(*said)) connections_[site] = message.from();
    const auto known = connections_.find(site);
    if (known == connections_.end() || known->second != message.from()) {
        return log_.warn("a message in the name of site {} came over another connection",
                         site.value);
    }
    act(step(state_, HeardFrom{site, *said}, now()));
}

void CoordinatorDriver::act(const CoordinatorActions& actions) {
    for (const CoordinatorAction& action : actions) {
        if (const auto* say = std::get_if<SayTo>(&action)) {
            const auto payload = encode(say->message);
            const auto frame = net::make_frame(
                options_.run,
                {.kind = kind_of(say->message), .sender = net::kCoordinator, .payload = payload});
            // A message that cannot be sent is lost like one on the way: the site asks again, or is
            // found silent.
            link_->send(frame, {}, connections_.at(say->site));
        } else if (const auto* report = std::get_if<Report>(&action)) {
            log_.info("{}", report->line);
        } else {
            end_ = std::get<End>(action);
        }
    }
}

}  // namespace isthmus::outer
