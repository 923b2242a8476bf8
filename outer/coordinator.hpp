// What a coordinator decides: who is in the run, when a round begins, and whether its result holds.
//
// A pure function of state, event and time: no socket, no clock, no wait. coordinator_driver.hpp
// puts sockets around it; tests put scripted events around it.
//
//   joining --all HELLO--> barrier --all READY, same anchor--> exchange --all VOTE, same result-->
//   barrier
//
// Whatever breaks this (a site silent or standing still, hashes that differ, a site that leaves
// early) ends the run: everyone is told STOP with one line that names who is to blame.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.hpp"
#include "outer/config.hpp"
#include "outer/messages.hpp"

namespace isthmus::outer {

using TimePoint = std::chrono::steady_clock::time_point;

/// Time went by. Given after everything that has arrived. `judge` is false when this process has
/// itself stood still: then it beats, but finds nobody silent (JudgeGate).
struct Tick {
    bool judge = true;
};
/// Ctrl-C, or another wish to end the run early.
struct Quit {
    std::string reason;
};
struct HeardFrom {
    SiteId site;
    Message message;
};
/// Whether a driver's tick may judge others. A loop that has itself stood still (SIGSTOP, a
/// suspended machine) gives what has arrived meanwhile a beat to be heard.
class JudgeGate {
  public:
    JudgeGate(const Budget& budget, TimePoint now) : budget_(budget), looked_(now) {}
    bool open(TimePoint now) {
        if (now - looked_ > budget_.silence() / 2) opens_ = now + budget_.beat();
        looked_ = now;
        return now >= opens_;
    }

  private:
    Budget budget_;
    TimePoint looked_;
    TimePoint opens_{};
};

using CoordinatorEvent = std::variant<HeardFrom, Tick, Quit>;

/// A line for the log.
struct Report {
    std::string line;
};
struct SayTo {
    SiteId site;
    Message message;
};
/// The run is over; nothing follows.
struct End {
    bool good = false;
    std::string reason;  ///< if not good
};
using CoordinatorAction = std::variant<SayTo, Report, End>;
using CoordinatorActions = std::vector<CoordinatorAction>;

struct CoordinatorState {
    enum class Phase { kJoining, kBarrier, kExchange, kEnded };
    struct Member {
        std::optional<Hello> hello;
        std::optional<Ready> ready;  ///< for the round that is open
        std::optional<Vote> vote;
        bool left = false;
        std::uint64_t progress = 0;
        TimePoint heard, moved;  ///< last message; last time that progress changed
    };
    Phase phase = Phase::kJoining;
    Budget budget;
    std::vector<Member> members;  ///< by site id: all that the run names
    Round round;                  ///< rounds committed
    StateHash state{};            ///< of the anchor after them
    TimePoint waiting_since;      ///< start, first READY, or BEGIN
    TimePoint next_beat;
    std::string stop_reason;
};

CoordinatorState make_coordinator(std::uint32_t num_sites, const Budget&, TimePoint now);

/// REQUIRES HeardFrom names a site < members.size().
CoordinatorActions step(CoordinatorState&, const CoordinatorEvent&, TimePoint now);

}  // namespace isthmus::outer
