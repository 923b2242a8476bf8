// A coordinator's step function with scripted sites around it: no socket, no disk, and a clock that
// the test moves. Sites do what they are told and no more; what the coordinator says and journals
// is kept.
#pragma once

#include <gtest/gtest.h>

#include <map>

#include "base/check.hpp"
#include "outer/coordinator.hpp"

namespace isthmus::outer::test {

using namespace std::chrono_literals;

inline StateHash hash_of(int n) {
    StateHash h{};
    h[0] = static_cast<std::byte>(n);
    h[1] = static_cast<std::byte>(n >> 8);
    return h;
}

/// 3 sites that meet every 10 steps, 4 samples a step; round budget 60 s, join budget 600 s.
inline CoordinatorOptions script_options(std::vector<std::string> sites = {"paris", "oslo",
                                                                           "lima"}) {
    CoordinatorOptions o;
    o.run = 7;
    o.sites = std::move(sites);
    for (std::int64_t step = 10; step <= 1000; step += 10) o.meetings.push_back(step);
    o.samples_per_step = 4;
    o.self.nonce = 50;
    return o;
}

class Script {
  public:
    struct Place {
        Incarnation life;
        StateName state;
        std::uint64_t hellos = 0, cuts = 0, progress = 0;
        std::optional<Assignment> work;
        std::optional<Begin> begin;
        SiteFigures figures;
        bool alive = false;  ///< says its beats
        bool moves = true;   ///< and that it got on
        bool moments = false;
        std::vector<Message> heard;
    };

    explicit Script(CoordinatorOptions o = script_options()) : options(std::move(o)) { open(); }

    // ---- events ----

    /// A new process of this site. `holds`: none: the run's initial one.
    void come(const std::string& name, std::optional<StateName> holds = {}, bool moments = false) {
        Place& p = sites[name];
        const Place old = std::exchange(p, Place{});
        p.life = {old.life.number + 1, 90};
        if (holds) p.state = *holds;
        if (!holds) p.state.hash = hash_of(1);
        p.alive = true;
        p.moments = moments;
        hello(name);
    }
    void come_all() {
        for (const std::string& name : options.sites) come(name);
    }
    void hello(const std::string& name) {
        Place& p = sites.at(name);
        Hello h;
        h.name = name;
        h.incarnation = p.life;
        h.endpoint = "tcp://127.0.0.1:1";
        h.state = p.state;
        h.has_moments = p.moments;
        if (p.work) h.training = p.work->meeting;
        h.count = ++p.hellos;
        say(name, h);
    }
    Ready cut(const std::string& name) {
        Place& p = sites.at(name);
        CHECK(p.work, "{} has no work", name);
        Ready r;
        r.state = p.state;
        r.meeting = p.work->meeting;
        r.cut = {.site = id(name), .incarnation = p.life.number, .counter = ++p.cuts};
        r.trained = p.work->samples;
        for (const SampleRange& range : r.trained) r.tokens += 8 * range.count;
        r.figures = p.figures;
        r.welcome = p.hellos;
        p.moments = true;
        return r;
    }
    void ready(const std::string& name) { say(name, cut(name)); }
    void ready_all() {
        for (auto& [name, place] : sites) {
            if (place.alive && place.work) ready(name);
        }
    }
    void vote(const std::string& name, std::optional<StateHash> result,
              std::vector<SiteId> missing = {}) {
        CHECK(sites.at(name).begin, "{} has no BEGIN", name);
        const Begin& b = *sites.at(name).begin;
        Vote v;
        v.attempt = b.attempt;
        v.result = result;
        v.missing = std::move(missing);
        say(name, v);
    }
    /// All that take part in the open attempt vote for its result.
    void vote_all() {
        CHECK(state.begin, "no attempt is open");
        const Begin b = *state.begin;
        for (const Participant& p : b.participants)
            vote(p.peer.name, hash_of(static_cast<int>(b.from.round.value) + 2));
    }
    void round() {
        ready_all();
        CHECK(state.begin);
        vote_all();
    }
    void say(const std::string& name, Message m) { event(HeardFrom{name, std::move(m)}); }
    /// Time goes by in beats; sites that live say theirs.
    void pass(std::chrono::milliseconds time) {
        const TimePoint until = now + time;
        while (now < until && !end) {
            now += options.budget.beat();
            for (auto& [name, p] : sites) {
                if (!p.alive) continue;
                if (p.moves) ++p.progress;
                SiteBeat beat;
                beat.progress = p.progress;
                beat.state = p.state;
                if (p.work) beat.training = p.work->meeting;
                if (p.begin) beat.attempt = p.begin->attempt;
                beat.has_moments = p.moments;
                say(name, beat);
            }
            event(Tick{});
        }
    }
    void event(const CoordinatorEvent& e) { take(step(state, e, now)); }
    /// Killed, and started again from its journal.
    void restart() { open(); }

