// Who is here: HELLO, loss, and work for those who wait.
#include <algorithm>
#include <cmath>
#include <map>

#include "base/check.hpp"
#include "outer/coordinator_step.hpp"

namespace isthmus::outer {

namespace {

/// Key of Hello's configuration under which a site names its token file.
constexpr std::string_view kDataKey = "data (checksum)";

std::string value_of(const std::vector<std::pair<std::string, std::string>>& config,
                     std::string_view key) {
    for (const auto& [k, v] : config) {
        if (k == key) return v;
    }
    return {};
}

/// "optim.lr = 1e-3 there, 2e-3 here; ..." of keys that both have and that differ.
std::string differences(const std::vector<std::pair<std::string, std::string>>& here,
                        const std::vector<std::pair<std::string, std::string>>& there) {
    const std::map<std::string, std::string> known(here.begin(), here.end());
    std::string out;
    for (const auto& [key, value] : there) {
        const auto found = known.find(key);
        if (found == known.end() || found->second == value) continue;
        out += fmt::format("{}{} = {} there, {} here", out.empty() ? "" : "; ", key, value,
                           found->second);
    }
    return out;
}

}  // namespace

bool CoordinatorStep::refused(const std::string& name, const Hello& h) {
    std::string why;
    const auto id = find(name);
    const std::string data = value_of(h.config, kDataKey);
    if (id && at(*id).barred) why = fmt::format("site {} was dropped by an operator", name);
    const std::string differing = differences(s_.options.config, h.config);
    if (!differing.empty()) why = "its configuration differs from the coordinator's: " + differing;
    if (!s_.data.empty() && !data.empty() && data != s_.data) {
        why = fmt::format(
            "its token file has checksum {}, the run's has {}: give all sites the same data", data,
            s_.data);
    }
    if (h.journal.id != 0 && h.journal.id != s_.journal.id) {
        why =
            "it took part under another journal: this coordinator's run folder is not the one that "
            "the run began with";
    }
    if (!s_.started && h.state.round.value > 0) {
        why =
            "it has trained already, and the journal is empty: start the coordinator with the "
            "run's own folder";
    }
    if (id && h.incarnation < at(*id).incarnation)
        why = fmt::format("a newer process of site {} is here", name);
    if (id && h.incarnation.number != 0 && h.incarnation == at(*id).stopped)
        why = "an operator stopped this process; a new one may join";
    if (why.empty()) return false;
    actions_.push_back(SayTo{name, Stop{fmt::format("site {} is refused: {}", name, why)}});
    // Once a process: whoever sends an old HELLO again and again must not fill the log.
    std::pair<Incarnation, std::string> said(h.incarnation, why);
    if (auto& last = s_.refusals[name]; last != said) {
        last = std::move(said);
        report(fmt::format("site {} is refused: {}", name, why), true);
    }
    return true;
}

void CoordinatorStep::hello(const std::string& name, const Hello& h) {
    auto id = find(name);
    if (id && at(*id).incarnation == h.incarnation && h.count <= at(*id).hellos)
        return;  // it came late
    if (refused(name, h)) return;
    if (!id) {
        id = SiteId(static_cast<std::uint32_t>(s_.sites.size()));
        s_.sites.emplace_back();
        s_.sites.back().name = name;
    }
    const bool known = at(*id).incarnation == h.incarnation;
    const bool back = at(*id).identified && known;
    if (newcomer(*id, h)) append({JoinRecord{*id, name, h.incarnation}});
    Site& site = at(*id);
    const bool member = still_member(site, h);
    if (site.standing == Standing::kMember && !member) {
        lose(*id, "it came back without the run's newest state or its lease");
    }
    site.incarnation = h.incarnation;
    site.hellos = h.count;
    site.endpoint = h.endpoint;
    site.public_key = h.public_key;
    site.state = h.state;
    site.has_moments = h.has_moments;
    site.identified = true;
    site.disconnected = false;
    site.done = h.leaving;
    site.heard = site.moved = now_;
    if (!member) site.standing = Standing::kFollower;
    if (s_.restoring && s_.restoring->joiner == *id) end_restoring();
    if (s_.data.empty()) s_.data = value_of(h.config, kDataKey);
    if (!back) report(fmt::format("site {} is here{}", name, member ? " again" : ""));
    welcome(*id, member);
    s_.peers_changed |= !back;
    if (member) repair(*id, h.training);
    start();
    plan_restoring();
    enroll();
    try_begin();
}

/// A process that was not here before. Evicts the older one.
bool CoordinatorStep::newcomer(SiteId id, const Hello& h) {
    if (at(id).incarnation == h.incarnation) return false;
    if (at(id).standing != Standing::kAbsent) lose(id, "it was started again");
    at(id).draining = false;  // it came back of its own will
    return true;
}

/// Whether a site's own word fits what the journal says of it: it may go on where it is.
bool CoordinatorStep::still_member(const Site& site, const Hello& h) const {
    if (site.standing != Standing::kMember || !(site.incarnation == h.incarnation) ||
        !site.assignment)
        return false;
    if (h.state == s_.newest) return !h.training || *h.training <= s_.meeting;
    return h.state == s_.before_newest && s_.last_commit && h.staged == s_.last_commit->attempt;
}

void CoordinatorStep::welcome(SiteId id, bool member) {
    Welcome w{.answers = at(id).hellos,
              .you = id,
              .coordinator = s_.options.self,
              .journal = s_.journal,
              .newest = s_.newest,
              .peers = {},
              .member = member};
    for (SiteId peer : which([](const Site& s) { return s.identified; })) {
        if (peer != id) w.peers.push_back(peer_of(peer));
    }
    say(id, std::move(w));
}

PeerInfo CoordinatorStep::peer_of(SiteId id) const {
    return {.site = id,
            .name = at(id).name,
            .endpoint = at(id).endpoint,
            .public_key = at(id).public_key};
}

/// Once a beat: many may come or go at once. Whoever is needed sooner is named in BEGIN and
/// RESTORE.
void CoordinatorStep::tell_peers() {
    if (!std::exchange(s_.peers_changed, false)) return;
    std::vector<PeerInfo> all;
    const auto here = which([](const Site& s) { return s.identified; });
    for (SiteId id : here) all.push_back(peer_of(id));
    for (SiteId id : here) {
        std::vector<PeerInfo> others;
        std::copy_if(all.begin(), all.end(), std::back_inserter(others),
                     [&](const PeerInfo& p) { return p.site != id; });
        say(id, Peers{std::move(others)});
    }
}

/// What a member has not heard is said again: `training` is what it says it works on.
void CoordinatorStep::repair(SiteId id, const std::optional<Meeting>& training) {
    const Site& site = at(id);
    if (site.standing != Standing::kMember || !site.assignment ||
        training == site.assignment->meeting)
        return;
    if (site.state == s_.before_newest && s_.last_commit) {
        tell_commit(id);
    } else if (site.state == s_.newest && training) {
        say(id, Abandon{*training, *site.assignment});
    } else if (site.state == s_.newest) {
        say(id, Assign{s_.newest, *site.assignment});
    }
}

/// Round 0 begins when all named sites are here; what the first of them holds is the run's initial
/// state.
void CoordinatorStep::start() {
    if (s_.started) return;
    const std::size_t named = s_.options.sites.size();
    for (std::size_t i = 0; i < named; ++i) {
        if (!s_.sites[i].identified && !s_.sites[i].barred) return;
    }
    const auto here = which([](const Site& s) { return s.identified; });
    if (here.empty()) return;
    s_.started = true;
    s_.newest = at(here.front()).state;
    append({StartRecord{s_.newest, s_.data}});
    s_.waiting_since = now_;
    report(fmt::format("all {} named sites are here; state {}", named, short_hex(s_.newest.hash)));
}

bool CoordinatorStep::can_work(const Site& site) const {
    return site.identified && site.standing == Standing::kFollower && site.state == s_.newest &&
           !site.barred && !site.draining && !site.done && !lacks_moments(site);
}

/// Gives work to those who wait at the newest state, when nobody is under way whom they would make
/// wait, or when they are needed to be enough.
void CoordinatorStep::enroll() {
    if (!s_.started || s_.paused || over() || s_.phase == Phase::kExchange) return;
    const auto ready = which([&](const Site& s) { return can_work(s); });
    if (ready.empty()) return;
    const auto in = members();
    const std::size_t enough = least_sites();
    if (in.size() >= enough) return;
    if (in.size() + ready.size() < enough) return;
    // The first round waits for all; who is being restored is all but here.
    const bool first = !s_.last_commit && s_.meeting == Meeting(0);
    if (first && in.empty() &&
        which([](const Site& s) { return s.identified; }).size() > ready.size())
        return;
    std::vector<JournalRecord> records;
    std::vector<std::pair<SiteId, Assign>> says;
    for (SiteId id : ready) says.emplace_back(id, Assign{s_.newest, plan(id, records)});
    actions_.push_back(Append{std::move(records)});
    for (auto& [id, assign] : says) {
        if (s_.restoring && s_.restoring->joiner == id) end_restoring();
        say(id, std::move(assign));
    }
    if (in.empty()) s_.phase = Phase::kTraining;
}

/// Grants samples for the open meeting; the record is applied to the ledger here and appended by
/// the caller.
Assignment CoordinatorStep::plan(SiteId id, std::vector<JournalRecord>& records) {
    Site& site = at(id);
    const auto index = static_cast<std::size_t>(s_.meeting.value);
    const std::int64_t from = index == 0 ? 0 : s_.options.meetings[index - 1];
    const std::int64_t steps = steps_for(site, s_.options.meetings[index] - from);
    GrantRecord grant{.site = id,
                      .incarnation = site.incarnation,
                      .meeting = s_.meeting,
                      .samples = s_.ledger.plan_grant(
                          static_cast<std::uint64_t>(steps * s_.options.samples_per_step))};
    const Status applied = s_.ledger.apply(grant);
    CHECK(applied, "{}", applied.error().message);
    site.standing = Standing::kMember;
    site.has_moments = true;
    site.assignment = assignment_for(s_.options, s_.meeting, grant.samples);
    site.ready.reset();
    site.vote.reset();
    site.moved = now_;
    records.emplace_back(std::move(grant));
    return *site.assignment;
}

/// Unequal speeds: as many of the interval's steps as the site makes while the fastest makes all of
/// them (arXiv:2401.09135), or as it makes in the given time. A site that has not been measured
/// makes all.
std::int64_t CoordinatorStep::steps_for(const Site& site, std::int64_t full) const {
    const double speed = site.figures.steps_per_s;
    if (s_.options.pace == CoordinatorOptions::Pace::kEqual || speed <= 0) return full;
    double steps = s_.options.round_s * speed;
    if (s_.options.pace == CoordinatorOptions::Pace::kBySpeed) {
        double fastest = 0;
        for (const Site& other : s_.sites) {
            if (other.identified) fastest = std::max(fastest, other.figures.steps_per_s);
        }
        steps = speed / fastest * static_cast<double>(full);
    }
    return std::clamp<std::int64_t>(static_cast<std::int64_t>(std::floor(steps + 1e-9)), 1, full);
}

std::vector<SiteId> CoordinatorStep::holders() const {
    return which([&](const Site& s) { return s.identified && s.state == s_.newest; });
}

void CoordinatorStep::on(SiteId id, const SiteBeat& beat) {
    Site& site = at(id);
    if (beat.progress != site.progress) site.moved = now_;
    site.progress = beat.progress;
    site.step = beat.step;
    if (beat.tokens_per_s > 0) site.figures.tokens_per_s = beat.tokens_per_s;
    if (beat.loss != 0) site.figures.loss = beat.loss;
    // An old beat may come late; a state once held is not lost while the process lives.
    if (beat.state.round >= site.state.round) site.state = beat.state;
    if (over() && !site.done) return tell_commit(id);
    if (site.standing == Standing::kMember) repair(id, beat.training);
    if (s_.phase == Phase::kExchange && takes_part(id) && !site.vote &&
        beat.attempt != s_.begin->attempt)
        say(id, *s_.begin);
    // It was drained by a commit whose announcement was lost: nothing else would ever tell it to
    // go.
    if (site.standing != Standing::kMember && site.draining && !site.done && s_.last_commit)
        tell_commit(id);
    if (site.standing != Standing::kFollower) return;
    if (s_.restoring && s_.restoring->joiner == id && !s_.restoring->pinned.empty()) {
        const bool copied = site.state.lineage == s_.restoring->state.lineage &&
                            site.state.round >= s_.restoring->state.round && beat.has_moments;
        if (copied) site.has_moments = true;
        // Results one by one took it past the copy: it needs a newer one for the moments.
        const bool past = s_.restoring->moments && !beat.has_moments &&
                          beat.state.lineage == s_.restoring->state.lineage &&
                          beat.state.round > s_.restoring->state.round;
        if ((copied && site.state == s_.newest) || past) end_restoring();
    }
    enroll();
    try_begin();
}

void CoordinatorStep::on(SiteId id, const Leave& leave) {
    Site& site = at(id);
    if (!leave.reason.empty()) {
        say(id, Farewell{});
        report(fmt::format("site {} left: {}", site.name, leave.reason), true);
        return lose(id, "it left: " + leave.reason);
    }
    site.done = true;
    if (is_needed(id)) return;
    say(id, Farewell{});
    if (site.standing != Standing::kAbsent) lose(id, "it is done", Loss::kFarewell);
    site.identified = false;
    end_if_over();
}

/// Who holds the last state stays as long as someone else still fetches it; who is drained, until
/// someone who goes on holds the newest.
bool CoordinatorStep::is_needed(SiteId id) const {
    const auto going_on = which([](const Site& s) { return s.identified && !s.done; });
    const auto holds = [&](SiteId other) { return at(other).state == s_.newest; };
    if (over()) return !std::all_of(going_on.begin(), going_on.end(), holds);
    // It may not have said yet that it has applied what it voted for.
    const bool voted = s_.last_commit && std::count(s_.last_commit->holders.begin(),
                                                    s_.last_commit->holders.end(), id) > 0;
    return s_.started && (voted || holds(id)) &&
           std::none_of(going_on.begin(), going_on.end(), holds);
}

void CoordinatorStep::end_if_over() {
    if (!over() || s_.phase == Phase::kEnded) return;
    if (!which([](const Site& s) { return s.identified; }).empty()) return;
    s_.phase = Phase::kEnded;
    s_.stop_reason = "the run is over";
    End good_end;
    good_end.good = true;
    actions_.emplace_back(std::move(good_end));
}

/// The site has no standing any more: its leases return, and if it still lives it starts again from
/// HELLO.
void CoordinatorStep::lose(SiteId id, const std::string& reason, Loss loss) {
    Site& site = at(id);
    const bool lost = loss != Loss::kFarewell;
    if (loss == Loss::kGone && s_.phase == Phase::kExchange && takes_part(id) && others_agree(id))
        commit(id);
    const bool taking_part = s_.phase == Phase::kExchange && takes_part(id);
    if (site.standing == Standing::kMember) {
        std::vector<JournalRecord> records;
        // After the end nobody trains them again.
        const auto twice = lost && !over() ? s_.ledger.lost_before(id) : std::vector<SampleRange>{};
        if (!twice.empty()) {
            records.emplace_back(QuarantineRecord{
                twice, fmt::format("lost twice, the last time with site {}", site.name)});
            report("samples that were lost twice are skipped from now on", true);
        }
        records.emplace_back(LeaveRecord{id, site.incarnation, reason, lost});
        append(std::move(records));
        if (lost) report(fmt::format("site {} is lost: {}", site.name, reason), true);
    }
    const bool was_here = site.identified;
    site.standing = Standing::kAbsent;
    site.identified = false;
    site.assignment.reset();
    site.ready.reset();
    site.vote.reset();
    site.draining = false;
    ++site.restored;
    forget_restoring_of(id);
    s_.peers_changed |= was_here;
    if (taking_part) {
        const std::string why = fmt::format("site {} was lost", site.name);
        if (!several_) return retry(why);
        then_retry_ = why;
        return;
    }
    if (members().empty() && s_.phase == Phase::kBarrier) s_.phase = Phase::kTraining;
    if (members().size() < least_sites()) s_.waiting_since = now_;
    try_begin();
}

/// One new attempt for all of them.
void CoordinatorStep::lose_all(const std::vector<std::pair<SiteId, std::string>>& gone, Loss loss) {
    several_ = true;
    for (const auto& [id, reason] : gone) {
        if (at(id).standing == Standing::kMember) lose(id, reason, loss);
    }
    several_ = false;
    if (then_retry_) retry(*std::exchange(then_retry_, std::nullopt));
}

}  // namespace isthmus::outer
