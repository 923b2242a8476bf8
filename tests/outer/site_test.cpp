// A site's step function under scripted events; the simulator gives it random ones.
#include "outer/site.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/outer/support/sample_messages.hpp"

namespace isthmus::outer {
namespace {

/// A site that trains, by what it says and does.
class ScriptedSite {
  public:
    ScriptedSite() : state(make_site({}, first_hello(), now)) {
        heard(Identify{coordinator});
        heard(welcome(false));
        heard(Assign{test::sample_state(0), work()});
    }

    static Hello first_hello() {
        Hello h;
        h.name = "a";
        h.incarnation = {1, 5};
        h.state = test::sample_state(0);
        return h;
    }
    static Assignment work() {
        Assignment a;
        a.meeting = Meeting(0);
        a.num_steps = a.to_step = 6;
        a.samples = {{0, 6}};
        return a;
    }
    /// To its last HELLO.
    Welcome welcome(bool member) const {
        return {.answers = state.hello.count,
                .you = SiteId(0),
                .coordinator = coordinator,
                .journal = {11, 3, 4},
                .newest = test::sample_state(0),
                .peers = {},
                .member = member};
    }
    void heard(Message message) { event(Heard{std::move(message)}); }
    void event(const SiteEvent& e) { actions = step(state, e, now); }
    /// Of the last event's.
    template <class Said>
    std::vector<Said> said() const {
        std::vector<Said> out;
        for (const SiteAction& action : actions) {
            const auto* say = std::get_if<Say>(&action);
            if (say == nullptr) continue;
            if (const auto* m = std::get_if<Said>(&say->message)) out.push_back(*m);
        }
        return out;
    }

    TimePoint now{std::chrono::milliseconds(1'000)};
    Incarnation coordinator{2, 77};
    SiteState state;
    SiteActions actions;
};

using Phase = SiteState::Phase;

TEST(Site, ReadyNamesTheWelcomeThatItObeys) {
    ScriptedSite s;
    ASSERT_EQ(s.state.phase, Phase::kTraining);
    s.event(Cut{.trained = {{0, 6}}, .skipped = {}, .tokens = 6, .figures = {}, .full_digest = {}});
    ASSERT_EQ(s.said<Ready>().size(), 1u);
    EXPECT_EQ(s.said<Ready>()[0].welcome, s.state.hello.count);
}

// Between HELLO and its answer a site does not know whether what it has cut still counts.
TEST(Site, SaysNoReadyBeforeItsHelloIsAnswered) {
    ScriptedSite s;
    s.heard(Identify{s.coordinator});
    ASSERT_EQ(s.said<Hello>().size(), 1u);
    s.event(Cut{.trained = {{0, 6}}, .skipped = {}, .tokens = 6, .figures = {}, .full_digest = {}});
    ASSERT_EQ(s.state.phase, Phase::kReady);
    EXPECT_TRUE(s.said<Ready>().empty());
    s.heard(s.welcome(true));
    ASSERT_EQ(s.said<Ready>().size(), 1u);
    EXPECT_EQ(s.said<Ready>()[0].welcome, s.state.hello.count);
}

// It came to its state by results one by one, and lacks the moments that an older copy has. The
// coordinator has heard of the newer state, and gave it work there that it could never begin.
TEST(Site, DoesNotGoBackToAnOlderCopyForItsMoments) {
    Hello hello = ScriptedSite::first_hello();
    hello.state = test::sample_state(2);
    const TimePoint now{std::chrono::milliseconds(1'000)};
    SiteState site = make_site({}, hello, now);
    const auto fetches = [&](std::uint64_t round) {
        const Restore restore{test::sample_state(round), {test::sample_peer(1)}, true};
        const SiteActions actions = step(site, Heard{restore}, now);
        return std::any_of(actions.begin(), actions.end(), [](const SiteAction& a) {
            return std::holds_alternative<FetchCopy>(a);
        });
    };
    step(site, Heard{Identify{{2, 77}}}, now);
    Welcome welcome;
    welcome.answers = site.hello.count;
    welcome.coordinator = {2, 77};
    welcome.journal = {11, 3, 4};
    welcome.newest = test::sample_state(2);
    step(site, Heard{welcome}, now);
    ASSERT_EQ(site.phase, Phase::kFollowing);
    EXPECT_FALSE(fetches(1));
    EXPECT_TRUE(fetches(2));
}

}  // namespace
}  // namespace isthmus::outer
