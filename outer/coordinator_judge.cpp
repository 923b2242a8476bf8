// Who is silent, and who stands still while others wait for it (PROTOCOL 4).
#include <algorithm>
#include <utility>

#include "outer/coordinator_step.hpp"

namespace isthmus::outer {

namespace {

double seconds(std::chrono::steady_clock::duration d) {
    return std::chrono::duration<double>(d).count();
}

}  // namespace

void CoordinatorStep::judge() {
    judge_absent();
    if (s_.phase == Phase::kEnded) return;
    const Budget& budget = s_.options.budget;
    for (std::uint32_t i = 0; i < s_.sites.size(); ++i) {
        const SiteId id(i);
        const Site& site = at(id);
        if (site.identified) {
            const auto silent = now_ - site.heard;
            if (silent > (site.disconnected ? budget.silence() / 4 : budget.silence())) {
                lose(id, fmt::format("nothing heard of it for {:.1f} s", seconds(silent)));
                continue;
            }
            const std::string waiting = is_waited_for(id);
            const auto still = now_ - std::max(site.moved, s_.waiting_since);
            if (!waiting.empty() && still > patience(site)) {
                lose(id, fmt::format("it stands still for {:.1f} s ({})", seconds(still), waiting));
            }
        } else if (site.standing == Standing::kMember && now_ - site.heard > budget.round) {
            lose(id, "it did not come back to the restarted coordinator");
        }
    }
    if (s_.restoring && now_ - s_.restoring->since > budget.round) {
        const Site& joiner = at(s_.restoring->joiner);
        if (s_.restoring->pinned.empty() || now_ - joiner.moved > budget.round) {
            report(fmt::format("restoring site {} does not move; it is begun again", joiner.name),
                   true);
            end_restoring();
        }
    }
}

/// Who must be there and is not, or "": while a member trains nobody waits yet.
std::string CoordinatorStep::who_is_missing() const {
    if (over()) return {};
    if (!s_.started) {
        std::string missing;
        for (std::size_t i = 0; i < s_.options.sites.size(); ++i) {
            if (!s_.sites[i].identified)
                missing += (missing.empty() ? "site " : ", ") + s_.sites[i].name;
        }
        return missing;
    }
    const auto in = members();
    if (in.empty() && holders().empty())
        return fmt::format("a site that holds the state of round {}", s_.newest.round.value);
    if (!in.empty() && s_.phase == Phase::kTraining) return {};
    if (in.size() >= least_sites()) return {};
    return fmt::format("outer.min_sites = {} sites ({} of them here)", s_.options.min_sites,
                       in.size());
}

/// Waits for sites that must be there are said, and bounded too.
void CoordinatorStep::judge_absent() {
    if (s_.paused) return;
    const auto waiting = now_ - s_.waiting_since;
    const double waited = seconds(waiting);
    const std::string missing = who_is_missing();
    if (waiting <= s_.options.budget.join) {
        const std::int64_t budgets = waiting / s_.options.budget.round;
        const bool news = budgets != std::exchange(s_.waits_said, budgets) && budgets > 0;
        if (news && !missing.empty())
            report(fmt::format("waiting for {}, for {:.0f} s now", missing, waited), true);
        return;
    }
    if (over() && holders().empty()) {
        // What the last round gave is nowhere to be had for those who still wait for it.
        for (SiteId id : which([](const Site& s) { return s.identified; })) {
            say(id, Stop{"the run is over, and no site that holds its last state came back"});
            lose(id, "the last state is not to be had");
        }
    }
    if (!missing.empty())
        stop(fmt::format("after {:.1f} s of waiting: {} is not here", waited, missing));
}

/// What others wait for this site to do, or "".
std::string CoordinatorStep::is_waited_for(SiteId id) const {
    const Site& site = at(id);
    if (over()) {
        // One after the other is restored: until its turn comes a follower has nothing to do.
        const bool queues =
            site.standing == Standing::kFollower && s_.restoring && s_.restoring->joiner != id;
        return site.done || queues ? "" : "the end of the run";
    }
    if (site.standing != Standing::kMember) return {};
    if (s_.phase == Phase::kBarrier && !site.ready) return "others wait at the barrier";
    if (s_.phase == Phase::kExchange && takes_part(id) && !site.vote)
        return "others wait in the exchange";
    return {};
}

/// How long it may stand still meanwhile: the budget, or four of its own inner steps if those are
/// longer.
TimePoint::duration CoordinatorStep::patience(const Site& site) const {
    const Budget& budget = s_.options.budget;
    if (s_.phase != Phase::kBarrier) return budget.round;
    // Nobody knows yet how long its steps are.
    if (site.figures.steps_per_s <= 0) return std::max(budget.round, budget.join);
    const std::chrono::duration<double> steps(4.0 / site.figures.steps_per_s);
    return std::max<TimePoint::duration>(budget.round,
                                         std::chrono::duration_cast<TimePoint::duration>(steps));
}

}  // namespace isthmus::outer