    // ---- what came of it ----

    SiteId id(const std::string& name) const {
        for (std::uint32_t i = 0; i < state.sites.size(); ++i) {
            if (state.sites[i].name == name) return SiteId(i);
        }
        CHECK(false, "no site {}", name);
    }
    const CoordinatorState::Site& site(const std::string& name) const {
        return state.sites[id(name).value];
    }
    template <class M>
    std::vector<M> heard(const std::string& name) const {
        std::vector<M> out;
        for (const Message& m : sites.at(name).heard) {
            if (const auto* said = std::get_if<M>(&m)) out.push_back(*said);
        }
        return out;
    }
    template <class R>
    std::vector<R> records() const {
        std::vector<R> out;
        for (const JournalRecord& r : journal) {
            if (const auto* record = std::get_if<R>(&r)) out.push_back(*record);
        }
        return out;
    }
    std::vector<std::string> contributors(std::size_t commit) const {
        std::vector<std::string> names;
        const CommitRecord record = records<CommitRecord>().at(commit);
        for (const Contribution& c : record.contributors)
            names.push_back(state.sites[c.site.value].name);
        return names;
    }
    std::size_t commits() const { return records<CommitRecord>().size(); }
    /// Lines that contain this.
    std::size_t said(const std::string& what, bool loud_only = false) const {
        std::size_t n = 0;
        for (const Report& r : log)
            n += (r.loud || !loud_only) && r.line.find(what) != std::string::npos ? 1 : 0;
        return n;
    }
    /// One lineage: every commit begins where the one before it ended.
    void expect_one_lineage() const {
        const auto all = records<CommitRecord>();
        for (std::size_t i = 1; i < all.size(); ++i) EXPECT_EQ(all[i].from, all[i - 1].to) << i;
        const Status proven = state.ledger.prove();
        EXPECT_TRUE(proven) << proven.error().message;
    }

    CoordinatorOptions options;
    CoordinatorState state;
    std::map<std::string, Place> sites;
    std::vector<JournalRecord> journal;
    std::vector<Report> log;
    std::optional<End> end;
    TimePoint now{};

  private:
    void open() {
        LogHead head;
        head.id = 77;
        head.count = journal.size();
        auto made = make_coordinator(options, journal, head, now);
        CHECK(made.has_value(), "{}", made.error().message);
        state = std::move(made->first);
        take(std::move(made->second));
    }
    void take(CoordinatorActions actions) {
        for (CoordinatorAction& action : actions) {
            if (auto* append = std::get_if<Append>(&action)) {
                journal.insert(journal.end(), append->records.begin(), append->records.end());
                state.journal.count = journal.size();
            }
            if (auto* report = std::get_if<Report>(&action)) log.push_back(*report);
            if (auto* over = std::get_if<End>(&action)) end = *over;
            if (auto* said = std::get_if<SayTo>(&action)) deliver(*said);
        }
    }
    void deliver(const SayTo& said) {
        const auto found = sites.find(said.name);
        if (found == sites.end() || !found->second.alive) return;
        Place& p = found->second;
        if (!std::holds_alternative<CoordinatorBeat>(said.message)) p.heard.push_back(said.message);
        if (const auto* w = std::get_if<Welcome>(&said.message); w && !w->member) {
            p.work.reset();
            p.begin.reset();
        }
        if (const auto* a = std::get_if<Assign>(&said.message); a && a->state == p.state)
            p.work = a->assignment;
        if (const auto* b = std::get_if<Begin>(&said.message)) p.begin = *b;
        if (const auto* c = std::get_if<Commit>(&said.message); c && c->from == p.state) {
            p.state = c->to;
            p.work = c->next;
            p.begin.reset();
        }
        if (const auto* a = std::get_if<Abandon>(&said.message)) {
            p.work = a->next;
            p.begin.reset();
        }
    }
};

}  // namespace isthmus::outer::test
