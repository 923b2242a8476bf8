#include "outer/site_driver.hpp"

#include <unistd.h>

#include <algorithm>

#include "base/check.hpp"
#include "base/random.hpp"

namespace isthmus::outer {

namespace {

constexpr std::chrono::milliseconds kAskStop{200};

TimePoint now() {
    return std::chrono::steady_clock::now();
}

}  // namespace

/// What the network thread owns.
class SiteDriver::Network {
  public:
    Network(SiteDriver& driver, std::vector<float> anchor, std::unique_ptr<PeerExchange> exchange,
            std::unique_ptr<net::Link> control, net::Context& context, Log& log)
        : driver_(driver),
          options_(driver.options_),
          context_(context),
          log_(log),
          anchor_(std::move(anchor)),
          result_(anchor_.size()),
          exchange_(std::move(exchange)),
          control_(std::move(control)) {}

    void run() {
        state_ = make_site(options_.self, options_.budget, hello(), now());
        while (!ended_) {
            driver_.wake_up_.clear();
            while (auto command = driver_.commands_.take()) obey(std::move(*command));
            while (const auto message = ended_ ? std::nullopt : control_->receive()) {
                hear(*message);
            }
            move_data();
            const std::uint64_t progress =
                driver_.steps_.load(std::memory_order_relaxed) + exchange_->chunks_moved();
            decide(SiteTick{.progress = progress, .judge = gate_.open(now())});
            if (!ended_) wait();
        }
        // Sockets end on the thread that used them.
        exchange_.reset();
        control_.reset();
    }

  private:
    Hello hello() {
        const auto time = static_cast<std::uint64_t>(now().time_since_epoch().count());
        return {.incarnation = random_bits(static_cast<std::uint64_t>(::getpid()), time),
                .config_hash = options_.config_hash,
                .elements = anchor_.size(),
                .state = hash_state(anchor_),
                .listens = exchange_->listens()};
    }

    void decide(const SiteEvent& event) {
        for (SiteAction& action : step(state_, event, now())) {
            std::visit([&](auto& a) { act(a); }, action);
        }
    }

    void obey(Command command) {
        if (auto* cut = std::get_if<CutParameters>(&command)) {
            local_ = std::move(cut->local);
            decide(Cut{cut->samples});
        } else if (auto* quit = std::get_if<Quit>(&command)) {
            decide(*quit);
        } else {
            decide(Finish{});
        }
    }

    void hear(const net::Message& message) {
        const net::FrameRules rules{
            .run = options_.run, .num_kinds = kDataKind, .max_payload_bytes = kMaxMessageBytes};
        const auto frame = net::parse_frame(message.bytes(), rules);
        if (!frame) return log_.warn("control: {}", frame.error().message);
        auto said = decode(frame->kind, frame->payload);
        if (!said) return log_.warn("control: {}", said.error().message);
        decide(Heard{std::move(*said)});
    }

    void move_data() {
        if (ended_) return;
        if (const Status status = exchange_->pump(); !status) {
            return decide(Quit{status.error().message});
        }
        if (const auto hash = exchange_->take_result()) decide(Exchanged{*hash});
    }

    void wait() {
        std::vector<net::Interest> interests{{.link = control_.get()}};
        exchange_->add_interests(interests);
        net::wait(interests, &driver_.wake_up_,
                  std::chrono::ceil<std::chrono::milliseconds>(state_.next_beat - now()));
    }

    void act(const Say& say) {
        const auto payload = encode(say.message);
        // If the queue is full the message is lost like one on the way; it is said again.
        control_->send(net::make_frame(
            options_.run,
            {.kind = kind_of(say.message), .sender = options_.self, .payload = payload}));
    }
    void act(const Joined& joined) {
        if (const Status status = exchange_->connect(context_, joined.speak_to); !status) {
            return decide(Quit{status.error().message});
        }
        driver_.replies_.put(JoinedReply{});
    }
    void act(const Exchange& e) {
        exchange_->begin({.begin = e.begin,
                          .lr = options_.lr,
                          .anchor = anchor_,
                          .local = local_,
                          .result = result_});
    }
    void act(const Apply& apply) {
        std::swap(anchor_, result_);
        std::copy(anchor_.begin(), anchor_.end(), local_.begin());
        driver_.replies_.put(MetReply{.met = {.round = state_.round,
                                              .state = apply.commit.result,
                                              .bytes_sent = exchange_->bytes_sent()},
                                      .parameters = std::move(local_)});
    }
    void act(const End& end) {
        ended_ = true;
        driver_.replies_.put(end);
    }

