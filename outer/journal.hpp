// What the coordinator must still know after any crash, as records of a durable append log
// (PROTOCOL 5).
//
// Every record is on disk before anything that depends on it is sent. Replaying all of them gives
// the run's newest state, its members and the ledger of samples (ledger.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.hpp"
#include "outer/messages.hpp"
#include "outer/names.hpp"

namespace isthmus::outer {

/// The first record: which run this is.
struct RunRecord {
    std::uint64_t run = 0;
    std::vector<std::string> sites;  ///< named at the start; site id = index
    std::vector<std::pair<std::string, std::string>> config;  ///< what must be equal at all sites
    template <class A>
    void serialize(A& a) {
        a(run, sites, config);
    }
};
/// A coordinator began to use this journal.
struct CoordinatorRecord {
    Incarnation incarnation;
    template <class A>
    void serialize(A& a) {
        a(incarnation);
    }
};
/// A site came whose name is new, or a process of a known site. A newer incarnation evicts an older
/// one.
struct JoinRecord {
    SiteId site;
    std::string name;
    Incarnation incarnation;
    template <class A>
    void serialize(A& a) {
        a(site, name, incarnation);
    }
};
/// All are here: round 0 starts from this.
struct StartRecord {
    StateName state;
    std::string data;  ///< fingerprint of the token file that all samples are from
    template <class A>
    void serialize(A& a) {
        a(state, data);
    }
};
struct GrantRecord {
    SiteId site;
    Incarnation incarnation;
    Meeting meeting;
    std::vector<SampleRange> samples;
    template <class A>
    void serialize(A& a) {
        a(site, incarnation, meeting, samples);
    }
};
/// Samples that were granted and not trained go back.
struct ReturnRecord {
    SiteId site;
    std::vector<SampleRange> samples;
    template <class A>
    void serialize(A& a) {
        a(site, samples);
    }
};
/// A site is gone; its leases return.
struct LeaveRecord {
    SiteId site;
    Incarnation incarnation;
    std::string reason;
    bool lost = true;  ///< false: drained, or done
    template <class A>
    void serialize(A& a) {
        a(site, incarnation, reason, lost);
    }
};
struct Contribution {
    SiteId site;
    Incarnation incarnation;
    CutId cut;
    float weight = 0;
    std::uint64_t tokens = 0;
    std::vector<SampleRange> trained, skipped;
    template <class A>
    void serialize(A& a) {
        a(site, incarnation, cut, weight, tokens, trained, skipped);
    }
};
struct CommitRecord {
    Attempt attempt;
    Meeting meeting;
    StateName from, to;
    std::vector<Contribution> contributors;  ///< weight > 0
    float divisor = 0;                       ///< sum of their weights, in ascending site id, fp32
    std::vector<SiteId> holders;             ///< who voted
    Codec codec = Codec::kFp32;
    Method method = Method::kAllGather;
    OuterOptimizer optimizer;
    template <class A>
    void serialize(A& a) {
        a(attempt, meeting, from, to, contributors, divisor, holders, codec, method, optimizer);
    }
};
struct AbandonRecord {
    Meeting meeting;
    Attempt attempt;  ///< the last one
    std::string reason;
    template <class A>
    void serialize(A& a) {
        a(meeting, attempt, reason);
    }
};
/// Samples that will not be trained: lost twice (they may be what kills sites).
struct QuarantineRecord {
    std::vector<SampleRange> samples;
    std::string reason;
    template <class A>
    void serialize(A& a) {
        a(samples, reason);
    }
};
/// The last meeting is committed.
struct EndRecord {
    StateName state;
    template <class A>
    void serialize(A& a) {
        a(state);
    }
};

using JournalRecord =
    std::variant<RunRecord, CoordinatorRecord, JoinRecord, StartRecord, GrantRecord, ReturnRecord,
                 LeaveRecord, CommitRecord, AbandonRecord, QuarantineRecord, EndRecord>;

std::vector<std::byte> encode_record(const JournalRecord&);
Result<JournalRecord> decode_record(std::span<const std::byte>);

}  // namespace isthmus::outer
