// What must hold whatever fails: the invariants of DESIGN.md, looked at where something changes.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "outer/coordinator.hpp"
#include "outer/ledger.hpp"

namespace isthmus::outer::simulator {

/// The state that contributions to a state give, in place of arithmetic: it differs when anything
/// differs that the mean depends on.
class MeanHash {
  public:
    MeanHash(const StateHash& from, const OuterOptimizer&);
    /// In ascending site id.
    void add(const CutId&, float weight);
    StateHash result() const;

  private:
    std::uint64_t value_;
};

/// What the coordinators' disk holds, and what may therefore be believed.
class Checks {
  public:
    /// One record is durable. ERRORS  which promise it breaks.
    Status durable(const JournalRecord&);
    /// A site has cut what it trained for from this state on.
    void cut(const CutId&, const StateName& from, std::vector<SampleRange> trained,
             std::vector<SampleRange> skipped);
    /// A site holds this from now on. ERRORS  it is no state of the run.
    Status holds(const StateName&) const;
    /// A site that applies this round's result counts these samples as trained. ERRORS  the record
    /// lists others.
    Status counted(Round after, SiteId, const std::vector<SampleRange>& trained,
                   const std::vector<SampleRange>& skipped) const;
    /// What a coordinator believes is what the journal says. REQUIRES  its actions are carried out.
    Status believed(const CoordinatorState&) const;
    /// A coordinator that is made from these records believes the same as this one.
    static Status replays(const std::vector<JournalRecord>&, const CoordinatorState&, TimePoint);
    Status proven() const { return ledger_.prove(); }

    const StateName& newest() const { return newest_; }
    bool started() const { return started_; }
    bool ended() const { return ended_; }
    std::uint64_t rounds() const { return rounds_; }
    const std::vector<CommitRecord>& commits() const { return commits_; }
    std::uint64_t abandoned() const { return abandoned_; }
    std::uint64_t skipped_samples() const { return ledger_.skipped().size(); }
    /// Names of sites by id.
    const std::vector<std::string>& names() const { return names_; }

  private:
    struct Registered {
        CutId id;
        StateName from;
        std::vector<SampleRange> trained, skipped;
    };
    Status on(const CommitRecord&);
    Status take_samples(const Contribution&, const std::vector<SampleRange>&);
    const Registered* find(const CutId&) const;

    Ledger ledger_;
    std::vector<bool> taken_;  ///< samples that are in a commit, kept apart from the ledger's sets
    std::map<std::uint64_t, StateHash> states_;  ///< by round
    std::vector<CommitRecord> commits_;          ///< by round
    std::map<SiteId, std::deque<Registered>> cuts_;
    std::vector<std::string> names_;
    StateName newest_;
    Meeting meeting_;
    std::uint64_t rounds_ = 0, abandoned_ = 0;
    bool started_ = false, ended_ = false;
};

}  // namespace isthmus::outer::simulator
