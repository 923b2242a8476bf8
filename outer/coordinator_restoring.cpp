// Copies of the run's state for those who come without it (PROTOCOL 19): one joiner at a time.
#include <algorithm>

#include "outer/coordinator_step.hpp"

namespace isthmus::outer {

/// Inner moments are to come from a donor, as long as there is one.
bool CoordinatorStep::lacks_moments(const Site& site) const {
    if (site.has_moments || s_.newest.round == Round(0)) return false;
    return std::any_of(s_.sites.begin(), s_.sites.end(), [&](const Site& other) {
        return &other != &site && other.identified && other.has_moments && other.state == s_.newest;
    });
}

/// One joiner at a time gets a copy, from up to two donors that hold the newest state now.
void CoordinatorStep::plan_restoring() {
    if (!s_.started || s_.restoring) return;
    for (SiteId joiner : which([&](const Site& s) {
             return s.identified && s.standing == Standing::kFollower && !s.barred && !s.done &&
                    (!(s.state == s_.newest) || lacks_moments(s));
         })) {
        const Site& site = at(joiner);
        auto donors = holders();
        std::erase(donors, joiner);
        // One result behind: it fetches that from any holder, told by the beat.
        if (s_.last_commit && site.state == s_.before_newest && !lacks_moments(site) &&
            !donors.empty())
            continue;
        if (lacks_moments(site)) {
            std::stable_partition(donors.begin(), donors.end(),
                                  [&](SiteId d) { return at(d).has_moments; });
        }
        if (donors.empty()) continue;
        if (donors.size() > 2) donors.resize(2);
        s_.restoring.emplace();
        s_.restoring->joiner = joiner;
        s_.restoring->asked = donors;
        s_.restoring->since = now_;
        s_.restoring->moments = lacks_moments(site);
        say(donors.front(), Pin{.moments = s_.restoring->moments});
        if (donors.size() > 1) say(donors[1], Pin{.moments = false});
        report(fmt::format("site {} is restored from site {}", site.name, at(donors.front()).name));
        return;
    }
}

void CoordinatorStep::on(SiteId id, const Pinned& pinned) {
    if (!s_.restoring || !std::count(s_.restoring->asked.begin(), s_.restoring->asked.end(), id)) {
        return say(id, Unpin{});
    }
    auto& r = *s_.restoring;
    if (std::count(r.pinned.begin(), r.pinned.end(), id)) return;
    // The copies must be of one state; the first donor's has the moments.
    if (r.pinned.empty()) r.state = pinned.state;
    if (!(pinned.state == r.state)) {
        if (r.moments && id == r.asked.front()) return end_restoring();
        std::erase(r.asked, id);
        return say(id, Unpin{});
    }
    if (id == r.asked.front()) {
        r.pinned.insert(r.pinned.begin(), id);
    } else {
        r.pinned.push_back(id);
    }
    tell_joiner();
}

/// Said until the joiner holds it.
void CoordinatorStep::tell_joiner() {
    if (!s_.restoring) return;
    auto& r = *s_.restoring;
    for (std::size_t i = 0; i < r.asked.size(); ++i) {
        if (std::count(r.pinned.begin(), r.pinned.end(), r.asked[i]) > 0) continue;
        say(r.asked[i], Pin{.moments = i == 0 && r.moments});
    }
    // Moments come from the first that was asked.
    if (r.pinned.empty() || (r.moments && r.pinned.front() != r.asked.front())) return;
    Restore restore{.state = r.state, .donors = {}, .moments = r.moments};
    for (SiteId donor : r.pinned) restore.donors.push_back(peer_of(donor));
    say(r.joiner, std::move(restore));
}

void CoordinatorStep::end_restoring() {
    const State::Restoring r = *s_.restoring;
    s_.restoring.reset();
    if (over()) s_.waiting_since = now_;  // the next one's time begins
    for (SiteId donor : r.asked) {
        if (at(donor).identified) say(donor, Unpin{});
    }
}

void CoordinatorStep::forget_restoring_of(SiteId id) {
    if (!s_.restoring) return;
    if (s_.restoring->joiner == id) return end_restoring();
    // Without the donor of the moments that part begins again, with another donor.
    if (s_.restoring->moments && s_.restoring->asked.front() == id) return end_restoring();
    std::erase(s_.restoring->asked, id);
    std::erase(s_.restoring->pinned, id);
    if (s_.restoring->asked.empty()) end_restoring();
}

}  // namespace isthmus::outer
