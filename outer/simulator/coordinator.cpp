// A coordinator's driver and its disk.
#include <algorithm>

#include "base/check.hpp"
#include "outer/simulator/world.hpp"

namespace isthmus::outer::simulator {

namespace {

/// Records after which a whole replay is too dear to be compared at every commit.
constexpr std::size_t kReplayed = 300;
/// Commits between two comparisons.
constexpr std::uint64_t kReplayEvery = 8;

}  // namespace

void World::start_coordinator() {
    Process& p = coordinator_;
    p.up = true;
    p.draw = draws_.bits();
    p.rate = 1 + faults_.clock_skew * (2 * draws_.uniform() - 1);
    p.offset = draws_.between(0, 1000 * kSecond);
    p.gate.emplace(run_options_.budget, p.clock(now_));
    std::fill(connection_.begin(), connection_.end(), 0);
    if (!disk_.empty()) ++result_.restarts_of_coordinator;
    CoordinatorOptions options = run_options_;
    options.self.nonce = p.draw;
    auto made = make_coordinator(options, disk_, head_, p.clock(now_));
    if (!made) return break_promise("the coordinator", made.error().message);
    coordinator_state_ = std::make_unique<CoordinatorState>(std::move(made->first));
    if (tracing()) note(kCoordinator, fmt::format("starts from {} records", disk_.size()));
    at(now_, What::kCoordinatorTick, kCoordinator);
    act(std::move(made->second));
}

/// As CoordinatorDriver does: a connection is somebody's once its HELLO was taken.
void World::coordinator_hears(const Event& e, Message message) {
    if (!coordinator_.up) {
        // Queued by the sender until it is connected again, or lost with the connection.
        if (!coordinator_done_ && e.life == sites_[e.who].process.life && draws_.chance(0.5))
            post(What::kToCoordinator, e.who, e.life, std::move(message), kSecond);
        return;
    }
    if (tracing())
        note(kCoordinator, fmt::format("hears of {}: {}", sites_[e.who].name, describe(message)));
    std::uint32_t& connection = connection_[e.who];
    if (const auto* hello = std::get_if<Hello>(&message)) {
        const std::uint32_t before = connection;
        const Incarnation incarnation = hello->incarnation;
        connection = e.life;
        coordinator_step(HeardFrom{sites_[e.who].name, std::move(message)});
        if (!coordinator_state_) return;
        const auto& known = coordinator_state_->sites;
        const bool taken = std::any_of(known.begin(), known.end(), [&](const auto& s) {
            return s.incarnation == incarnation && s.name == sites_[e.who].name;
        });
        if (!taken && before != 0) connection = before;
        return;
    }
    if (connection == e.life)
        return coordinator_step(HeardFrom{sites_[e.who].name, std::move(message)});
    send(What::kToSite, e.who, e.life, Identify{coordinator_state_->options.self});
}

void World::coordinator_step(const CoordinatorEvent& event) {
    act(step(*coordinator_state_, event, coordinator_.clock(now_)));
}

void World::act(CoordinatorActions actions) {
    if (actions.empty()) return look_at_coordinator();
    std::size_t dies_after = actions.size() + 1;
    if (coordinator_.dies_at_action) dies_after = draws_.below(actions.size() + 1);
    const std::uint64_t rounds = checks_.rounds();
    for (std::size_t i = 0; i < actions.size() && !over_; ++i) {
        if (i == dies_after) break;
        if (auto* append_records = std::get_if<Append>(&actions[i])) {
            if (append(*append_records)) continue;
            dies_after = i;
            break;
        } else if (auto* said = std::get_if<SayTo>(&actions[i])) {
            say(*said);
        } else if (const auto* line = std::get_if<Report>(&actions[i])) {
            if (tracing()) note(kCoordinator, "\"" + line->line + "\"");
        } else if (const auto* end = std::get_if<End>(&actions[i])) {
            if (!end->good) return break_promise("the coordinator", "it ends: " + end->reason);
            coordinator_done_ = true;
            kill(kCoordinator);
            return;
        }
    }
    if (over_) return;
    if (dies_after <= actions.size()) {
        ++result_.crashes;
        kill(kCoordinator);
        return start_later(kCoordinator, a_while());
    }
    if (checks_.rounds() != rounds) {
        check("the coordinator", checks_.believed(*coordinator_state_));
        if (disk_.size() < kReplayed || checks_.rounds() % kReplayEvery == 0)
            check("the journal",
                  Checks::replays(disk_, *coordinator_state_, coordinator_.clock(now_)));
    }
    look_at_coordinator();
}

/// False: the process ends at once, and only what lies on the disk is true.
bool World::append(Append& records) {
    std::size_t survive = records.records.size();
    const bool fails = dice_.chance(faults_.disk);
    if (fails) survive = draws_.below(records.records.size() + 1);
    for (std::size_t i = 0; i < survive; ++i) {
        if (tracing()) note(kCoordinator, "writes " + describe(records.records[i]));
        check("the journal", checks_.durable(records.records[i]));
        if (over_) return true;
        head_.hash = mix64(head_.hash ^ draws_.bits());
        ++head_.count;
        disk_.push_back(std::move(records.records[i]));
    }
    if (fails && tracing())
        note(kCoordinator, fmt::format("its disk fails after {} records", survive));
    coordinator_state_->journal = head_;
    return !fails;
}

void World::say(SayTo& said) {
    if (auto* welcome = std::get_if<Welcome>(&said.message)) welcome->journal = head_;
    if (auto* commit = std::get_if<Commit>(&said.message)) commit->journal = head_;
    const std::uint32_t site = index_of(said.name);
    if (connection_[site] == 0) return;  // it did not come back yet
    if (tracing())
        note(kCoordinator, fmt::format("says to {}: {}", said.name, describe(said.message)));
    send(What::kToSite, site, connection_[site], std::move(said.message));
}

/// A meeting further: its faults are drawn.
void World::look_at_coordinator() {
    const std::uint64_t meeting = checks_.rounds() + checks_.abandoned();
    if (meeting <= last_meeting_) return;
    last_meeting_ = meeting;
    progress_at_ = now_;
    const auto end = options_.faults_end * static_cast<double>(options_.meetings);
    if (!quiet_ && static_cast<double>(meeting) >= end) end_faults();
    if (!quiet_) plan_faults();
}

}  // namespace isthmus::outer::simulator
