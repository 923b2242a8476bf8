// The coordinator's step function under scripted events; the simulator gives it random ones.
#include "outer/coordinator.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/outer/support/sample_messages.hpp"

namespace isthmus::outer {
namespace {

using std::chrono::milliseconds;

/// A coordinator whose journal is a list, and sites that say what the test says.
class ScriptedCoordinator {
  public:
    ScriptedCoordinator(std::vector<std::string> sites, std::vector<std::int64_t> meetings) {
        CoordinatorOptions options;
        options.run = 1;
        options.sites = std::move(sites);
        options.meetings = std::move(meetings);
        options.self.nonce = 77;
        auto made = make_coordinator(options, {}, {.id = 11, .count = 0, .hash = 0}, now);
        EXPECT_TRUE(made);
        state = std::move(made->first);
        take(std::move(made->second));
    }

    void hears(const std::string& name, Message message) {
        take(step(state, HeardFrom{name, std::move(message)}, now));
    }
    void hello(const std::string& name, std::uint64_t count, bool moments = false,
               std::uint64_t process = 1) {
        Hello h;
        h.name = name;
        h.incarnation = {process, 5};
        h.state = test::sample_state(0);
        h.has_moments = moments;
        h.count = count;
        hears(name, h);
    }
    /// What it was given last, all of it trained.
    Ready ready(const std::string& name, std::uint64_t welcome) const {
        const Assignment work = *site(name).assignment;
        Ready r;
        r.state = state.newest;
        r.meeting = work.meeting;
        r.cut = {.site = id(name), .incarnation = 1, .counter = 1};
        r.trained = work.samples;
        r.tokens = 64;
        r.welcome = welcome;
        return r;
    }
    SiteId id(const std::string& name) const {
        for (std::uint32_t i = 0; i < state.sites.size(); ++i) {
            if (state.sites[i].name == name) return SiteId(i);
        }
        ADD_FAILURE() << "no site " << name;
        return SiteId(0);
    }
    const CoordinatorState::Site& site(const std::string& name) const {
        return state.sites[id(name).value];
    }
    /// Of what was said to this site at the last event.
    template <class Said>
    std::vector<Said> said(const std::string& name) const {
        std::vector<Said> out;
        for (const CoordinatorAction& action : actions) {
            const auto* say = std::get_if<SayTo>(&action);
            if (say == nullptr || say->name != name) continue;
            if (const auto* m = std::get_if<Said>(&say->message)) out.push_back(*m);
        }
        return out;
    }
    template <class Record>
    std::size_t count() const {
        return static_cast<std::size_t>(std::count_if(
            journal.begin(), journal.end(),
            [](const JournalRecord& r) { return std::holds_alternative<Record>(r); }));
    }
    void drain(const std::string& name) {
        take(step(state, Operate{.what = Operate::What::kDrain, .site = name}, now));
    }
    /// Until it has taken all who say nothing for lost.
    void silence() { take(step(state, Tick{}, now += state.options.budget.silence() * 2)); }

