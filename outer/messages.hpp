// What coordinator and sites say to each other: plain records, each one frame on the wire.
//
// A meeting, seen from a site: READY -> BEGIN -> (exchange) -> VOTE -> COMMIT. Every message may
// come twice, late, or never: whoever waits for an answer says its own again at every beat, and
// whoever gets one that is answered already answers again.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/append_log.hpp"
#include "base/ids.hpp"
#include "base/result.hpp"
#include "outer/codec.hpp"
#include "outer/names.hpp"
#include "outer/outer_optimizer.hpp"

namespace isthmus::outer {

// ---- parts ------------------------------------------------------------------------------------

/// Where to reach a site's data, and how to know it.
struct PeerInfo {
    SiteId site;
    std::string name;
    std::string endpoint;    ///< "tcp://HOST:PORT"
    std::string public_key;  ///< Z85; "" on loopback without keys
    bool operator==(const PeerInfo&) const = default;
    template <class A>
    void serialize(A& a) {
        a(site, name, endpoint, public_key);
    }
};

/// Inner steps to make before the next meeting, and the samples to make them on (a lease).
struct Assignment {
    Meeting meeting;
    std::int64_t from_step = 0;        ///< the run's steps before the first of these
    std::int64_t num_steps = 0;        ///< to make; fewer than to_step - from_step for a slow site
    std::int64_t to_step = 0;          ///< the run's steps at the meeting; continue from here
    std::vector<SampleRange> samples;  ///< granted, in this order
    bool last = false;                 ///< the run ends with this meeting
    template <class A>
    void serialize(A& a) {
        a(meeting, from_step, num_steps, to_step, samples, last);
    }
};

enum class Method : std::uint8_t {
    kSolo,  ///< one participant that averages: its local parameters are the result, bit for bit
    kAllGather,  ///< everyone gets every encoded input (two sites swap)
    kOwners,  ///< pieces are divided among owners, who sum, encode the mean once and send it to all
};
constexpr Method last_of(Method) {
    return Method::kOwners;
}

struct Participant {
    PeerInfo peer;
    CutId cut;
    float weight = 0;  ///< 0: takes part in the exchange, adds nothing
    float share = 0;   ///< of the pieces, by Method::kOwners; all add up to 1
    template <class A>
    void serialize(A& a) {
        a(peer, cut, weight, share);
    }
};

/// How much a contribution weighs, as its receivers saw it.
struct InputReport {
    SiteId site;
    bool finite = true;
    double sum_of_squares = 0;  ///< of the pieces that the reporter decoded
    template <class A>
    void serialize(A& a) {
        a(site, finite, sum_of_squares);
    }
};

/// What a site measured of its last interval; for status, shares of owners, and unequal speeds.
struct SiteFigures {
    double steps_per_s = 0, tokens_per_s = 0, loss = 0;
    double train_s = 0, wait_s = 0, exchange_s = 0, apply_s = 0;  ///< of the last round
    std::uint64_t bytes_sent = 0, bytes_received = 0;  ///< of the last round, payload of data links
    double up_bytes_per_s = 0, down_bytes_per_s = 0;  ///< measured while they were busy; 0: unknown
    template <class A>
    void serialize(A& a) {
        a(steps_per_s, tokens_per_s, loss, train_s, wait_s, exchange_s, apply_s, bytes_sent,
          bytes_received, up_bytes_per_s, down_bytes_per_s);
    }
};

// ---- site to coordinator ----------------------------------------------------------------------

/// I am here, this is what I hold. Said at the start, whenever the coordinator asks (Identify), and
/// after an eviction. Answered by Welcome or Stop.
struct Hello {
    std::string name;
    Incarnation incarnation;
    std::vector<std::pair<std::string, std::string>>
        config;            ///< keys that must be equal at all sites
    std::string endpoint;  ///< where peers reach its data
    std::string public_key;
    StateName state;
    bool has_moments = false;  ///< inner optimizer state worth keeping (false: freshly started)
    std::optional<Attempt> staged;    ///< voted for, no COMMIT heard
    std::optional<Meeting> training;  ///< has an assignment for this meeting
    bool leaving = false;             ///< its work is done; it only waits for Farewell
    LogHead journal;                  ///< newest it knows of; id 0: none
    std::uint64_t count =
        0;  ///< of Hellos of this process: an old one that comes late is not taken for news
    template <class A>
    void serialize(A& a) {
        a(count, name, incarnation, config, endpoint, public_key, state, has_moments, staged,
          training, leaving, journal.id, journal.count, journal.hash);
    }
};

/// I have cut what I will contribute.
struct Ready {
    StateName state;  ///< what the pseudo-gradient is taken from
    Meeting meeting;
    CutId cut;
    std::vector<SampleRange> trained;  ///< since the last COMMIT that listed this site
    std::vector<SampleRange> skipped;  ///< of them, left out of training: gradients were not finite
    std::uint64_t tokens = 0;          ///< trained
    std::optional<std::pair<Round, StateHash>> full_digest;  ///< of anchor and momentum, when due
    SiteFigures figures;
    /// Welcome::answers that it obeys. A site that was taken for lost may be leased the same
    /// samples again; what it cut before it heard of that is void all the same.
    std::uint64_t welcome = 0;
    template <class A>
    void serialize(A& a) {
        a(state, meeting, cut, trained, skipped, tokens, full_digest, figures, welcome);
    }
};

/// This is what I would hold after the round; or why I cannot.
struct Vote {
    Attempt attempt;
    std::optional<StateHash> result;  ///< the chained hash
    std::vector<SiteId> missing;      ///< peers from whom nothing came
    std::vector<InputReport> inputs;
    template <class A>
    void serialize(A& a) {
        a(attempt, result, missing, inputs);
    }
};

/// My copy of the outer state is made and served (answer to Pin).
struct Pinned {
    StateName state;
    std::int64_t step = 0;  ///< of the inner optimizer state in it
    template <class A>
    void serialize(A& a) {
        a(state, step);
    }
};

/// I have trained to the end (reason empty), or I leave before it. Answered by Farewell.
struct Leave {
    std::string reason;
    template <class A>
    void serialize(A& a) {
        a(reason);
    }
};

/// I live, and hold this.
struct SiteBeat {
    std::uint64_t progress = 0;  ///< counts what it has done: steps, pieces moved, chunks fetched
    std::int64_t step = 0;
    StateName state;
    std::optional<Meeting>
        training;  ///< has an assignment for this meeting; the coordinator repairs what was lost
    std::optional<Attempt> attempt;  ///< newest that it takes part in, or has voted for
    bool has_moments = false;        ///< as in Hello
    double tokens_per_s = 0, loss = 0;
    template <class A>
    void serialize(A& a) {
        a(progress, step, state, training, attempt, has_moments, tokens_per_s, loss);
    }
};

// ---- coordinator to site ----------------------------------------------------------------------

/// I do not know this connection: say Hello.
struct Identify {
    Incarnation coordinator;
    template <class A>
    void serialize(A& a) {
        a(coordinator);
    }
};

struct Welcome {
    std::uint64_t answers = 0;  ///< Hello::count
    SiteId you;
    Incarnation coordinator;
    LogHead journal;
    StateName newest;
    std::vector<PeerInfo> peers;  ///< all that are here
    /// False: this incarnation's leases and cut are void (it is new, or was taken for lost). It
    /// discards them, keeps its moments if it has any, and follows: waits at the newest state to be
    /// assigned work.
    bool member = false;
    template <class A>
    void serialize(A& a) {
        a(answers, you, coordinator, journal.id, journal.count, journal.hash, newest, peers,
          member);
    }
};

/// Who is here has changed: connect, or let go.
struct Peers {
    std::vector<PeerInfo> peers;
    template <class A>
    void serialize(A& a) {
        a(peers);
    }
};

/// A follower at the newest state becomes a member.
struct Assign {
    StateName state;  ///< to start from; ignored by a site that is not there
    Assignment assignment;
    template <class A>
    void serialize(A& a) {
        a(state, assignment);
    }
};

/// Exchange. The result is sum(weight_i x_i) / sum(weight_i), in ascending site id.
struct Begin {
    Attempt attempt;
    Meeting meeting;
    StateName from;
    std::vector<Participant> participants;  ///< ascending site id
    Codec codec = Codec::kFp32;
    OuterOptimizer optimizer;
    Method method = Method::kAllGather;
    std::uint64_t seed = 0;  ///< of random rounding
    template <class A>
    void serialize(A& a) {
        a(attempt, meeting, from, participants, codec, optimizer, method, seed);
    }
};

/// All voted the same, and the journal has it: apply. Also told to followers, who fetch the result.
struct Commit {
    Attempt attempt;
    StateName from, to;
    LogHead journal;                   ///< with this commit in it
    std::vector<SiteId> contributors;  ///< whose input is in the mean
    std::vector<SiteId> holders;       ///< who can serve the result
    std::optional<Assignment> next;  ///< none: wait (follower), leave (drained), or the run is over
    bool last = false;               ///< the run is over
    bool drained = false;            ///< leave after applying
    template <class A>
    void serialize(A& a) {
        a(attempt, from, to, journal.id, journal.count, journal.hash, contributors, holders, next,
          last, drained);
    }
};

/// This meeting has no result: train on from the local parameters; the next cut covers both
/// intervals.
struct Abandon {
    Meeting meeting;
    Assignment next;
    template <class A>
    void serialize(A& a) {
        a(meeting, next);
    }
};

/// Make a copy of your outer state (and inner optimizer state) and serve it, with every result
/// after it, until Unpin.
struct Pin {
    bool moments = false;
    template <class A>
    void serialize(A& a) {
        a(moments);
    }
};
struct Unpin {
    template <class A>
    void serialize(A&) {}
};

/// Fetch this copy from these sites (the first has the moments), then every result after it up to
/// the newest.
struct Restore {
    StateName state;
    std::vector<PeerInfo> donors;
    bool moments = false;
    template <class A>
    void serialize(A& a) {
        a(state, donors, moments);
    }
};

/// You may go.
struct Farewell {
    template <class A>
    void serialize(A&) {}
};
/// You are not wanted (wrong config, dropped), or the run ends here. One line that says why.
struct Stop {
    std::string reason;
    template <class A>
    void serialize(A& a) {
        a(reason);
    }
};
/// I live; this is the newest state.
struct CoordinatorBeat {
    Incarnation coordinator;
    StateName newest;
    std::vector<SiteId> holders;  ///< told to followers only
    template <class A>
    void serialize(A& a) {
        a(coordinator, newest, holders);
    }
};

using Message =
    std::variant<Hello, Ready, Vote, Pinned, Leave, SiteBeat, Identify, Welcome, Peers, Assign,
                 Begin, Commit, Abandon, Pin, Unpin, Restore, Farewell, Stop, CoordinatorBeat>;

inline constexpr std::uint16_t kNumMessageKinds = std::variant_size_v<Message>;
/// Largest payload of a Message.
inline constexpr std::uint64_t kMaxMessageBytes = 256 << 10;

/// Kind of its frame: the variant's index.
std::uint16_t kind_of(const Message&);
std::string_view name_of(const Message&);
std::vector<std::byte> encode(const Message&);
/// ERRORS one line: unknown kind, a field missing, bytes left over, a list longer than what came.
Result<Message> decode(std::uint16_t kind, std::span<const std::byte> payload);

}  // namespace isthmus::outer
