#include "outer/site_network.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace isthmus::outer {

namespace {

TimePoint now() {
    return std::chrono::steady_clock::now();
}

double seconds_between(TimePoint from, TimePoint to) {
    return std::chrono::duration<double>(to - from).count();
}

/// A peer that has heard of this site first waits so long to be heard of.
constexpr std::chrono::milliseconds kHoldUnknown{4000};

}  // namespace

SiteNetwork::SiteNetwork(net::Context& context, const SiteDriver::Options& options, ModelPort& port,
                         SiteShared& shared, Log& log)
    : context_(context),
      options_(options),
      port_(port),
      shared_(shared),
      log_(log),
      layout_(port.unit_elements(FragmentId(0)), options.piece_elements),
      state_(layout_, options.state, port),
      donor_(layout_),
      gate_(options.budget, now()) {}

SiteNetwork::~SiteNetwork() = default;

Result<std::unique_ptr<SiteNetwork>> SiteNetwork::create(net::Context& context,
                                                         const SiteDriver::Options& options,
                                                         ModelPort& port, SiteShared& shared,
                                                         Log& log) {
    std::unique_ptr<SiteNetwork> n(new SiteNetwork(context, options, port, shared, log));
    DataPlane::Options data = options.data;
    data.run = options.run;
    data.self = options.name;
    data.ask_again = options.budget.ask_again();
    const auto serve = [raw = n.get()](const Want& want) {
        const bool round = std::holds_alternative<CutItem>(want.item) ||
                           std::holds_alternative<MeanItem>(want.item);
        return round ? raw->exchange_->serve(want) : raw->donor_.serve(want);
    };
    context.hold_unknown(kHoldUnknown);
    auto plane = DataPlane::create(context, data, serve, log);
    if (!plane) return plane.error();
    n->data_ = std::move(*plane);
    const auto silence = options.budget.silence();
    n->exchange_ = std::make_unique<RoundExchange>(
        n->state_, port, *n->data_,
        RoundExchange::Options{.peer_silence = silence, .cache_bytes = options.cache_bytes});
    n->fetch_ = std::make_unique<StateFetch>(n->state_, port, *n->data_, silence);
    Hello hello{.name = options.name,
                .incarnation = {options.incarnation, options.nonce},
                .config = options.config,
                .endpoint = n->data_->endpoint(),
                .public_key = options.data.keys.public_key,
                .state = n->state_.name(),
                .has_moments = false,
                .staged = {},
                .training = {},
                .journal = {}};
    n->site_ = make_site(options.budget, std::move(hello), now());
    return n;
}

void SiteNetwork::run() {
    last_heard_ = now();
    while (!ended_) {
        shared_.wake_up.clear();
        while (auto command = ended_ ? std::nullopt : shared_.commands.take())
            obey(std::move(*command));
        keep_connected();
        for (const net::Refusal& r : context_.take_refusals())
            log_.warn("refused: {}", to_string(r));
        while (const auto message = ended_ || !control_ ? std::nullopt : control_->receive())
            hear(*message);
        if (!ended_) move_data();
        if (!ended_) {
            const std::uint64_t progress =
                shared_.steps.load() + exchange_->pieces_moved() + fetch_->chunks_moved();
            decide(SiteTick{.progress = progress,
                            .step = shared_.step.load(),
                            .tokens_per_s = shared_.tokens_per_s.load(),
                            .loss = shared_.loss.load(),
                            .judge = gate_.open(now())});
        }
        if (!ended_) wait();
    }
    // Sockets end on the thread that used them.
    fetch_.reset();
    exchange_.reset();
    data_.reset();
    control_.reset();
}

void SiteNetwork::decide(const SiteEvent& event) {
    if (!ended_) act(step(site_, event, now()));
}

void SiteNetwork::act(SiteActions actions) {
    for (SiteAction& action : actions) {
        if (ended_) return;
        std::visit([&](auto& a) { on(a); }, action);
    }
}

void SiteNetwork::on(Report& report) {
    if (report.loud) {
        log_.warn("{}", report.line);
    } else {
        log_.info("{}", report.line);
    }
}

void SiteNetwork::on(End& end) {
    ended_ = true;
    shared_.hold = true;
    shared_.replies.put(end);
}

// ---- a round ----