    TimePoint now{milliseconds(1'000)};
    CoordinatorState state;
    std::vector<JournalRecord> journal;
    CoordinatorActions actions;  ///< of the last event

  private:
    void take(CoordinatorActions taken) {
        actions = std::move(taken);
        for (const CoordinatorAction& action : actions) {
            if (const auto* append = std::get_if<Append>(&action)) {
                for (const JournalRecord& record : append->records) {
                    journal.push_back(record);
                    ++state.journal.count;
                }
            }
        }
    }
};

using Phase = CoordinatorState::Phase;

// A site that is lost and comes back is often leased the very samples that it had: its old READY
// fits them, but it throws that cut away when it hears the Welcome. Counted, the run's newest state
// was nobody's.
TEST(Coordinator, AReadyFromBeforeTheWelcomeThatVoidsItDoesNotCount) {
    ScriptedCoordinator c({"a"}, {6, 12});
    c.hello("a", 1);
    const Ready old = c.ready("a", 1);
    c.silence();
    EXPECT_EQ(c.count<LeaveRecord>(), 1u);
    c.hello("a", 2, true);
    ASSERT_EQ(c.count<GrantRecord>(), 2u);
    EXPECT_EQ(c.site("a").assignment->samples, old.trained) << "the case is another one";

    c.hears("a", old);
    EXPECT_EQ(c.state.phase, Phase::kTraining);
    EXPECT_FALSE(c.state.begin);

    c.hears("a", c.ready("a", 2));
    EXPECT_EQ(c.state.phase, Phase::kExchange);
}

// Whoever is lost after the last round gives back what it did not train; that it was lost once
// before does not matter any more, nobody trains it again.
TEST(Coordinator, NothingIsQuarantinedAfterTheEnd) {
    ScriptedCoordinator c({"a"}, {6});
    c.hello("a", 1);
    c.silence();
    c.hello("a", 2, true);
    Ready most = c.ready("a", 2);
    ASSERT_FALSE(most.trained.empty());
    --most.trained.back().count;
    c.hears("a", most);
    ASSERT_EQ(c.state.phase, Phase::kExchange);
    Vote vote;
    vote.attempt = c.state.begin->attempt;
    vote.result = test::sample_hash(1);
    c.hears("a", vote);
    ASSERT_EQ(c.count<EndRecord>(), 1u);
    c.silence();
    EXPECT_EQ(c.count<LeaveRecord>(), 2u);
    EXPECT_EQ(c.count<QuarantineRecord>(), 0u);
}

// The commit that drains a site may be lost on the way to it, and no other may follow, for want of
// sites: it waited for ever, and the run with it for the process that would come after it.
TEST(Coordinator, ADrainedSiteIsToldToGoUntilItGoes) {
    ScriptedCoordinator c({"a", "b"}, {6, 12});
    c.hello("a", 1);
    c.hello("b", 1);
    c.drain("b");
    c.hears("a", c.ready("a", 1));
    c.hears("b", c.ready("b", 1));
    ASSERT_TRUE(c.state.begin);
    Vote vote;
    vote.attempt = c.state.begin->attempt;
    vote.result = test::sample_hash(1);
    c.hears("a", vote);
    c.hears("b", vote);
    ASSERT_EQ(c.said<Commit>("b").size(), 1u);  // lost

    c.hello("b", 2, true);
    SiteBeat beat;
    beat.state = c.state.newest;
    beat.has_moments = true;
    c.hears("b", beat);
    ASSERT_EQ(c.said<Commit>("b").size(), 1u);
    EXPECT_TRUE(c.said<Commit>("b")[0].drained);
    EXPECT_EQ(c.count<GrantRecord>(), 3u) << "it was given work";
    c.hears("b", Leave{});
    EXPECT_EQ(c.said<Farewell>("b").size(), 0u) << "nobody else has said yet that it holds it";
}

// A joiner that has fetched results one by one is past the copy that is kept for it: it takes the
// moments from a newer one, for which this one ends.
TEST(Coordinator, AJoinerPastItsCopyGetsANewerOneForTheMoments) {
    ScriptedCoordinator c({"a", "b"}, {6, 12, 18});
    c.hello("a", 1);
    c.hello("b", 1);
    c.hears("a", c.ready("a", 1));
    c.hears("b", c.ready("b", 1));
    Vote vote;
    vote.attempt = c.state.begin->attempt;
    vote.result = test::sample_hash(1);
    c.hears("a", vote);
    c.hears("b", vote);
    SiteBeat beat;
    beat.state = c.state.newest;
    beat.has_moments = true;
    c.hears("a", beat);
    c.hello("b", 1, false, 2);
    ASSERT_EQ(c.said<Pin>("a").size(), 1u);
    c.hears("a", Pinned{c.state.newest, 6});
    ASSERT_EQ(c.said<Restore>("b").size(), 1u);

    beat.has_moments = false;
    beat.state.round = Round(beat.state.round.value + 1);
    c.hears("b", beat);
    EXPECT_EQ(c.said<Unpin>("a").size(), 1u);
    EXPECT_FALSE(c.state.restoring);
}

}  // namespace
}  // namespace isthmus::outer
