#include "outer/simulator/world.hpp"

#include <algorithm>
#include <charconv>

#include "base/check.hpp"

namespace isthmus::outer::simulator {

namespace {

/// Latency of a message between coordinator and site.
constexpr Ns kFastest = kMillisecond, kSlowest = 60 * kMillisecond;
/// More events than this without an end is no progress either.
constexpr std::uint64_t kMostEvents = 400'000'000;

std::uint64_t digest_of(const Event& e) {
    return static_cast<std::uint64_t>(e.at) ^ (static_cast<std::uint64_t>(e.who) << 40) ^
           (static_cast<std::uint64_t>(e.what) << 56);
}

}  // namespace

World::World(const SimulatorOptions& options, const FaultRanges* allowed)
    : options_(options),
      faults_(options.faults),
      draws_(mix64(options.seed) ^ 1),
      dice_(mix64(options.seed) ^ 2, allowed) {
    CHECK(options.sites > 0 && options.meetings > 0);
}

CoordinatorOptions World::coordinator_options() {
    CoordinatorOptions o;
    o.run = options_.seed;
    // In some runs the last site is not named from the start.
    const bool late = options_.sites > 2 && draws_.chance(0.2);
    for (std::uint32_t i = 0; i + (late ? 1 : 0) < options_.sites; ++i)
        o.sites.push_back(sites_[i].name);
    // A minute's budget; shorter ones are the same run with another clock.
    o.budget.round = std::chrono::seconds(60);
    o.budget.join = std::chrono::seconds(600);
    std::int64_t step = 0;
    const std::int64_t interval = 2 + draws_.below(4);
    for (std::uint64_t i = 0; i < options_.meetings; ++i) {
        step += interval + (draws_.chance(0.1) ? draws_.below(4) : 0);
        o.meetings.push_back(step);
    }
    o.samples_per_step = 2;
    o.min_sites = draws_.chance(0.2) ? std::min<std::int64_t>(2, options_.sites) : 1;
    o.weigh_by_tokens = draws_.chance(0.7);
    if (draws_.chance(0.3)) o.optimizer = {.lr = 0.7f, .momentum = 0.9f, .nesterov = true};
    if (draws_.chance(0.2)) o.method = draws_.chance(0.5) ? Method::kOwners : Method::kAllGather;
    if (draws_.chance(0.2)) o.pace = CoordinatorOptions::Pace::kBySpeed;
    o.seed = options_.seed;
    o.full_digest_rounds = 3;
    round_ns_ = (interval + 1) * kSecond;
    return o;
}

void World::set_up() {
    initial_.hash = MeanHash({}, {}).result();
    sites_.resize(options_.sites);
    for (std::uint32_t i = 0; i < options_.sites; ++i) {
        sites_[i].name = fmt::format("s{}", i);
        // Of unequal speed; now and then by far, so that a step is longer than the budget.
        const double slow = draws_.chance(0.01) ? 40 : 1 + draws_.uniform();
        sites_[i].step_time = static_cast<Ns>(0.6 * slow * static_cast<double>(kSecond));
    }
    run_options_ = coordinator_options();
    connection_.assign(options_.sites, 0);
    head_.id = draws_.bits() | 1;
    start_later(kCoordinator, draws_.between(0, 5 * kSecond));
    for (std::uint32_t i = 0; i < options_.sites; ++i)
        start_later(i, draws_.between(0, 10 * kSecond));
    plan_faults();
}

SimulatorResult World::run() {
    set_up();
    while (!over_ && !queue_.empty()) {
        const Event event = queue_.pop();
        CHECK(event.at >= now_);
        now_ = event.at;
        ++result_.events;
        digest_ = mix64(digest_ ^ digest_of(event));
        dispatch(event);
        if (!over_ && is_over()) judge_end();
    }
    if (!over_) break_promise("the world", "nothing is left to happen; " + stand());
    result_.good = result_.broken.empty();
    result_.trace.assign(trace_.begin(), trace_.end());
    result_.rounds = checks_.rounds();
    for (const CommitRecord& commit : checks_.commits()) {
        result_.last_contributors = commit.contributors.size();
        result_.contributions += commit.contributors.size();
    }
    result_.abandoned = checks_.abandoned();
    result_.skipped_samples = checks_.skipped_samples();
    result_.faults = dice_.faults();
    std::uint64_t last = 0;
    std::copy_n(reinterpret_cast<const std::byte*>(checks_.newest().hash.data()), sizeof last,
                reinterpret_cast<std::byte*>(&last));
    result_.digest = mix64(digest_ ^ last);
    result_.simulated_s = static_cast<double>(now_) / static_cast<double>(kSecond);
    return std::move(result_);
}

Process& World::process(std::uint32_t who) {
    return who == kCoordinator ? coordinator_ : sites_[who].process;
}

std::uint32_t World::index_of(const std::string& name) const {
    std::uint32_t index = 0;
    std::from_chars(name.data() + 1, name.data() + name.size(), index);
    CHECK(index < sites_.size() && sites_[index].name == name);
    return index;
}

std::uint32_t World::index_of(SiteId id) const {
    return index_of(checks_.names().at(id.value));
}

void World::at(Ns when, What what, std::uint32_t who, std::uint32_t token) {
    const std::uint32_t life = who < kEveryone || who == kCoordinator ? process(who).life : 0;
    queue_.push({.at = when, .who = who, .life = life, .token = token, .what = what});
}

void World::start_later(std::uint32_t who, Ns in) {
    at(now_ + in, What::kStart, who);
}

void World::dispatch(const Event& e) {
    switch (e.what) {
        case What::kFault:
            return fault(e);
        case What::kHeal:
            return heal();
        case What::kOperator:
            return operator_again(e);
        case What::kStart:
            if (process(e.who).up || process(e.who).life != e.life) return;
            return e.who == kCoordinator ? start_coordinator() : start_site(e.who);
        case What::kWake:
            return wake(e);
        default:
            break;
    }
    const bool to_coordinator = e.what == What::kToCoordinator || e.what == What::kDisconnected ||
                                e.what == What::kCoordinatorTick;
    Process& p = to_coordinator ? coordinator_ : sites_[e.who].process;
    if (p.up && p.stopped) {
        p.missed.push_back(e);
        return;
    }
    deliver(e);
}

/// To a process that runs.
void World::deliver(const Event& e) {
    if (e.what == What::kToCoordinator || e.what == What::kToSite) {
        Message message = std::move(messages_[e.slot]);
        free_.push_back(e.slot);
        if (e.what == What::kToCoordinator) return coordinator_hears(e, std::move(message));
        const Process& p = sites_[e.who].process;
        if (!p.up || p.life != e.life) return;
        if (tracing()) note(e.who, "hears " + describe(message));
        return site_step(e.who, Heard{std::move(message)});
    }
    if (e.what == What::kDisconnected) {
        if (coordinator_.up && connection_[e.who] == e.life)
            coordinator_step(Disconnected{sites_[e.who].name});
        return;
    }
    Process& p = process(e.who);
    if (!p.up || p.life != e.life) return;
    switch (e.what) {
        case What::kCoordinatorTick:
            at(now_ + static_cast<Ns>(1e9 / p.rate) + 1000, e.what, e.who);
            return coordinator_step(Tick{.judge = p.gate->open(p.clock(now_))});
        case What::kSiteTick:
            return site_tick(e);
        case What::kTrained:
            return e.token == sites_[e.who].train ? lends(e) : void();
        case What::kExchanging:
            return e.token == sites_[e.who].exchange ? look_at_exchange(e) : void();
        case What::kFetching:
            return e.token == sites_[e.who].fetch ? look_at_fetch(e) : void();
        case What::kSnapshot:
            return snapshot_at_step(e.who);
        case What::kFinished:
            return site_step(e.who, Finish{});
        default:
            CHECK(false);
    }
}

/// The process is gone, with all that it had not written.
void World::kill(std::uint32_t who) {
    Process& p = process(who);
    CHECK(p.up);
    if (tracing()) note(who, "is gone");
    for (const Event& e : p.missed) {
        if (e.what == What::kToCoordinator || e.what == What::kToSite) free_.push_back(e.slot);
    }
    p.missed.clear();
    p.up = p.stopped = p.dies_at_action = false;
    ++p.life;
    if (who == kCoordinator) {
        coordinator_state_.reset();
        return;
    }
    // Its host closes the connection, unless that died too.
    if (draws_.chance(0.7)) {
        queue_.push({.at = now_ + draws_.between(kFastest, kSlowest),
                     .who = who,
                     .life = p.life - 1,
                     .what = What::kDisconnected});
    }
}

void World::stop_process(std::uint32_t who, Ns for_ns) {
    Process& p = process(who);
    if (!p.up || p.stopped) return;
    if (tracing())
        note(who, fmt::format("stands still for {:.1f} s", static_cast<double>(for_ns) / 1e9));
    p.stopped = true;
    p.stopped_at = now_;
    at(now_ + for_ns, What::kWake, who, ++p.wake);
}

/// What came meanwhile is there at once; what it did itself goes on where it was.
void World::wake(const Event& e) {
    Process& p = process(e.who);
    if (!p.up || p.life != e.life || !p.stopped || p.wake != e.token) return;
    if (tracing()) note(e.who, "goes on");
    p.stopped = false;
    std::vector<Event> missed = std::exchange(p.missed, {});
    bool ticked = false;
    for (Event& event : missed) {
        const bool message = event.what == What::kToCoordinator || event.what == What::kToSite;
        const bool tick = event.what == What::kCoordinatorTick || event.what == What::kSiteTick;
        if (tick && (event.life != p.life || std::exchange(ticked, true))) continue;
        if (event.what == What::kTrained) {
            event.at = now_ + std::max<Ns>(0, event.at - p.stopped_at);
        } else {
            event.at = now_ + (message ? 0 : 1);
        }
        queue_.push(event);
    }
}

bool World::reach(std::uint32_t a, std::uint32_t b) const {
    return std::none_of(partitions_.begin(), partitions_.end(), [&](const Partition& p) {
        if (p.until <= now_) return false;
        if (p.b == kEveryone) return p.a == a || p.a == b;
        return (p.a == a && p.b == b) || (p.a == b && p.b == a);
    });
}

/// Over the network, between coordinator and a connection of a site.
void World::send(What what, std::uint32_t site, std::uint32_t life, Message&& message) {
    Ns in = draws_.between(kFastest, kSlowest);
    for (const Partition& p : partitions_) {
        const bool cut =
            p.until > now_ && ((p.a == site && (p.b == kCoordinator || p.b == kEveryone)) ||
                               (p.a == kCoordinator && p.b == kEveryone));
        if (!cut) continue;
        if (!p.holds_back) {
            ++result_.messages_lost;
            return;
        }
        in += p.until - now_;
    }
    const double trouble = faults_.lose + faults_.duplicate + faults_.delay;
    const double roll = trouble > 0 ? dice_.roll() : 1;
    if (roll < trouble && dice_.happens()) {
        if (roll < faults_.lose) {
            if (tracing()) note(site, "loses " + describe(message));
            ++result_.messages_lost;
            return;
        }
        if (roll < faults_.lose + faults_.duplicate) {
            post(what, site, life, Message(message), in + draws_.between(0, 2 * a_while()));
        } else {
            in += draws_.between(0, a_while());
        }
    }
    post(what, site, life, std::move(message), in);
}

void World::post(What what, std::uint32_t site, std::uint32_t life, Message&& message, Ns in) {
    std::uint32_t slot = 0;
    if (free_.empty()) {
        slot = static_cast<std::uint32_t>(messages_.size());
        messages_.push_back(std::move(message));
    } else {
        slot = free_.back();
        free_.pop_back();
        messages_[slot] = std::move(message);
    }
    queue_.push({.at = now_ + in, .who = site, .life = life, .slot = slot, .what = what});
}

void World::break_promise(const std::string& who, const std::string& what) {
    if (over_) return;
    over_ = true;
    result_.broken = fmt::format("event {}, {:.3f} s, round {}: {}: {}", result_.events,
                                 static_cast<double>(now_) / 1e9, checks_.rounds(), who, what);
    if (tracing()) note(kEveryone, result_.broken);
}

void World::check(const std::string& who, const Status& status) {
    if (!status) break_promise(who, status.error().message);
}

bool World::is_over() {
    if (result_.events > kMostEvents) {
        break_promise("the world", "no end; " + stand());
        return false;
    }
    // Faults come with meetings, so they cannot stop progress for ever.
    const Ns limit = 4 * std::chrono::nanoseconds(run_options_.budget.join).count();
    if (now_ - progress_at_ > limit) {
        break_promise("the world", "no progress; " + stand());
        return false;
    }
    if (!coordinator_done_) return false;
    return std::none_of(sites_.begin(), sites_.end(),
                        [](const LocalSite& s) { return s.process.up; });
}

/// The run has ended, and everyone has gone.
void World::judge_end() {
    over_ = true;
    const auto fail = [&](const std::string& who, const std::string& what) {
        over_ = false;
        break_promise(who, what);
    };
    if (!checks_.ended()) return fail("the coordinator", "it ended before the run did");
    if (const Status status = checks_.proven(); !status)
        return fail("the ledger", status.error().message);
    for (const LocalSite& site : sites_) {
        if (site.dropped || !quiet_) continue;
        if (!site.saw_end || !(site.model == checks_.newest()))
            return fail("site " + site.name, "it did not see the end of the run; " + stand());
    }
}

}  // namespace isthmus::outer::simulator
