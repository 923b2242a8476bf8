// The same faults as a site sees them, as scripts of its step function. Numbers are rows of the
// list of scenarios.
#include "outer/site.hpp"
#include "tests/outer/support/script.hpp"

namespace isthmus::outer {
namespace {

using test::hash_of;

class SiteScript {
  public:
    SiteScript() {
        Hello h;
        h.name = "paris";
        h.incarnation = {1, 9};
        h.state.hash = hash_of(1);
        state = make_site(budget, h, now);
        tick();
        Welcome w;
        w.answers = 1;
        w.you = SiteId(0);
        w.coordinator = coordinator;
        w.journal = journal;
        w.newest = h.state;
        hear(w);
    }
    void event(const SiteEvent& e) {
        for (SiteAction& a : step(state, e, now)) actions.push_back(std::move(a));
    }
    void hear(Message m) { event(Heard{std::move(m)}); }
    void tick(bool judge = true) {
        SiteTick t;
        t.judge = judge;
        event(t);
    }
    void train() {
        Assign a;
        a.state = state.state;
        a.assignment.num_steps = 10;
        a.assignment.to_step = 10;
        a.assignment.samples = {{0, 40}};
        hear(a);
        event(Cut{
            .trained = {{0, 40}}, .skipped = {}, .tokens = 320, .figures = {}, .full_digest = {}});
    }
    Begin begin(std::uint32_t counter) {
        Begin b;
        b.attempt.coordinator = coordinator.number;
        b.attempt.counter = counter;
        b.from = state.state;
        for (std::uint32_t i = 0; i < 2; ++i) {
            Participant p;
            p.peer.site = SiteId(i);
            if (i == 0) p.cut = state.ready->cut;
            p.weight = 1;
            b.participants.push_back(p);
        }
        return b;
    }
    Commit commit(const Attempt& attempt, const StateHash& result) {
        Commit c;
        c.attempt = attempt;
        c.from = state.state;
        c.to = state.state;
        c.to.round = Round(1);
        c.to.hash = result;
        c.journal = journal;
        c.journal.count = ++journal.count;
        return c;
    }
    template <class A>
    std::size_t count() const {
        std::size_t n = 0;
        for (const SiteAction& a : actions) n += std::holds_alternative<A>(a) ? 1 : 0;
        return n;
    }
    std::string ended() const {
        for (const SiteAction& a : actions) {
            if (const auto* e = std::get_if<End>(&a)) return e->reason;
        }
        return "";
    }

    Budget budget;
    Incarnation coordinator{1, 5};
    LogHead journal = [] {
        LogHead head;
        head.id = 77;
        head.count = 3;
        return head;
    }();
    TimePoint now{};
    SiteState state;
    std::vector<SiteAction> actions;
};

// 17: nothing is applied without a COMMIT of the very attempt and result that was voted for.
TEST(SiteScenario, NothingIsAppliedThatWasNotCommitted) {
    SiteScript s;
    s.train();
    s.hear(s.begin(1));
    s.event(Exchanged{.attempt = s.begin(1).attempt, .result = hash_of(2), .inputs = {}});
    const Attempt first = s.begin(1).attempt;
    Attempt other = first;
    other.counter = 2;
    s.hear(s.commit(other, hash_of(2)));
    s.hear(s.commit(first, hash_of(3)));
    EXPECT_EQ(s.count<Apply>(), 0u);
    // 18: a new attempt takes the place of the one that was voted for.
    s.hear(s.begin(2));
    EXPECT_EQ(s.count<Exchange>(), 2u);
    s.hear(s.commit(first, hash_of(2)));
    EXPECT_EQ(s.count<Apply>(), 0u);
    s.event(Exchanged{.attempt = first, .result = hash_of(2), .inputs = {}});  // the old one's
    s.hear(s.commit(first, hash_of(2)));
    EXPECT_EQ(s.count<Apply>(), 0u);
    s.event(Exchanged{.attempt = other, .result = hash_of(4), .inputs = {}});
    s.hear(s.commit(other, hash_of(4)));
    EXPECT_EQ(s.count<Apply>(), 1u);
    s.hear(s.commit(other, hash_of(4)));  // said again
    EXPECT_EQ(s.count<Apply>(), 1u);
}

// 17: after ABANDON it trains on from where its parameters are.
TEST(SiteScenario, AfterAnAbandonedMeetingItTrainsOn) {
    SiteScript s;
    s.train();
    s.hear(s.begin(1));
    Abandon a;
    a.next.meeting = Meeting(1);
    a.next.num_steps = 10;
    s.hear(a);
    s.hear(a);  // twice
    EXPECT_EQ(s.count<Discard>(), 1u);
    EXPECT_EQ(s.count<Apply>(), 0u);
    EXPECT_EQ(s.count<Hold>(), 0u);
    const auto& train = std::get<Train>(s.actions.back());
    EXPECT_FALSE(train.from_state);
    EXPECT_FALSE(std::get<Discard>(s.actions[s.actions.size() - 2]).reset);
}

// 8, 10: without a coordinator a site trains on; at its meeting it waits, says so, and ends with a
// named error when the join budget is over.
TEST(SiteScenario, ALostCoordinatorIsABoundedNamedError) {
    SiteScript s;
    Assign a;
    a.state = s.state.state;
    a.assignment.num_steps = 10;
    s.hear(a);
    s.now += 4 * s.budget.join;
    s.tick();
    EXPECT_EQ(s.ended(), "") << "a site that trains does not wait";
    EXPECT_EQ(s.count<Report>(), 1u);
    s.event(Cut{.trained = {}, .skipped = {}, .tokens = 1, .figures = {}, .full_digest = {}});
    s.now += s.budget.join / 2;
    s.tick();
    EXPECT_EQ(s.ended(), "");
    s.now += s.budget.join;
    s.tick(false);  // it had itself stood still
    EXPECT_EQ(s.ended(), "");
    s.tick();
    EXPECT_NE(s.ended().find("the coordinator is lost"), std::string::npos) << s.ended();
}

// 6, 49: a coordinator with another journal, or two that claim one number, are not obeyed.
TEST(SiteScenario, AnotherHistoryIsNotObeyed) {
    SiteScript s;
    s.train();
    s.hear(s.begin(1));
    s.event(Exchanged{.attempt = s.begin(1).attempt, .result = hash_of(2), .inputs = {}});
    Commit foreign = s.commit(s.begin(1).attempt, hash_of(2));
    foreign.journal.id = 78;
    s.hear(foreign);
    EXPECT_EQ(s.count<Apply>(), 0u);
    EXPECT_NE(s.ended().find("another journal"), std::string::npos) << s.ended();

    SiteScript twin;
    CoordinatorBeat beat;
    beat.coordinator = {twin.coordinator.number, 6};
    beat.newest = twin.state.state;
    twin.hear(beat);
    EXPECT_NE(twin.ended().find("two coordinators"), std::string::npos) << twin.ended();
}

// An older coordinator that comes back to life is not listened to.
TEST(SiteScenario, AnOlderCoordinatorIsNoise) {
    SiteScript s;
    CoordinatorBeat newer;
    newer.coordinator = {2, 6};
    newer.newest = s.state.state;
    s.hear(newer);
    const auto said = s.count<Say>();
    CoordinatorBeat old = newer;
    old.coordinator = s.coordinator;
    old.newest.round = Round(9);
    s.hear(old);
    EXPECT_EQ(s.count<Say>(), said);
    EXPECT_EQ(s.state.newest.round, Round(0));
    EXPECT_EQ(s.ended(), "");
}

}  // namespace
}  // namespace isthmus::outer
