// What a coordinator decides: who is in the run, who trains which samples, when a round begins, and
// whether its result holds (PROTOCOL 4-18).
//
// A pure function of state, event and time: no socket, no clock, no disk, no wait.
// coordinator_driver.hpp puts sockets and a journal around it, simulator.hpp a seeded event queue,
// tests scripted events.
//
// A site is, to the coordinator,
//   absent     never here, left, or lost: its leases have returned
//   follower   here, without work: it fetches the newest state, or holds it and waits for a round
//   to begin member     has an assignment for the open meeting: trains, is ready, exchanges, votes
// and the open meeting is in one of
//   training   nobody is ready yet
//   barrier    someone is; the others are waited for, as long as they move
//   exchange   an attempt is out; ends by COMMIT, by a new attempt, or by ABANDON
//
// Order of actions is binding: an Append is durable before anything after it is sent.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.hpp"
#include "outer/config.hpp"
#include "outer/journal.hpp"
#include "outer/ledger.hpp"
#include "outer/messages.hpp"

namespace isthmus::outer {

using TimePoint = std::chrono::steady_clock::time_point;

// ---- events -----------------------------------------------------------------------------------

/// Time went by. Given after everything that has arrived. `judge` is false when this process has
/// itself stood still: then it beats, but finds nobody silent (JudgeGate).
struct Tick {
    bool judge = true;
};
/// Ctrl-C, or another wish to end the run early.
struct Quit {
    std::string reason;
};
/// `name` is the authenticated one (the key's), or what Hello said on loopback without keys. Only
/// messages over the connection of the name's last Hello are given, and Hellos.
struct HeardFrom {
    std::string name;
    Message message;
};
/// The connection of this site broke. It may come back; until then its silence counts four times.
struct Disconnected {
    std::string name;
};
/// `isthmus ctl`.
struct Operate {
    enum class What { kDrain, kDrop, kPause, kResume, kRevoke };
    What what = What::kPause;
    std::string site;  ///< name; drain, drop, revoke
};
using CoordinatorEvent = std::variant<HeardFrom, Disconnected, Tick, Operate, Quit>;

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

// ---- actions ----------------------------------------------------------------------------------

struct SayTo {
    std::string name;  ///< over the connection of this name's last message
    Message message;
};
/// Durable before anything that follows. The driver then sets CoordinatorState::journal, and writes
/// the journal's head as it is into every Welcome and Commit that it sends.
struct Append {
    std::vector<JournalRecord> records;
};
/// A line for the log. `loud`: something an operator should see.
struct Report {
    std::string line;
    bool loud = false;
};
/// The run is over for the coordinator; nothing follows.
struct End {
    bool good = false;
    std::string reason;  ///< if not good
};
using CoordinatorAction = std::variant<SayTo, Append, Report, End>;
using CoordinatorActions = std::vector<CoordinatorAction>;

// ---- state ------------------------------------------------------------------------------------

struct CoordinatorOptions {
    std::uint64_t run = 0;
    std::vector<std::string> sites;  ///< named ones, in the order of their ids
    Budget budget;
    std::vector<std::int64_t>
        meetings;  ///< steps of the run after which sites meet, ascending; the last ends it
    std::int64_t samples_per_step = 1;  ///< of one site
    std::int64_t min_sites = 1;         ///< for rounds after the first
    bool weigh_by_tokens = true;
    Codec codec = Codec::kFp32;
    OuterOptimizer optimizer;
    std::optional<Method>
        method;  ///< forced; none: all-gather up to two participants, owners from three
    std::uint64_t seed = 0;
    std::uint32_t max_attempts = 5;
    std::uint64_t full_digest_rounds = 10;
    double max_norm_ratio =
        10.0;  ///< of an input's norm to the running median, three sites or more; 0: any
    /// Sites of unequal speed: H scaled to the measured speed (DyLU, arXiv:2401.09135), or to a
    /// time.
    enum class Pace { kEqual, kBySpeed, kByTime } pace = Pace::kEqual;
    double round_s = 0;  ///< of kByTime
    std::map<std::string, double>
        rates;  ///< configured bytes/s of a site's link; measured ones otherwise
    std::vector<std::pair<std::string, std::string>> config;  ///< what must be equal at all sites
    Incarnation self;
};

struct CoordinatorState {
    enum class Phase { kTraining, kBarrier, kExchange, kEnded };
    enum class Standing { kAbsent, kFollower, kMember };
    struct Site {
        std::string name;
        Standing standing = Standing::kAbsent;
        Incarnation incarnation;  ///< of its newest process; number 0: never seen
        std::string endpoint, public_key;
        StateName state;           ///< it holds, by its last word
        bool identified = false;   ///< said Hello to this coordinator
        std::uint64_t hellos = 0;  ///< Hello::count of its last one
        Incarnation stopped;       ///< process that was told to stop; the word may be on its way
        bool has_moments = false;
        std::optional<Assignment> assignment;
        std::optional<Ready> ready;  ///< for the open meeting
        std::optional<Vote> vote;    ///< for the open attempt
        bool draining = false, barred = false, done = false;
        std::uint64_t progress = 0;
        std::int64_t step = 0;
        SiteFigures figures;
        TimePoint heard, moved;  ///< last message; last time that progress changed
        bool disconnected = false;
        std::uint64_t restored = 0;  ///< times that it had to be restored; for the report
    };
    /// One joiner at a time.
    struct Restoring {
        SiteId joiner;
        StateName state;                    ///< of the copies; set by the first Pinned
        std::vector<SiteId> asked, pinned;  ///< donors
        TimePoint since;
        bool moments = false;  ///< the first donor's inner optimizer state too
    };
    Phase phase = Phase::kTraining;
    bool started = false;  ///< StartRecord is written
    bool paused = false;
    bool peers_changed = false;  ///< to be told at the next beat
    std::vector<Site> sites;     ///< by site id
    Meeting meeting;             ///< the open one
    StateName newest;
    StateName before_newest;  ///< what the last commit started from
    std::optional<CommitRecord> last_commit;
    std::uint32_t attempts = 0;  ///< at the open meeting
    std::uint32_t counter = 0;   ///< of attempts, never reset
    std::optional<Begin> begin;  ///< the open attempt
    std::vector<double> norms;   ///< of recent inputs, for the median
    std::optional<Restoring> restoring;
    std::uint32_t mismatches = 0;  ///< of voted hashes, at the open meeting
    std::vector<std::pair<SiteId, SiteId>>
        unconnected;   ///< pairs that missed each other at the last attempt
    std::string data;  ///< fingerprint that the first site brought
    /// The last process of this name that was refused, and why, as was reported.
    std::map<std::string, std::pair<Incarnation, std::string>> refusals;
    LogHead journal;  ///< set by the driver after each Append
    Ledger ledger;
    TimePoint waiting_since;      ///< start, first READY, BEGIN, or all sites gone
    std::int64_t waits_said = 0;  ///< round budgets of that wait that are in the log
    TimePoint next_beat;
    std::string stop_reason;
    CoordinatorOptions options;
};

/// A new run, or, from the records of its journal, one that goes on: every member of the journal is
/// expected back within the budget. Returns also what is to be done first (RunRecord,
/// CoordinatorRecord). ERRORS  the records contradict each other or the options: which record, and
/// how.
Result<std::pair<CoordinatorState, CoordinatorActions>> make_coordinator(
    const CoordinatorOptions&, const std::vector<JournalRecord>&, const LogHead&, TimePoint now);

CoordinatorActions step(CoordinatorState&, const CoordinatorEvent&, TimePoint now);

/// The assignment that a grant of these samples makes.
Assignment assignment_for(const CoordinatorOptions&, Meeting, std::vector<SampleRange> samples);

/// For `isthmus status`.
std::string_view name_of(CoordinatorState::Standing);
std::string_view name_of(CoordinatorState::Phase);

}  // namespace isthmus::outer
