// Where every sample number of the run is: not yet granted, leased to a site, returned, committed,
// or skipped. A pure fold over journal records; the coordinator decides with it, `isthmus data
// ledger` proves with it.
//
// The promise (PROTOCOL 18): every sample number lies in exactly one commit of the surviving
// lineage, or is listed as skipped or partial; the ledger proves what sites declared.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "outer/journal.hpp"

namespace isthmus::outer {

/// A set of sample numbers as ranges; neighbours are merged.
class SampleSet {
  public:
    void add(SampleRange);
    void remove(SampleRange);
    bool contains(SampleRange) const;    ///< all of it
    bool intersects(SampleRange) const;  ///< any of it
    std::uint64_t size() const { return size_; }
    bool empty() const { return ranges_.empty(); }
    std::vector<SampleRange> ranges() const;  ///< ascending
    std::vector<SampleRange> within(
        SampleRange) const;  ///< the parts of it that are here, ascending
    /// The first `count` numbers (fewer if there are fewer).
    std::vector<SampleRange> first(std::uint64_t count) const;
    /// Takes the first `count` numbers out (fewer if there are fewer).
    std::vector<SampleRange> take(std::uint64_t count);

  private:
    std::map<std::uint64_t, std::uint64_t> ranges_;  ///< first -> end
    std::uint64_t size_ = 0;
};

class Ledger {
  public:
    /// What a record does to samples. ERRORS  one line naming site and range: a grant of what is
    /// not free, a commit of samples outside the contributor's live leases or committed before. The
    /// ledger is then unchanged.
    ///
    ///   Grant       returned (parts below granted_up_to) or fresh (from there on, without a gap)
    ///   -> leased Return      leased -> returned Leave       all that the site holds -> returned;
    ///   remembered as lost if it was Join        another incarnation of a site that holds leases:
    ///   as if the old one were lost Commit      each contributor's trained -> committed, skipped
    ///   -> skipped Quarantine  returned or leased -> skipped
    ///
    /// The other records do nothing to samples.
    Status apply(const JournalRecord&);

    /// The records' samples for a grant of `count`: returned ones first, then fresh ones.
    std::vector<SampleRange> plan_grant(std::uint64_t count) const;
    /// Whether a contribution's samples lie in live leases of that incarnation, none of them twice
    /// (PROTOCOL 16).
    bool leased(SiteId, const Incarnation&, const std::vector<SampleRange>&) const;
    /// What this site holds now.
    std::vector<SampleRange> leases_of(SiteId) const;
    std::uint64_t leased_samples() const;  ///< by all sites
    /// Of what would return if this site were lost now: samples that have been lost before (to be
    /// quarantined).
    std::vector<SampleRange> lost_before(SiteId) const;

    const SampleSet& committed() const { return committed_; }
    const SampleSet& returned() const { return returned_; }
    /// Quarantined, and steps with gradients that were not finite.
    const SampleSet& skipped() const { return skipped_; }
    /// First number that was never granted.
    std::uint64_t granted_up_to() const { return next_fresh_; }
    std::uint64_t rounds() const { return rounds_; }  ///< commits seen
    /// Every number below granted_up_to is in exactly one of committed, returned, skipped, leased.
    /// ERRORS  the first that is not.
    Status prove() const;

  private:
    struct Lease {
        Incarnation incarnation;
        SampleSet samples;
    };
    using Ranges = std::vector<SampleRange>;
    Status apply_one(const GrantRecord&);
    Status apply_one(const ReturnRecord&);
    Status apply_one(const LeaveRecord&);
    Status apply_one(const JoinRecord&);
    Status apply_one(const CommitRecord&);
    Status apply_one(const QuarantineRecord&);
    Status check(const Contribution&) const;
    const SampleSet* held_by(SiteId, const Incarnation&) const;
    void give_back(SiteId, bool lost);

    std::map<SiteId, Lease> leases_;
    SampleSet committed_, returned_, skipped_, lost_once_;
    std::uint64_t next_fresh_ = 0;
    std::uint64_t rounds_ = 0;
};

}  // namespace isthmus::outer
