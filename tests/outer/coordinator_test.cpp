// The coordinator's step function under scripted events; the simulator gives it random ones.
#include "outer/coordinator.hpp"

#include <gtest/gtest.h>

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
    void hello(const std::string& name, std::uint64_t count, bool moments = false) {
        Hello h;
        h.name = name;
        h.incarnation = {1, 5};
        h.state = test::sample_state(0);
        h.has_moments = moments;
        h.count = count;
        hears(name, h);
    }
    /// What it was given last, all of it trained.
    Ready ready(const std::string& name, std::uint64_t welcome) const {
        const Assignment work = *site(name).assignment;
        Ready r;
        r.state = test::sample_state(0);
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
    template <class Record>
    std::size_t count() const {
        return static_cast<std::size_t>(std::count_if(
            journal.begin(), journal.end(),
            [](const JournalRecord& r) { return std::holds_alternative<Record>(r); }));
    }
    /// Until it has taken all who say nothing for lost.
    void silence() { take(step(state, Tick{}, now += state.options.budget.silence() * 2)); }

    TimePoint now{milliseconds(1'000)};
    CoordinatorState state;
    std::vector<JournalRecord> journal;

  private:
    void take(CoordinatorActions actions) {
        for (CoordinatorAction& action : actions) {
            if (auto* append = std::get_if<Append>(&action)) {
                for (JournalRecord& record : append->records) {
                    journal.push_back(std::move(record));
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

}  // namespace
}  // namespace isthmus::outer