void SiteNetwork::on(Exchange& e) {
    const TimePoint time = now();
    if (attempts_++ == 0) barrier_s_ = seconds_between(cut_at_, time);
    began_at_ = time;
    meeting_ = e.begin.meeting;
    // Normally known already; this word may have come first.
    bool news = false;
    for (const Participant& p : e.begin.participants) {
        if (p.peer.site == site_.self) continue;
        const auto same = [&](const PeerInfo& known) { return known.site == p.peer.site; };
        const auto known = std::find_if(peers_.begin(), peers_.end(), same);
        if (known != peers_.end() && *known == p.peer) continue;
        std::erase_if(peers_, same);
        peers_.push_back(p.peer);
        news = true;
    }
    if (news) know_peers();
    exchange_->begin(e.begin, site_.self, time);
    enter("exchange", e.begin.meeting);
}

void SiteNetwork::on(Apply& apply) {
    const auto result = exchange_->staged(apply.commit.attempt);
    CHECK(result && lent_, "a commit of what is not staged");
    enter("apply", meeting_);
    const TimePoint before = now();
    state_.apply(*result, site_.self, port_);
    CHECK(state_.name() == apply.commit.to, "applying gave another state than the one voted for");
    const TimePoint after = now();
    const bool counted = std::count(apply.commit.contributors.begin(),
                                    apply.commit.contributors.end(), site_.self) > 0;
    counted_ = counted_ || counted;
    changed_ = true;
    bytes_held_peak_ = std::max(bytes_held_peak_, exchange_->bytes_held() + donor_.bytes_held());
    const auto& traffic = data_->traffic();
    figures_.exchange_s = seconds_between(began_at_, voted_at_);
    figures_.apply_s = seconds_between(before, after);
    figures_.wait_s = barrier_s_ + seconds_between(voted_at_, before);
    figures_.bytes_sent = traffic.bytes_sent - sent_before_;
    figures_.bytes_received = traffic.bytes_received - received_before_;
    if (figures_.exchange_s > 0.05) {
        figures_.up_bytes_per_s = static_cast<double>(figures_.bytes_sent) / figures_.exchange_s;
        figures_.down_bytes_per_s =
            static_cast<double>(figures_.bytes_received) / figures_.exchange_s;
    }
    {
        const std::lock_guard lock(shared_.rounds_mutex);
        shared_.rounds.push_back({.round = state_.name().round,
                                  .state = state_.name(),
                                  .meeting = meeting_,
                                  .num_contributors = apply.commit.contributors.size(),
                                  .contributed = counted,
                                  .figures = figures_,
                                  .barrier_s = barrier_s_,
                                  .attempts = attempts_,
                                  .bytes_held_peak = bytes_held_peak_});
    }
    donor_.committed(result);
    exchange_->discard();
    offered_ = false;
    digest_.reset();
    digest_due_ = options_.full_digest_rounds > 0 &&
                  state_.name().round.value % options_.full_digest_rounds == 0;
}

void SiteNetwork::on(Discard& discard) {
    exchange_->discard();
    offered_ = false;
    if (!discard.reset) return;
    void_samples_ = true;
    if (wait_for_model(discard)) return;
    state_.reset_model(port_);
    changed_ = true;
}

void SiteNetwork::on(Train& train) {
    if (wait_for_model(train)) return;
    give_back(WorkReply{.assignment = train.assignment,
                        .changed = changed_,
                        .counted = counted_,
                        .void_samples = void_samples_,
                        .from_state = train.from_state});
}

void SiteNetwork::on(Hold&) {
    if (!lent_) shared_.hold = true;
}

void SiteNetwork::on(Complete& complete) {
    if (wait_for_model(complete)) return;
    give_back(FinishedReply{.finished = {.state = state_.name(), .drained = complete.drained},
                            .changed = changed_});
}

// ---- copies ----

void SiteNetwork::on(FetchCopy& fetch) {
    if (!wait_for_model(fetch)) {
        changed_ = true;
        fetch_->fetch_copy(fetch.restore, now());
    }
}

void SiteNetwork::on(FetchResult& fetch) {
    if (!wait_for_model(fetch)) {
        changed_ = true;
        fetch_->fetch_result(fetch.from, fetch.holders, site_.self, now());
    }
}

void SiteNetwork::on(Snapshot& snapshot) {
    if (!snapshot.moments) return pin({}, shared_.step.load());
    if (!lent_) {
        shared_.want_inner = true;
        return;
    }
    std::vector<std::byte> inner(static_cast<std::size_t>(port_.inner_state_bytes()));
    port_.read_inner_state(inner);
    pin(std::move(inner), lent_step_);
}