    SiteDriver& driver_;
    const Options& options_;
    net::Context& context_;
    Log& log_;
    std::vector<float> anchor_, result_, local_;
    std::unique_ptr<PeerExchange> exchange_;
    std::unique_ptr<net::Link> control_;
    SiteState state_;
    JudgeGate gate_{options_.budget, now()};
    bool ended_ = false;
};

SiteDriver::SiteDriver(const Options& options)
    : options_(options), commands_(8, &wake_up_), replies_(8) {}

Result<std::unique_ptr<SiteDriver>> SiteDriver::join(net::Context& context, const Options& options,
                                                     std::vector<float> initial, Log& log) {
    auto exchange = PeerExchange::create(context,
                                         {.run = options.run,
                                          .self = options.self,
                                          .num_sites = options.num_sites,
                                          .chunk_elements = options.chunk_elements},
                                         log);
    if (!exchange) return exchange.error();
    auto control =
        net::Link::connect(context, net::LinkKind::kClient, options.coordinator,
                           {.max_message_bytes = net::kFrameHeaderBytes + kMaxMessageBytes});
    if (!control) return control.error();
    std::unique_ptr<SiteDriver> driver(new SiteDriver(options));
    driver->network_ = std::make_unique<Network>(*driver, std::move(initial), std::move(*exchange),
                                                 std::move(*control), context, log);
    driver->thread_ = std::thread([network = driver->network_.get()] { network->run(); });
    const Reply reply = driver->next_reply();
    if (const auto* end = std::get_if<End>(&reply)) return Error{end->reason};
    return driver;
}

SiteDriver::~SiteDriver() {
    if (!end_) quit("it failed");
    thread_.join();
}

SiteDriver::Reply SiteDriver::next_reply() {
    if (end_) return *end_;
    while (true) {
        if (auto reply = replies_.take_within(kAskStop)) {
            if (const auto* end = std::get_if<End>(&*reply)) end_ = *end;
            return std::move(*reply);
        }
        if (options_.stop && options_.stop()) {
            quit("interrupted");
            return *end_;
        }
    }
}

Result<SiteDriver::Met> SiteDriver::meet(std::vector<float>& parameters, std::uint64_t samples) {
    if (end_) return Error{end_->reason};
    commands_.put(CutParameters{std::move(parameters), samples});
    Reply reply = next_reply();
    if (const auto* end = std::get_if<End>(&reply)) return Error{end->reason};
    MetReply& met = std::get<MetReply>(reply);
    parameters = std::move(met.parameters);
    return met.met;
}

Status SiteDriver::made_step() {
    steps_.fetch_add(1, std::memory_order_relaxed);
    if (!end_) {
        if (auto reply = replies_.take()) end_ = std::get<End>(*reply);
    }
    if (end_) return Error{end_->reason};
    return Done{};
}

Status SiteDriver::leave() {
    if (!end_) {
        commands_.put(Finish{});
        next_reply();
    }
    CHECK(end_);
    if (!end_->good) return Error{end_->reason};
    return Done{};
}

void SiteDriver::quit(const std::string& reason) {
    if (end_) return;
    commands_.put(Quit{reason});
    // The thread answers at once, or has ended for another reason already.
    while (!end_) {
        if (auto reply = replies_.take_within(kAskStop)) {
            if (const auto* end = std::get_if<End>(&*reply)) end_ = *end;
        }
    }
}

}  // namespace isthmus::outer
