// A site's driver and its training thread. The model is lent to the driver while the thread waits;
// what needs it meanwhile waits until the thread is through with its step (SiteNetwork).
#include <algorithm>

#include "base/check.hpp"
#include "outer/simulator/world.hpp"

namespace isthmus::outer::simulator {

namespace {

constexpr std::uint64_t kTokensPerSample = 8;
/// Probability that a step's gradients are not finite, where inputs may be bad too.
constexpr double kSkipped = 0.02;

double seconds(Ns ns) {
    return static_cast<double>(ns) / static_cast<double>(kSecond);
}

}  // namespace

void World::start_site(std::uint32_t who) {
    LocalSite fresh;
    LocalSite& site = sites_[who];
    fresh.process = std::move(site.process);
    fresh.name = std::move(site.name);
    fresh.step_time = site.step_time;
    fresh.dropped = site.dropped;
    site = std::move(fresh);
    Process& p = site.process;
    p.up = true;
    if (p.life == 0) p.life = 1;
    p.draw = draws_.bits();
    p.rate = 1 + faults_.clock_skew * (2 * draws_.uniform() - 1);
    p.offset = draws_.between(0, 1000 * kSecond);
    p.gate.emplace(run_options_.budget, p.clock(now_));
    site.model = initial_;
    Hello hello;
    hello.name = site.name;
    hello.incarnation = {p.life, p.draw};
    hello.endpoint = "d:" + site.name;
    hello.state = site.model;
    site.state = make_site(run_options_.budget, std::move(hello), p.clock(now_));
    if (tracing()) note(who, fmt::format("starts, process {}", p.life));
    at(now_, What::kSiteTick, who);
}

void World::site_step(std::uint32_t who, const SiteEvent& event) {
    LocalSite& site = sites_[who];
    act(who, step(site.state, event, site.process.clock(now_)));
    if (over_ || !site.process.up) return;
    if (!(site.state.state == site.model) && !site.state.fetching && site.waiting.empty())
        break_promise("site " + site.name, "it says that it holds another state than it does");
}

void World::site_tick(const Event& e) {
    LocalSite& site = sites_[e.who];
    Process& p = site.process;
    at(now_ + static_cast<Ns>(1e9 / p.rate) + 1000, e.what, e.who);
    SiteTick tick;
    const std::int64_t steps = steps_made(site);
    tick.progress = site.steps_before + static_cast<std::uint64_t>(steps) + site.moved;
    tick.step = site.work ? site.work->from_step + steps : 0;
    tick.judge = p.gate->open(p.clock(now_));
    site_step(e.who, tick);
}

void World::act(std::uint32_t who, SiteActions actions) {
    Process& p = sites_[who].process;
    std::size_t dies_after = actions.size() + 1;
    if (p.dies_at_action && !actions.empty() && can_spare(who))
        dies_after = draws_.below(actions.size() + 1);
    const std::uint32_t life = p.life;
    for (std::size_t i = 0; i < actions.size() && !over_; ++i) {
        if (i == dies_after) break;
        std::visit([&](auto& a) { on(who, a); }, actions[i]);
        if (p.life != life) return;
    }
    if (dies_after > actions.size()) return;
    ++result_.crashes;
    kill(who);
    start_later(who, a_while());
}

void World::on(std::uint32_t who, Say& say) {
    send(What::kToCoordinator, who, sites_[who].process.life, std::move(say.message));
}

void World::on(std::uint32_t who, Report& report) {
    if (tracing()) note(who, "\"" + report.line + "\"");
}

/// A process that ends without having seen the end of the run is started again.
void World::on(std::uint32_t who, End& end) {
    LocalSite& site = sites_[who];
    if (tracing()) note(who, end.good ? "ends" : "ends: " + end.reason);
    site.ended_good = end.good;
    site.saw_end = end.good && site.state.last;
    kill(who);
    if (!site.saw_end && !site.dropped && !coordinator_done_) start_later(who, a_while());
}

// ---- the training thread ----

std::int64_t World::steps_made(const LocalSite& site) const {
    if (!site.work || site.lent) return site.steps_made;
    const Ns until = site.process.stopped ? site.process.stopped_at : now_;
    return std::clamp<std::int64_t>((until - site.work_began) / site.step_time, 0,
                                    site.work->num_steps);
}

/// True: the training thread still has the model.
bool World::waits_for_model(std::uint32_t who, SiteAction action) {
    if (sites_[who].lent) return false;
    sites_[who].waiting.push_back(std::move(action));
    raise_hold(who);
    return true;
}

/// It gives in at the end of the step it is in.
void World::raise_hold(std::uint32_t who) {
    LocalSite& site = sites_[who];
    if (site.lent || std::exchange(site.hold, true)) return;
    const Ns into = std::max<Ns>(0, now_ - site.work_began);
    const std::int64_t steps =
        std::min<std::int64_t>(into / site.step_time + 1, site.work->num_steps);
    if (steps < site.work->num_steps)
        at(site.work_began + steps * site.step_time, What::kTrained, who, ++site.train);
}

void World::on(std::uint32_t who, Hold&) {
    raise_hold(who);
}

void World::on(std::uint32_t who, Discard& discard) {
    LocalSite& site = sites_[who];
    site.staged.reset();
    site.begun.reset();
    site.offered.reset();
    ++site.exchange;
    if (!discard.reset) return;
    site.void_samples = true;
    if (waits_for_model(who, discard)) return;
    site.mixed_in = site.num_mixed_in = 0;
}

void World::on(std::uint32_t who, Train& train) {
    if (waits_for_model(who, train)) return;
    LocalSite& site = sites_[who];
    if (site.void_samples) site.cursor.reset();
    if (site.counted) site.cursor.taken_over();
    site.void_samples = site.counted = site.hold = false;
    if (train.from_state && site.num_mixed_in > 0)
        return break_promise("site " + site.name, "it trains on from parameters that are no state");
    site.steps_before += static_cast<std::uint64_t>(site.steps_made);
    site.steps_made = 0;
    site.cursor.grant(train.assignment.samples);
    site.work = train.assignment;
    const auto samples = static_cast<std::uint64_t>(site.work->num_steps) *
                         static_cast<std::uint64_t>(run_options_.samples_per_step);
    if (site.cursor.left() != samples)
        return break_promise("site " + site.name,
                             fmt::format("it has {} samples for {} steps", site.cursor.left(),
                                         site.work->num_steps));
    site.lent = false;
    site.work_began = now_;
    at(now_ + site.work->num_steps * site.step_time, What::kTrained, who, ++site.train);
}

void World::on(std::uint32_t who, Complete& complete) {
    if (waits_for_model(who, complete)) return;
    at(now_ + draws_.between(kMillisecond, kSecond), What::kFinished, who);
}

void World::train_steps(std::uint32_t who, std::int64_t steps) {
    LocalSite& site = sites_[who];
    std::vector<SampleNumber> batch(static_cast<std::size_t>(run_options_.samples_per_step));
    for (std::int64_t i = 0; i < steps; ++i) {
        site.cursor.next(batch);
        const bool skipped = faults_.bad_numbers > 0 && draws_.chance(kSkipped);
        if (skipped) {
            site.cursor.mark_skipped(batch.size());
            continue;
        }
        for (const SampleNumber sample : batch) site.mixed_in ^= mix64(sample.value);
        site.num_mixed_in += batch.size();
    }
    site.steps_made = steps;
    site.moments = true;
}

/// The thread waits, and lends its model: its work is done, or it has to give in.
void World::lends(const Event& e) {
    LocalSite& site = sites_[e.who];
    const std::int64_t steps = steps_made(site);
    train_steps(e.who, steps);
    site.lent = true;
    const bool cut = steps == site.work->num_steps;
    std::deque<SiteAction> waiting = std::exchange(site.waiting, {});
    for (SiteAction& action : waiting) {
        if (over_ || !site.process.up) return;
        std::visit([&](auto& a) { on(e.who, a); }, action);
    }
    snapshot_at_step(e.who);
    if (over_ || !site.process.up) return;
    if (!cut || !site.lent || site.state.phase != SiteState::Phase::kTraining) return;
    Cut made = cut_of(e.who);
    const auto trained = made.trained, skipped = made.skipped;
    const std::uint32_t life = site.process.life;
    // Known before anyone can hear of it.
    checks_.cut({site.state.self, life, site.state.cuts + 1}, site.model, trained, skipped);
    site_step(e.who, std::move(made));
    if (site.process.up && site.state.phase == SiteState::Phase::kReady)
        site.offered = site.state.ready->cut;
}

Cut World::cut_of(std::uint32_t who) {
    LocalSite& site = sites_[who];
    Cut cut;
    cut.trained = site.cursor.trained();
    cut.skipped = site.cursor.skipped();
    std::uint64_t mixed = 0, count = 0;
    for (const SampleRange& r : cut.trained) {
        for (std::uint64_t n = r.first; n < r.end(); ++n) mixed ^= mix64(n);
        count += r.count;
    }
    cut.tokens = count * kTokensPerSample;
    if (mixed != site.mixed_in || count != site.num_mixed_in)
        break_promise("site " + site.name, "its cut lists other samples than its parameters saw");
    cut.figures.steps_per_s = 1.0 / seconds(site.step_time);
    if (run_options_.full_digest_rounds > 0 &&
        site.model.round.value % run_options_.full_digest_rounds == 0)
        cut.full_digest = std::pair(site.model.round, site.model.hash);
    site.not_finite = false;
    site.norm = 1 + draws_.uniform();
    if (dice_.chance(faults_.bad_numbers)) {
        site.not_finite = draws_.chance(0.7);
        site.norm = 1e6;
        if (tracing()) note(who, site.not_finite ? "cuts NaN" : "cuts large numbers");
    }
    return cut;
}

}  // namespace isthmus::outer::simulator
