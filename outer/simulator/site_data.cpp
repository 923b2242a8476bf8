// What sites send each other: inputs and means of a round, copies of a state, results of a round.
#include <algorithm>

#include "base/check.hpp"
#include "outer/simulator/world.hpp"

namespace isthmus::outer::simulator {

namespace {

/// Between two looks at a transfer that does not move.
constexpr Ns kFirstLook = 100 * kMillisecond, kLongestLook = 2 * kSecond;
/// Nothing of a peer for so long: missing (four times Budget::ask_again).
constexpr Ns kMissing = 8 * kSecond;
/// That a donor keeps for a joiner (state_transfer.cpp).
constexpr std::size_t kMaxResults = 64;
/// Looks at a fetch before it is given up.
constexpr std::uint32_t kFetchLooks = 6;

const Participant* find(const Begin& b, SiteId site) {
    for (const Participant& p : b.participants) {
        if (p.peer.site == site) return &p;
    }
    return nullptr;
}

}  // namespace

// ---- a round ----

void World::on(std::uint32_t who, Exchange& exchange) {
    LocalSite& site = sites_[who];
    site.begun = exchange.begin.attempt;
    site.staged.reset();
    site.exchange_moved = now_;
    site.look_in = kFirstLook;
    at(now_ + draws_.between(50 * kMillisecond, 500 * kMillisecond), What::kExchanging, who,
       ++site.exchange);
}

/// In an all-gather everyone needs every input; else owners do, and everyone needs the owners.
bool World::needs(const Begin& b, const Participant& me, const Participant& other) const {
    if (b.method == Method::kSolo) return false;
    if (b.method == Method::kAllGather) return other.weight > 0;
    return other.share > 0 || (me.share > 0 && other.weight > 0);
}

/// Whether this participant's data comes through now: it serves from the moment it has begun the
/// attempt for as long as its cut is not replaced.
bool World::gives(std::uint32_t from, std::uint32_t to, const Participant& p,
                  const Attempt& attempt) const {
    const LocalSite& site = sites_[from];
    if (!site.process.up || site.process.stopped || site.process.life != p.cut.incarnation ||
        !reach(from, to))
        return false;
    return site.offered == p.cut && site.begun == attempt;
}

std::vector<InputReport> World::inspect(const Begin& b, SiteId self) const {
    std::vector<InputReport> reports;
    const Participant* me = find(b, self);
    if (b.method == Method::kSolo || (b.method == Method::kOwners && me->share <= 0))
        return reports;
    for (const Participant& p : b.participants) {
        if (p.weight <= 0) continue;
        const LocalSite& site = sites_[index_of(p.peer.name)];
        const double share = b.method == Method::kOwners ? static_cast<double>(me->share) : 1.0;
        reports.push_back({.site = p.peer.site,
                           .finite = !site.not_finite,
                           .sum_of_squares = site.norm * site.norm * share});
    }
    return reports;
}

/// The mean of an owner that lacks an input does not come either.
void World::add_owners_without_input(const Begin& b, const Participant& me,
                                     std::vector<SiteId>& missing) const {
    if (b.method != Method::kOwners || partitions_.empty()) return;
    for (const Participant& owner : b.participants) {
        if (&owner == &me || owner.share <= 0) continue;
        const std::uint32_t to = index_of(owner.peer.name);
        if (sites_[to].staged || std::count(missing.begin(), missing.end(), owner.peer.site) > 0)
            continue;
        const bool lacks =
            std::any_of(b.participants.begin(), b.participants.end(), [&](const Participant& p) {
                return &p != &owner && p.weight > 0 &&
                       !gives(index_of(p.peer.name), to, p, b.attempt);
            });
        if (lacks) missing.push_back(owner.peer.site);
    }
}

void World::look_at_exchange(const Event& e) {
    LocalSite& site = sites_[e.who];
    if (!site.state.begin || site.state.begin->attempt != site.begun) return;
    const Begin& b = *site.state.begin;
    const Participant* me = find(b, site.state.self);
    CHECK(me != nullptr);
    ExchangeFailed failed{.attempt = b.attempt, .missing = {}, .inputs = {}, .why = {}};
    for (const Participant& p : b.participants) {
        if (&p == me || !needs(b, *me, p)) continue;
        if (!gives(index_of(p.peer.name), e.who, p, b.attempt))
            failed.missing.push_back(p.peer.site);
    }
    add_owners_without_input(b, *me, failed.missing);
    if (failed.missing.empty()) {
        ++site.moved;
        std::vector<InputReport> inputs = inspect(b, site.state.self);
        const bool finite = std::all_of(inputs.begin(), inputs.end(),
                                        [](const InputReport& i) { return i.finite; });
        if (!finite) {
            failed.inputs = std::move(inputs);
            return site_step(e.who, std::move(failed));
        }
        // A mean that nobody owns in good order does not come.
        const bool owned =
            std::all_of(b.participants.begin(), b.participants.end(), [&](const Participant& p) {
                return b.method != Method::kOwners || p.weight <= 0 ||
                       !sites_[index_of(p.peer.name)].not_finite;
            });
        if (owned) {
            MeanHash mean(b.from.hash, b.optimizer);
            for (const Participant& p : b.participants) {
                if (p.weight > 0) mean.add(p.cut, p.weight);
            }
            site.staged = mean.result();
            return site_step(e.who, Exchanged{b.attempt, *site.staged, std::move(inputs)});
        }
    } else if (now_ - site.exchange_moved >= kMissing) {
        if (tracing()) note(e.who, fmt::format("misses {} peers", failed.missing.size()));
        return site_step(e.who, std::move(failed));
    }
    site.look_in = std::min(2 * site.look_in, kLongestLook);
    at(now_ + site.look_in, What::kExchanging, e.who, e.token);
}

void World::on(std::uint32_t who, Apply& apply) {
    LocalSite& site = sites_[who];
    const Commit& c = apply.commit;
    const std::string name = "site " + site.name;
    if (!site.lent || !site.staged || site.begun != c.attempt || *site.staged != c.to.hash ||
        !(site.model == c.from))
        return break_promise(name, "it applies what it has not staged");
    set_model(who, c.to);
    keep_result(who, c.from, c.to);
    if (std::count(c.contributors.begin(), c.contributors.end(), site.state.self) > 0) {
        site.counted = true;
        check(name, checks_.counted(c.to.round, site.state.self, site.cursor.trained(),
                                    site.cursor.skipped()));
    }
    site.staged.reset();
    site.begun.reset();
    site.offered.reset();
}

void World::set_model(std::uint32_t who, const StateName& state) {
    LocalSite& site = sites_[who];
    site.model = state;
    site.mixed_in = site.num_mixed_in = 0;
    if (tracing()) note(who, fmt::format("holds round {}", state.round.value));
    check("site " + site.name, checks_.holds(state));
}

void World::keep_result(std::uint32_t who, const StateName& from, const StateName& to) {
    LocalSite& site = sites_[who];
    site.results.push_back({from, to});
    const std::size_t kept = site.snapshot ? kMaxResults : 1;
    while (site.results.size() > kept) site.results.pop_front();
}

// ---- copies and results for those who come late ----

void World::on(std::uint32_t who, Snapshot& snapshot) {
    LocalSite& site = sites_[who];
    site.snapshot.reset();
    if (snapshot.moments && !site.lent) {
        site.wants_moments = true;
        const Ns into = (now_ - site.work_began) % site.step_time;
        return at(now_ + site.step_time - into, What::kSnapshot, who);
    }
    site.snapshot = site.model;
    site.snapshot_moments = snapshot.moments;
    site_step(who, Snapshotted{site.model, site.steps_made});
}

/// The training thread is between two steps.
void World::snapshot_at_step(std::uint32_t who) {
    LocalSite& site = sites_[who];
    if (!std::exchange(site.wants_moments, false) || !site.state.pinning) return;
    site.snapshot = site.model;
    site.snapshot_moments = true;
    site_step(who, Snapshotted{site.model, site.steps_made});
}

void World::on(std::uint32_t who, DropSnapshot&) {
    LocalSite& site = sites_[who];
    site.wants_moments = false;
    site.snapshot.reset();
    while (site.results.size() > 1) site.results.pop_front();
}

void World::on(std::uint32_t who, FetchCopy& fetch) {
    if (waits_for_model(who, fetch)) return;
    LocalSite& site = sites_[who];
    site.copying = fetch.restore;
    site.holders.clear();
    site.looks = 0;
    at(now_ + draws_.between(200 * kMillisecond, 10 * kSecond), What::kFetching, who, ++site.fetch);
}

void World::on(std::uint32_t who, FetchResult& fetch) {
    if (waits_for_model(who, fetch)) return;
    LocalSite& site = sites_[who];
    if (!(fetch.from == site.model))
        return break_promise("site " + site.name, "it fetches the result after another state");
    site.copying.reset();
    site.holders = fetch.holders;
    site.looks = 0;
    at(now_ + draws_.between(50 * kMillisecond, 2 * kSecond), What::kFetching, who, ++site.fetch);
}

void World::look_at_fetch(const Event& e) {
    LocalSite& site = sites_[e.who];
    auto fetched = site.copying ? copy_from_donors(e.who) : result_from_holders(e.who);
    if (over_) return;
    if (fetched) {
        ++site.moved;
        if (site.copying) ++result_.restored;
        return site_step(e.who, *fetched);
    }
    if (++site.looks < kFetchLooks) return at(now_ + kLongestLook, What::kFetching, e.who, e.token);
    site_step(e.who, FetchFailed{"no donor has it"});
}

std::optional<Fetched> World::copy_from_donors(std::uint32_t who) {
    LocalSite& site = sites_[who];
    const Restore& restore = *site.copying;
    for (std::size_t i = 0; i < restore.donors.size(); ++i) {
        const std::uint32_t from = index_of(restore.donors[i].name);
        const LocalSite& donor = sites_[from];
        if (!donor.process.up || donor.process.stopped || !reach(from, who) ||
            donor.snapshot != restore.state)
            continue;
        // Only the first has the moments.
        if (restore.moments && (i > 0 || !donor.snapshot_moments)) continue;
        set_model(who, restore.state);
        site.moments = site.moments || restore.moments;
        site.results.clear();
        return Fetched{restore.state, restore.moments};
    }
    return std::nullopt;
}

std::optional<Fetched> World::result_from_holders(std::uint32_t who) {
    LocalSite& site = sites_[who];
    for (const SiteId holder : site.holders) {
        const std::uint32_t from = index_of(holder);
        const LocalSite& donor = sites_[from];
        if (!donor.process.up || donor.process.stopped || !reach(from, who)) continue;
        for (const LocalSite::Result& result : donor.results) {
            if (!(result.from == site.model)) continue;
            const StateName to = result.to, before = result.from;
            set_model(who, to);
            keep_result(who, before, to);
            return Fetched{to, false};
        }
    }
    return std::nullopt;
}

}  // namespace isthmus::outer::simulator
