// What a site does between its inner steps: join, meet, vote, apply, leave. The counterpart of
// coordinator.hpp, and pure like it.
//
//   joining --START--> training --cut--> ready --BEGIN--> exchange --result--> voted --COMMIT-->
//   training
//
// Nothing is applied without COMMIT. Whoever waits for an answer says its own message again at
// every beat.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "outer/coordinator.hpp"

namespace isthmus::outer {

struct Heard {
    Message message;
};
/// The training thread has copied its local parameters.
struct Cut {
    std::uint64_t samples = 0;
};
/// The exchange is complete; this is the hash of what would be applied.
struct Exchanged {
    StateHash result{};
};
/// The last inner step and the last round are done.
struct Finish {};
/// Tick of a site: `progress` counts inner steps and chunks moved.
struct SiteTick {
    std::uint64_t progress = 0;
    bool judge = true;
};
using SiteEvent = std::variant<Heard, Cut, Exchanged, Finish, Quit, SiteTick>;

struct Say {
    Message message;
};
/// Connect to the other sites: all are here.
struct Joined {
    Endpoints speak_to;
};
struct Exchange {
    Begin begin;
};
/// The staged result becomes the anchor and the local parameters.
struct Apply {
    Commit commit;
};
using SiteAction = std::variant<Say, Joined, Exchange, Apply, End>;
using SiteActions = std::vector<SiteAction>;

struct SiteState {
    enum class Phase { kJoining, kTraining, kReady, kExchange, kVoted, kLeaving, kEnded };
    Phase phase = Phase::kJoining;
    SiteId self;
    Budget budget;
    Hello hello;
    Round round;         ///< rounds applied
    StateHash anchor{};  ///< after them
    std::uint64_t samples = 0;
    StateHash result{};  ///< voted for
    std::uint64_t progress = 0;
    TimePoint heard;  ///< of the coordinator; start while joining
    TimePoint next_beat;
};

SiteState make_site(SiteId self, const Budget&, Hello hello, TimePoint now);

SiteActions step(SiteState&, const SiteEvent&, TimePoint now);

}  // namespace isthmus::outer
