// What a site fetches while it follows, and serves to those who join (PROTOCOL 19).
#include <fmt/format.h>

#include "outer/site_step.hpp"

namespace isthmus::outer {

void SiteStep::on(const Snapshotted& made) {
    if (!s_.pinning) return;
    s_.pinning = false;
    s_.pinned = Pinned{made.state, made.step};
    say(*s_.pinned);
}

void SiteStep::on(const Fetched& f) {
    if (!s_.fetching) return;
    s_.fetching = false;
    if (s_.restore) s_.copied = true;
    s_.restore.reset();
    s_.state = f.state;
    if (f.moments) s_.hello.has_moments = true;
    follow();
}

void SiteStep::on(const FetchFailed& f) {
    if (!s_.fetching) return;
    s_.fetching = false;
    s_.restore.reset();
    s_.holders.clear();
    report(fmt::format("fetching the run's state failed: {}; asking again", f.reason));
    say_hello();
}

void SiteStep::hear(const Pin& pin) {
    if (s_.pinned) return say(*s_.pinned);
    if (s_.pinning) return;
    s_.pinning = true;
    actions_.push_back(Snapshot{pin.moments});
}

void SiteStep::hear(const Unpin&) {
    if (!s_.pinned && !s_.pinning) return;
    s_.pinned.reset();
    s_.pinning = false;
    actions_.push_back(DropSnapshot{});
}

void SiteStep::hear(const Restore& r) {
    if (s_.phase != Phase::kFollowing || r.donors.empty()) return;
    // It never goes back, not for moments either: the coordinator counts on a state once held. It
    // offers a newer copy when it hears that this one is behind.
    if (r.state.lineage < s_.state.lineage ||
        (r.state.lineage == s_.state.lineage && r.state.round < s_.state.round))
        return;
    const bool wanted = r.state.lineage > s_.state.lineage || r.state.round > s_.state.round ||
                        (r.state.round == s_.state.round && !(r.state == s_.state)) ||
                        (r.moments && !s_.hello.has_moments);
    if (!wanted) return;
    const bool same = s_.restore && s_.restore->state == r.state && s_.restore->donors == r.donors;
    if (s_.fetching && (same || !s_.restore)) return;
    s_.restore = r;
    s_.fetching = true;
    actions_.push_back(FetchCopy{r});
}

/// Without work: gets nearer to the newest state, and takes what it was given there.
void SiteStep::follow() {
    if (s_.phase != Phase::kFollowing || s_.fetching || s_.last || s_.drained) return;
    if (s_.pending && s_.pending->to == s_.state) {
        const Commit c = *s_.pending;
        s_.pending.reset();
        return go_on(c);
    }
    const bool one_behind =
        s_.state.lineage == s_.newest.lineage && s_.state.round < s_.newest.round;
    auto from = s_.holders;
    std::erase(from, s_.self);
    if (!one_behind || from.empty()) return;
    // Results older than the newest are only kept for whoever was given a copy.
    const bool newest_only = s_.state.round.value + 1 == s_.newest.round.value;
    if (!newest_only && !s_.copied) return;
    s_.fetching = true;
    actions_.push_back(FetchResult{s_.state, std::move(from)});
}

}  // namespace isthmus::outer
