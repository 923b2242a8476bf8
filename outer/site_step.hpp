// One event's worth of a site's deciding: the inside of site.hpp's step(), in two files.
//   site.cpp         HELLO, a round, leaving, patience
//   site_copies.cpp  what it fetches while it follows, and serves to those who join
#pragma once

#include "outer/site.hpp"

namespace isthmus::outer {

class SiteStep {
  public:
    using State = SiteState;
    using Phase = State::Phase;

    SiteStep(State& state, TimePoint now) : s_(state), now_(now) {}
    SiteActions take() { return std::move(actions_); }
    void on(const Heard&);
    void on(const Cut&);
    void on(const Exchanged&);
    void on(const ExchangeFailed&);
    void on(const Snapshotted&);
    void on(const Fetched&);
    void on(const FetchFailed&);
    void on(const Finish&);
    void on(const Quit&);
    void on(const SiteTick&);

  private:
    // what the coordinator says
    void hear(const Identify&);
    void hear(const Welcome&);
    void hear(const Peers&);
    void hear(const CoordinatorBeat&);
    void hear(const Assign&);
    void hear(const Begin&);
    void hear(const Commit&);
    void hear(const Abandon&);
    void hear(const Pin&);
    void hear(const Unpin&);
    void hear(const Restore&);
    void hear(const Farewell&);
    void hear(const Stop&);
    // What only a site says is noise.
    template <class Other>
    void hear(const Other&) {}

    // how it goes on
    void arrive(const Commit&);
    void go_on(const Commit&);
    void follow();
    void train(const Assignment&, bool from_state);
    void void_all();
    std::string unfit(const Begin&) const;
    bool older(const Incarnation&);
    bool same_journal(const LogHead&);
    std::optional<Meeting> training() const;
    void say_hello();
    void say_ready();
    void say_again();
    void judge();
    void say(Message);
    void report(std::string line);
    void end(bool good, const std::string& reason);

    State& s_;
    TimePoint now_;
    SiteActions actions_;
};

}  // namespace isthmus::outer
