// What a site does between its inner steps: join, follow, meet, vote, apply, leave. The counterpart
// of coordinator.hpp, and pure like it.
//
//   hello --Welcome--> following --Assign/Commit.next--> training --cut--> ready --BEGIN-->
//   exchange --result--> voted
//     --COMMIT--> training
//   ready, exchange, voted --ABANDON--> training (from the local parameters)
//   any --Welcome{member: false}--> following: its cut and leases are void, it goes back to the
//   newest state
//
// Nothing is applied without COMMIT; a site that has voted keeps its result until COMMIT or a newer
// attempt. A site whose coordinator is silent trains to its next cut, waits there, and goes on when
// it returns.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "outer/coordinator.hpp"

namespace isthmus::outer {

// ---- events -----------------------------------------------------------------------------------

struct Heard {
    Message message;
};
/// The training thread stands at a meeting and has lent its parameters.
struct Cut {
    std::vector<SampleRange> trained, skipped;  ///< since the last commit that listed this site
    std::uint64_t tokens = 0;
    SiteFigures figures;
    std::optional<std::pair<Round, StateHash>> full_digest;
};
/// The exchange is complete: the hash that apply would give, and what the inputs looked like.
struct Exchanged {
    Attempt attempt;
    StateHash result{};
    std::vector<InputReport> inputs;
};
/// Nothing came from these; or an input was not finite (in `inputs`) and the exchange is pointless.
struct ExchangeFailed {
    Attempt attempt;
    std::vector<SiteId> missing;
    std::vector<InputReport> inputs;
    std::string why;  ///< for the log; "": nothing came
};
/// A copy for a joiner is made.
struct Snapshotted {
    StateName state;
    std::int64_t step = 0;
};
/// The state that was to be fetched is here (a copy, or one result applied to the state before it).
struct Fetched {
    StateName state;
    bool moments = false;  ///< inner optimizer state came with it
};
/// No donor could give it.
struct FetchFailed {
    std::string reason;
};
/// The training thread is done and wants to go (after Commit.last or drained).
struct Finish {};
/// Tick of a site: what it has done so far.
struct SiteTick {
    std::uint64_t progress = 0;
    std::int64_t step = 0;
    double tokens_per_s = 0, loss = 0;
    bool judge = true;
};
using SiteEvent = std::variant<Heard, Cut, Exchanged, ExchangeFailed, Snapshotted, Fetched,
                               FetchFailed, Finish, Quit, SiteTick>;

// ---- actions ----------------------------------------------------------------------------------

struct Say {
    Message message;
};
struct Connect {
    std::vector<PeerInfo> peers;  ///< all of them; others are let go
};
/// Start (or start anew, with another attempt) to exchange the cut. A newer one replaces an older
/// one.
struct Exchange {
    Begin begin;
};
/// The staged result of this attempt becomes the state.
struct Apply {
    Commit commit;
};
/// What was cut and staged is void. `reset`: so are the local parameters, which go back to the
/// anchor (the samples were taken away); not after ABANDON, when the next cut covers this interval
/// too.
struct Discard {
    bool reset = true;
};
/// Train: from the local parameters, which are the newest state unless the last meeting was
/// abandoned.
struct Train {
    Assignment assignment;
    bool from_state = true;  ///< false: after ABANDON, from where the parameters are
};
/// The training thread must stop, wherever it is: a new state is coming. It learns its next step
/// from Train.
struct Hold {};
/// Fetch a copy from donors.
struct FetchCopy {
    Restore restore;
};
/// Fetch the result of one round after `from` from these sites and apply it.
struct FetchResult {
    StateName from;
    std::vector<SiteId> holders;
};
struct Snapshot {
    bool moments = false;
};
struct DropSnapshot {};
/// The training thread is done: this was the last meeting, or the site was drained. It answers with
/// Finish.
struct Complete {
    bool drained = false;
};
using SiteAction = std::variant<Say, Connect, Exchange, Apply, Discard, Train, Hold, FetchCopy,
                                FetchResult, Snapshot, DropSnapshot, Complete, Report, End>;
using SiteActions = std::vector<SiteAction>;

// ---- state ------------------------------------------------------------------------------------

struct SiteState {
    enum class Phase { kHello, kFollowing, kTraining, kReady, kExchange, kVoted, kLeaving, kEnded };
    Phase phase = Phase::kHello;
    Budget budget;
    Hello hello;  ///< kept up to date; what it says when asked
    SiteId self;  ///< told by Welcome
    bool welcomed = false;
    Incarnation coordinator;  ///< newest seen
    LogHead journal;          ///< newest seen
    StateName state;          ///< the outer state it holds
    StateName newest;         ///< it has heard of
    std::optional<Assignment> assignment;
    std::optional<Ready> ready;  ///< said until answered
    std::uint64_t cuts = 0;
    std::optional<Begin> begin;  ///< newest attempt it takes part in
    std::optional<Vote> vote;    ///< said until answered
    std::optional<Pinned> pinned;
    bool pinning = false;            ///< a Snapshot is out
    std::optional<Restore> restore;  ///< being fetched
    bool fetching = false;           ///< a FetchCopy or FetchResult is out
    std::optional<Commit> pending;   ///< a commit whose result this follower still has to fetch
    std::vector<SiteId> holders;     ///< of the newest result, for a follower
    bool copied = false;             ///< restored by a donor, who keeps all later results for it
    bool last = false, drained = false;  ///< this was the last meeting
    SiteTick tick;
    TimePoint heard;      ///< of the coordinator
    TimePoint waiting;    ///< since when it has nothing to do without the coordinator
    bool silent = false;  ///< has said that the coordinator is silent
    TimePoint next_beat;
};

SiteState make_site(const Budget&, Hello, TimePoint now);

SiteActions step(SiteState&, const SiteEvent&, TimePoint now);

}  // namespace isthmus::outer
