// A round from READY to BEGIN, and how it ends: COMMIT, ABANDON or a new attempt.
#include <algorithm>
#include <map>
#include <numeric>

#include "base/check.hpp"
#include "outer/coordinator_step.hpp"
#include "outer/shares.hpp"

namespace isthmus::outer {

void CoordinatorStep::on(SiteId id, const Ready& ready) {
    Site& site = at(id);
    if (over() || site.done) return;  // an echo; the beat says that the run is over
    if (ready.cut.incarnation != site.incarnation.number) return;
    if (site.standing != Standing::kMember || !site.assignment)
        return say(id, Identify{s_.options.self});
    if (ready.meeting < s_.meeting) return repair(id, ready.meeting);
    if (ready.meeting != s_.meeting) return;
    if (!(ready.state == s_.newest))
        return lose(id, "it is ready with a state that is not the run's newest");
    // Together: the two lists must not overlap either.
    std::vector<SampleRange> samples = ready.trained;
    samples.insert(samples.end(), ready.skipped.begin(), ready.skipped.end());
    if (!s_.ledger.leased(id, site.incarnation, samples)) {
        return lose(id, "it trained samples that are not leased to it");
    }
    if (s_.phase == Phase::kExchange && takes_part(id)) {
        if (!site.vote) say(id, *s_.begin);
        return;
    }
    if (!site.ready) {
        if (s_.phase == Phase::kTraining) {
            s_.phase = Phase::kBarrier;
            s_.waiting_since = now_;
        }
        site.moved = now_;
        site.figures = ready.figures;
    }
    site.ready = ready;
    site.state = ready.state;
    try_begin();
}

void CoordinatorStep::try_begin() {
    if (s_.paused || s_.phase != Phase::kBarrier) return;
    const auto in = members();
    if (in.empty()) return;
    if (static_cast<std::int64_t>(in.size()) < s_.options.min_sites) return enroll();
    for (SiteId id : in) {
        if (!at(id).ready || !at(id).identified) return;
    }
    if (digests_agree()) begin();
}

/// Full digests of the states that members hold. One that differs from the others' is restored and
/// named; if none can be named, the run pauses.
bool CoordinatorStep::digests_agree() {
    std::map<StateHash, std::vector<SiteId>> by_digest;
    for (SiteId id : members()) {
        const auto& digest = at(id).ready->full_digest;
        if (digest && digest->first == s_.newest.round) by_digest[digest->second].push_back(id);
    }
    if (by_digest.size() < 2) return true;
    auto most = by_digest.begin();
    bool tie = false;
    for (auto it = std::next(most); it != by_digest.end(); ++it) {
        tie = it->second.size() == most->second.size() ||
              (tie && it->second.size() < most->second.size());
        if (it->second.size() > most->second.size()) most = it;
    }
    if (tie) {
        s_.paused = true;
        report(fmt::format("the sites hold different parameters under the name of round {}, and no "
                           "majority says which is "
                           "right: the run is paused; drop the site that is wrong, then resume",
                           s_.newest.round.value),
               true);
        return false;
    }
    for (const auto& [digest, sites] : by_digest) {
        if (digest == most->first) continue;
        for (SiteId id : sites) {
            at(id).state = {};
            lose(id, "its parameters differ from the others' under the same name");
        }
    }
    return s_.phase == Phase::kBarrier;
}

void CoordinatorStep::begin() {
    Begin b{.attempt = {.round = s_.newest.round,
                        .fragment = FragmentId(0),
                        .coordinator = s_.options.self.number,
                        .counter = ++s_.counter},
            .meeting = s_.meeting,
            .from = s_.newest,
            .participants = {},
            .codec = s_.options.codec,
            .optimizer = s_.options.optimizer,
            .method = Method::kAllGather,
            .seed = s_.options.seed};
    add_participants(b);
    const std::size_t n = b.participants.size();
    const bool any = std::any_of(b.participants.begin(), b.participants.end(),
                                 [](const auto& p) { return p.weight > 0; });
    if (!any) return abandon("no site has trained anything");
    if (n == 1 && b.optimizer.averages()) {
        b.method = Method::kSolo;
    } else if (n > 1) {
        b.method = s_.options.method.value_or(n > 2 ? Method::kOwners : Method::kAllGather);
        // Only owners need not reach everyone.
        if (!s_.unconnected.empty() && n > 2) b.method = Method::kOwners;
    }
    s_.begin = std::move(b);
    for (Site& site : s_.sites) site.vote.reset();
    ++s_.attempts;
    s_.phase = Phase::kExchange;
    s_.waiting_since = now_;
    for (const Participant& p : s_.begin->participants) say(p.peer.site, *s_.begin);
}

void CoordinatorStep::add_participants(Begin& b) const {
    std::vector<double> rates;
    for (SiteId id : members()) {
        const Site& site = at(id);
        const Ready& ready = *site.ready;
        const float weight = ready.tokens == 0            ? 0.0f
                             : s_.options.weigh_by_tokens ? static_cast<float>(ready.tokens)
                                                          : 1.0f;
        b.participants.push_back(
            {.peer = peer_of(id), .cut = ready.cut, .weight = weight, .share = 0});
        const auto configured = s_.options.rates.find(site.name);
        const double measured =
            std::min(site.figures.up_bytes_per_s, site.figures.down_bytes_per_s);
        rates.push_back(configured != s_.options.rates.end() ? configured->second : measured);
    }
    if (rates.empty()) return;
    // Measured rates only say which links differ much; noise should not move pieces about.
    if (s_.options.rates.empty() && *std::max_element(rates.begin(), rates.end()) <
                                        2.0 * *std::min_element(rates.begin(), rates.end())) {
        rates.assign(rates.size(), 1.0);
    }
    std::vector<float> shares = water_filled_shares(rates);
    const auto apart = [&](const Participant& p) {
        return std::any_of(s_.unconnected.begin(), s_.unconnected.end(), [&](const auto& pair) {
            return pair.first == p.peer.site || pair.second == p.peer.site;
        });
    };
    // Sites that are connected to all own everything (PROTOCOL 12), unless those were lost since.
    if (!s_.unconnected.empty() &&
        !std::all_of(b.participants.begin(), b.participants.end(), apart)) {
        for (std::size_t i = 0; i < shares.size(); ++i) {
            if (apart(b.participants[i])) shares[i] = 0;
        }
        // Their links may be so slow that they own nothing while all others do.
        float left = std::accumulate(shares.begin(), shares.end(), 0.0f);
        for (std::size_t i = 0; left <= 0 && i < shares.size(); ++i)
            shares[i] = apart(b.participants[i]) ? 0.0f : 1.0f;
        left = std::accumulate(shares.begin(), shares.end(), 0.0f);
        for (float& share : shares) share /= left;
    }
    for (std::size_t i = 0; i < shares.size(); ++i) b.participants[i].share = shares[i];
}

bool CoordinatorStep::takes_part(SiteId id) const {
    return s_.begin && std::any_of(s_.begin->participants.begin(), s_.begin->participants.end(),
                                   [&](const Participant& p) { return p.peer.site == id; });
}

/// A new attempt from the same cuts, with whoever is still here; after too many the meeting is
/// given up.
void CoordinatorStep::retry(const std::string& why) {
    const bool last = s_.meeting.value + 1 == s_.options.meetings.size();
    report(fmt::format("round {}: {}; attempt {} is void", s_.newest.round.value, why, s_.attempts),
           true);
    s_.phase = Phase::kBarrier;
    s_.waiting_since = now_;
    for (Site& site : s_.sites) site.vote.reset();
    std::erase_if(s_.unconnected, [&](const auto& pair) {
        return at(pair.first).standing != Standing::kMember ||
               at(pair.second).standing != Standing::kMember;
    });
    if (members().empty()) {
        s_.phase = Phase::kTraining;
        return;
    }
    // All sites must end with the same bits, so the last meeting is tried longer before the run
    // gives up.
    if (s_.attempts >= s_.options.max_attempts && !last) return abandon(why);
    if (s_.attempts >= 4 * s_.options.max_attempts)
        return stop(fmt::format("the last round cannot be completed: {}", why));
    try_begin();
}

CommitRecord CoordinatorStep::commit_record() const {
    CommitRecord record{
        .attempt = s_.begin->attempt,
        .meeting = s_.meeting,
        .from = s_.newest,
        .to = {.lineage = s_.newest.lineage, .round = Round(s_.newest.round.value + 1), .hash = {}},
        .contributors = {},
        .divisor = 0,
        .holders = {},
        .codec = s_.begin->codec,
        .method = s_.begin->method,
        .optimizer = s_.begin->optimizer};
    for (const Participant& p : s_.begin->participants) {
        const Site& site = at(p.peer.site);
        if (site.vote && site.vote->result) {
            record.to.hash = *site.vote->result;
            record.holders.push_back(p.peer.site);
        }
        if (p.weight <= 0) continue;
        record.divisor += p.weight;
        record.contributors.push_back({.site = p.peer.site,
                                       .incarnation = site.incarnation,
                                       .cut = p.cut,
                                       .weight = p.weight,
                                       .tokens = site.ready->tokens,
                                       .trained = site.ready->trained,
                                       .skipped = site.ready->skipped});
    }
    return record;
}

/// The result holds. `leaving`: a participant that was lost after the others had everything; it
/// counts, and gets no work.
void CoordinatorStep::commit(std::optional<SiteId> leaving) {
    const CommitRecord record = commit_record();
    std::vector<JournalRecord> records{record};
    const Status applied = s_.ledger.apply(record);
    CHECK(applied, "{}", applied.error().message);
    const auto followers = which([&](const Site& s) {
        return s.identified && s.standing == Standing::kFollower && !s.barred && !s.done &&
               !lacks_moments(s) && (s.state == record.from || s.state == record.to);
    });
    const auto participants = members();
    s_.before_newest = record.from;
    s_.newest = record.to;
    s_.last_commit = record;
    s_.meeting = Meeting(s_.meeting.value + 1);
    s_.phase = Phase::kTraining;
    s_.attempts = s_.mismatches = 0;
    s_.unconnected.clear();
    s_.begin.reset();
    s_.waiting_since = now_;
    for (SiteId id : participants) {
        Site& site = at(id);
        site.assignment.reset();
        site.ready.reset();
        site.vote.reset();
        if (leaving == id) continue;
        if (site.draining && !over()) {
            LeaveRecord leave{id, site.incarnation, "drained", false};
            CHECK(s_.ledger.apply(leave));
            records.emplace_back(std::move(leave));
            site.standing = Standing::kAbsent;
        } else if (!over()) {
            plan(id, records);
        }
    }
    if (!over()) {
        for (SiteId id : followers) {
            report(fmt::format("site {} takes part from round {} on", at(id).name,
                               s_.newest.round.value));
            plan(id, records);
            if (s_.restoring && s_.restoring->joiner == id) end_restoring();
        }
    } else {
        records.emplace_back(EndRecord{s_.newest});
    }
    actions_.push_back(Append{std::move(records)});
    for (SiteId id : which([](const Site& s) { return s.identified; })) {
        if (leaving != id) tell_commit(id);
    }
    const std::size_t named = s_.options.sites.size();
    report(fmt::format("round {} committed: {} of {} sites, state {}", s_.newest.round.value,
                       record.contributors.size(), named, short_hex(s_.newest.hash)),
           record.contributors.size() < named);
}

/// The last commit, with what is next for this site.
void CoordinatorStep::tell_commit(SiteId id) {
    const Site& site = at(id);
    const CommitRecord& record = *s_.last_commit;
    Commit c{.attempt = record.attempt,
             .from = record.from,
             .to = record.to,
             .journal = s_.journal,
             .contributors = {},
             .holders = record.holders,
             .next = site.standing == Standing::kMember ? site.assignment : std::nullopt,
             .last = over(),
             .drained = site.draining && !over()};
    for (const Contribution& contribution : record.contributors)
        c.contributors.push_back(contribution.site);
    say(id, std::move(c));
}

/// No result at this meeting: everyone trains on from where it is.
void CoordinatorStep::abandon(const std::string& reason) {
    if (s_.meeting.value + 1 == s_.options.meetings.size()) {
        return stop(fmt::format("the last round cannot be completed: {}", reason));
    }
    const Meeting met = s_.meeting;
    std::vector<JournalRecord> records;
    records.emplace_back(AbandonRecord{met, s_.begin ? s_.begin->attempt : Attempt{}, reason});
    CHECK(s_.ledger.apply(records.front()));
    s_.meeting = Meeting(met.value + 1);
    s_.phase = Phase::kTraining;
    s_.attempts = s_.mismatches = 0;
    s_.unconnected.clear();
    s_.begin.reset();
    s_.waiting_since = now_;
    std::vector<std::pair<SiteId, Message>> says;
    for (SiteId id : members()) says.emplace_back(id, Abandon{met, plan(id, records)});
    for (SiteId id : which([&](const Site& s) { return can_work(s); })) {
        says.emplace_back(id, Assign{s_.newest, plan(id, records)});
    }
    actions_.push_back(Append{std::move(records)});
    for (auto& [id, message] : says) say(id, std::move(message));
    report(fmt::format("meeting {} has no result: {}; the sites train on", met.value, reason),
           true);
}

}  // namespace isthmus::outer
