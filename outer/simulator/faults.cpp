// What goes wrong, and what operators do. Faults are drawn for a meeting at a time: an expected
// number each, at times of their own, some long after the round that they were meant for.
#include <algorithm>

#include "base/check.hpp"
#include "outer/simulator/world.hpp"

namespace isthmus::outer::simulator {

namespace {

enum Kind : std::uint32_t { kCrashSite, kCrashCoordinator, kStop, kPartition, kOperate };

/// What an operator takes back later, in the token of kOperator.
constexpr std::uint32_t kResumeRun = 0;

}  // namespace

void World::plan_faults() {
    plan_faults(faults_.crash_site, kCrashSite);
    plan_faults(faults_.crash_coordinator, kCrashCoordinator);
    plan_faults(faults_.stop_site, kStop);
    plan_faults(faults_.partition, kPartition);
    plan_faults(faults_.operate, kOperate);
}

void World::plan_faults(double expected, std::uint32_t kind) {
    if (expected <= 0) return;
    for (double left = expected; left > 0; left -= 1) {
        if (dice_.roll() >= left) continue;
        const Ns within = dice_.roll() < 0.8 ? 2 * round_ns_ : 60 * kSecond;
        const Ns in = static_cast<Ns>(dice_.roll() * static_cast<double>(within));
        queue_.push({.at = now_ + in, .who = kEveryone, .token = kind, .what = What::kFault});
    }
}

/// Mostly short; now and then longer than anyone waits for.
Ns World::a_while() {
    const double kind = draws_.uniform();
    if (quiet_ || kind < 0.6) return draws_.between(10 * kMillisecond, 3 * kSecond);
    if (kind < 0.9) return draws_.between(kSecond, 25 * kSecond);
    return draws_.between(10 * kSecond, 130 * kSecond);
}

void World::fault(const Event& e) {
    if (quiet_ || coordinator_done_ || !dice_.happens()) return;
    switch (static_cast<Kind>(e.token)) {
        case kCrashSite:
            return crash_a_site();
        case kCrashCoordinator:
            return crash_the_coordinator();
        case kStop:
            return stop_something();
        case kPartition:
            return part();
        case kOperate:
            return operate();
    }
}

/// Whether the run's newest state lives on without this site, and what may become it: a result that
/// was voted for is committed whether or not the voters live. Without a checkpoint store it must:
/// the state that nobody holds any more ends the run, and rightly.
bool World::can_spare(std::uint32_t who) const {
    if (!checks_.started()) return true;
    const StateName& newest = checks_.newest();
    const auto& voted = sites_[who].staged;
    bool holder = false, voter = !voted;
    for (std::uint32_t i = 0; i < sites_.size(); ++i) {
        const LocalSite& site = sites_[i];
        if (i == who || !site.process.up || site.dropped || site.drained ||
            site.process.dies_at_action)
            continue;
        const bool staged = site.staged && *site.staged == newest.hash;
        holder = holder || site.model == newest || staged;
        voter = voter || site.staged == voted || site.model.hash == *voted;
    }
    return holder && voter;
}

std::optional<std::uint32_t> World::any_site(bool spare) {
    const std::uint32_t first = draws_.below(sites_.size());
    for (std::uint32_t i = 0; i < sites_.size(); ++i) {
        const auto who = static_cast<std::uint32_t>((first + i) % sites_.size());
        if (sites_[who].process.up && (!spare || can_spare(who))) return who;
    }
    return std::nullopt;
}

void World::crash_a_site() {
    const auto who = any_site(true);
    if (!who) return;
    if (draws_.chance(0.5)) {
        sites_[*who].process.dies_at_action = true;
        return;
    }
    ++result_.crashes;
    kill(*who);
    start_later(*who, a_while());
}

void World::crash_the_coordinator() {
    if (!coordinator_.up) return;
    if (draws_.chance(0.6)) {
        coordinator_.dies_at_action = true;
        return;
    }
    ++result_.crashes;
    kill(kCoordinator);
    start_later(kCoordinator, a_while());
}

void World::stop_something() {
    if (draws_.chance(0.2)) return stop_process(kCoordinator, a_while());
    if (const auto who = any_site(false)) stop_process(*who, a_while());
}

void World::part() {
    Partition p{.a = draws_.below(sites_.size()), .b = kCoordinator, .until = now_ + a_while()};
    const double kind = draws_.uniform();
    if (kind < 0.15) {
        p.b = kEveryone;
    } else if (kind < 0.25) {
        p.a = kCoordinator;
        p.b = kEveryone;
    } else if (kind < 0.65 && sites_.size() > 1) {
        p.b =
            static_cast<std::uint32_t>((p.a + 1 + draws_.below(sites_.size() - 1)) % sites_.size());
    }
    p.holds_back = draws_.chance(0.5);
    if (tracing()) {
        note(p.a, fmt::format("is cut off from {} for {:.1f} s", name_of_process(p.b),
                              static_cast<double>(p.until - now_) / 1e9));
    }
    // Somebody may notice before it is back.
    if (p.b == kCoordinator && draws_.chance(0.3)) {
        queue_.push({.at = now_ + kSecond,
                     .who = p.a,
                     .life = sites_[p.a].process.life,
                     .what = What::kDisconnected});
    }
    queue_.push({.at = p.until, .who = kEveryone, .what = What::kHeal});
    partitions_.push_back(p);
}

void World::heal() {
    std::erase_if(partitions_, [&](const Partition& p) { return p.until <= now_; });
}

void World::operate() {
    if (!coordinator_.up || coordinator_.stopped) return;
    if (draws_.chance(0.4)) {
        coordinator_step(Operate{Operate::What::kPause, {}});
        queue_.push({.at = now_ + a_while(),
                     .who = kEveryone,
                     .token = kResumeRun,
                     .what = What::kOperator});
        return;
    }
    const auto who = any_site(true);
    if (!who) return;
    LocalSite& site = sites_[*who];
    const std::size_t here = static_cast<std::size_t>(
        std::count_if(sites_.begin(), sites_.end(), [](const LocalSite& s) { return !s.dropped; }));
    // A site that is dropped stays away; the run's last two stay.
    if (draws_.chance(0.1) && here > 2 && !site.dropped && checks_.started()) {
        site.dropped = true;
        if (tracing()) note(*who, "is dropped by an operator");
        return coordinator_step(Operate{Operate::What::kDrop, site.name});
    }
    site.drained = true;
    if (tracing()) note(*who, "is drained by an operator");
    coordinator_step(Operate{Operate::What::kDrain, site.name});
}

void World::operator_again(const Event& e) {
    if (coordinator_done_) return;
    if (!coordinator_.up || coordinator_.stopped) {
        // A new process knows nothing of a pause; a stopped one is asked again later.
        queue_.push({.at = now_ + kSecond, .who = e.who, .token = e.token, .what = e.what});
        return;
    }
    coordinator_step(Operate{Operate::What::kResume, {}});
}

/// From here on nothing fails any more; what has failed comes back.
void World::end_faults() {
    quiet_ = true;
    faults_ = {};
    for (Partition& p : partitions_) p.until = now_;
    heal();
    if (tracing()) note(kEveryone, "from here on nothing fails");
    for (std::uint32_t i = 0; i <= sites_.size(); ++i) {
        const std::uint32_t who = i < sites_.size() ? i : kCoordinator;
        Process& p = process(who);
        p.dies_at_action = false;
        if (p.stopped) at(now_, What::kWake, who, p.wake);
        if (!p.up && (who == kCoordinator || !sites_[who].dropped))
            start_later(who, draws_.between(kMillisecond, 3 * kSecond));
    }
}

}  // namespace isthmus::outer::simulator
