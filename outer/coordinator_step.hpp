// One event's worth of deciding: the inside of coordinator.hpp's step(), by idea.
//   coordinator.cpp            entry, time, the operator, replay of a journal
//   coordinator_sites.cpp      who is here: HELLO, loss, work for those who wait
//   coordinator_restoring.cpp  copies for those who come without the run's state
//   coordinator_judge.cpp      who is silent or stands still
//   coordinator_rounds.cpp     a round: READY, BEGIN, COMMIT, ABANDON, a new attempt
//   coordinator_votes.cpp      what the votes on an attempt say
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "outer/coordinator.hpp"

namespace isthmus::outer {

class CoordinatorStep {
  public:
    using State = CoordinatorState;
    using Phase = State::Phase;
    using Standing = State::Standing;
    using Site = State::Site;

    CoordinatorStep(State& state, TimePoint now) : s_(state), now_(now) {}
    CoordinatorActions take() { return std::move(actions_); }

    void hear(const HeardFrom&);
    void disconnected(const std::string& name);
    void tick(const Tick&);
    void operate(const Operate&);
    void stop(const std::string& reason);

  private:
    // who is here
    void on(SiteId, const Leave&);
    void on(SiteId, const SiteBeat&);
    void hello(const std::string& name, const Hello&);
    bool refused(const std::string& name, const Hello&);
    bool newcomer(SiteId, const Hello&);
    bool still_member(const Site&, const Hello&) const;
    void welcome(SiteId, bool member);
    void repair(SiteId, const std::optional<Meeting>& training);
    void tell_peers();
    void start();
    void enroll();
    bool can_work(const Site&) const;
    enum class Loss {
        kGone,      ///< what the others already have of it counts
        kVoid,      ///< what it contributed must not count
        kFarewell,  ///< it goes as agreed
    };
    void lose(SiteId, const std::string& reason, Loss = Loss::kGone);
    void lose_all(const std::vector<std::pair<SiteId, std::string>>&, Loss);
    bool is_needed(SiteId) const;
    void end_if_over();
    Assignment plan(SiteId, std::vector<JournalRecord>&);
    std::int64_t steps_for(const Site&, std::int64_t full) const;
    PeerInfo peer_of(SiteId) const;
    std::vector<SiteId> holders() const;

    // a round
    void on(SiteId, const Ready&);
    void try_begin();
    bool digests_agree();
    void begin();
    void add_participants(Begin&) const;
    void retry(const std::string& why);
    void commit(std::optional<SiteId> leaving = {});
    CommitRecord commit_record() const;
    void tell_commit(SiteId);
    void abandon(const std::string& reason);
    bool takes_part(SiteId) const;

    // copies
    void on(SiteId, const Pinned&);
    bool lacks_moments(const Site&) const;
    void plan_restoring();
    void tell_joiner();
    void end_restoring();
    void forget_restoring_of(SiteId);

    // patience
    void judge();
    void judge_absent();
    std::string who_is_missing() const;
    std::size_t least_sites() const {
        return static_cast<std::size_t>(std::max<std::int64_t>(1, s_.options.min_sites));
    }
    std::string is_waited_for(SiteId) const;
    TimePoint::duration patience(const Site&) const;

    // votes
    void on(SiteId, const Vote&);
    void evaluate(const Vote&);
    bool others_agree(SiteId) const;
    bool drop_bad_numbers(const Vote&);
    bool drop_large_norms();
    std::map<SiteId, double> norms() const;
    void resolve_missing();
    void resolve_mismatch();

    // What only a coordinator says, coming from a site, is noise.
    template <class Other>
    void on(SiteId, const Other&) {}

    void append(std::vector<JournalRecord>);
    bool over() const { return s_.started && s_.meeting.value >= s_.options.meetings.size(); }
    Site& at(SiteId id) { return s_.sites[id.value]; }
    const Site& at(SiteId id) const { return s_.sites[id.value]; }
    std::optional<SiteId> find(const std::string& name) const;
    template <class Predicate>
    std::vector<SiteId> which(Predicate p) const {
        std::vector<SiteId> out;
        for (std::uint32_t i = 0; i < s_.sites.size(); ++i) {
            if (p(s_.sites[i])) out.push_back(SiteId(i));
        }
        return out;
    }
    std::vector<SiteId> members() const {
        return which([](const Site& s) { return s.standing == Standing::kMember; });
    }
    void say(SiteId site, Message message) {
        actions_.push_back(SayTo{at(site).name, std::move(message)});
    }
    void report(std::string line, bool loud = false) {
        actions_.push_back(Report{std::move(line), loud});
    }

    State& s_;
    TimePoint now_;
    CoordinatorActions actions_;
    bool several_ = false;                   ///< are being lost, and more are to come
    std::optional<std::string> then_retry_;  ///< why
};

}  // namespace isthmus::outer