void SiteNetwork::pin(std::vector<std::byte> inner, std::int64_t step) {
    donor_.pin(state_, step, std::move(inner));
    decide(Snapshotted{state_.name(), step});
}

void SiteNetwork::on(DropSnapshot&) {
    shared_.want_inner = false;
    donor_.unpin();
}

// ---- the model ----

/// True: the training thread still has it; the action is done when it comes.
bool SiteNetwork::wait_for_model(SiteAction action) {
    if (lent_) return false;
    waiting_.push_back(std::move(action));
    shared_.hold = true;
    return true;
}

void SiteNetwork::give_back(SiteReply reply) {
    lent_ = false;
    changed_ = counted_ = void_samples_ = false;
    shared_.hold = false;
    attempts_ = 0;
    shared_.replies.put(std::move(reply));
}

void SiteNetwork::obey(SiteCommand command) {
    if (auto* lend = std::get_if<Lend>(&command)) {
        lent(std::move(*lend));
    } else if (auto* copy = std::get_if<InnerCopy>(&command)) {
        if (site_.pinning) pin(std::move(copy->bytes), copy->step);
    } else if (auto* quit = std::get_if<Quit>(&command)) {
        decide(*quit);
    } else {
        decide(Finish{});
    }
}

void SiteNetwork::lent(Lend lend) {
    lent_ = true;
    lent_step_ = lend.step;
    // What came while the training thread was under way; then its cut is void.
    std::deque<SiteAction> waiting = std::exchange(waiting_, {});
    for (SiteAction& action : waiting) {
        if (!ended_) std::visit([&](auto& a) { on(a); }, action);
    }
    if (lent_ && site_.pinning && shared_.want_inner.exchange(false)) {
        Snapshot again{.moments = true};
        on(again);
    }
    if (!lend.cut || !lent_ || site_.phase != SiteState::Phase::kTraining) return;
    cut_at_ = now();
    attempts_ = 0;
    bytes_held_peak_ = 0;
    sent_before_ = data_->traffic().bytes_sent;
    received_before_ = data_->traffic().bytes_received;
    Cut cut = std::move(*lend.cut);
    const SiteFigures last = figures_;
    figures_ = cut.figures;
    figures_.exchange_s = last.exchange_s;
    figures_.apply_s = last.apply_s;
    figures_.wait_s = last.wait_s;
    figures_.bytes_sent = last.bytes_sent;
    figures_.bytes_received = last.bytes_received;
    figures_.up_bytes_per_s = last.up_bytes_per_s;
    figures_.down_bytes_per_s = last.down_bytes_per_s;
    cut.figures = figures_;
    if (digest_due_) idle_work();
    cut.full_digest = digest_;
    decide(cut);
    if (site_.phase == SiteState::Phase::kReady) {
        exchange_->offer(site_.ready->cut);
        offered_ = true;
        enter("barrier", site_.ready->meeting);
    }
}

// ---- moving ----

void SiteNetwork::move_data() {
    const TimePoint time = now();
    auto arrived = data_->pump(time);
    arrived = exchange_->pump(std::move(arrived), time);
    fetch_->pump(std::move(arrived), time);
    if (auto outcome = exchange_->take_outcome()) {
        voted_at_ = now();
        bytes_held_peak_ =
            std::max(bytes_held_peak_, exchange_->bytes_held() + donor_.bytes_held());
        decide(*outcome);
        if (site_.phase == SiteState::Phase::kVoted) enter("vote", meeting_);
    }
    if (ended_) return;
    if (auto outcome = fetch_->take_outcome()) {
        if (auto result = fetch_->take_result()) donor_.committed(std::move(result));
        decide(*outcome);
    }
}

/// The full digest of the state, while the training thread trains.
void SiteNetwork::idle_work() {
    digest_due_ = false;
    digest_ = std::pair(state_.name().round, state_.full_digest());
}

void SiteNetwork::wait() {
    const bool encode = offered_ && exchange_->encode_ahead();
    if (digest_due_ && !lent_) idle_work();
    std::vector<net::Interest> interests;
    if (control_) interests.push_back({.link = control_.get()});
    data_->add_interests(interests);
    auto limit = std::chrono::ceil<std::chrono::milliseconds>(site_.next_beat - now());
    if (!control_) limit = std::min(limit, std::chrono::milliseconds(100));
    if (encode || data_->busy()) limit = std::chrono::milliseconds(0);
    net::wait(interests, &shared_.wake_up, std::max(limit, std::chrono::milliseconds(0)));
}

}  // namespace isthmus::outer
