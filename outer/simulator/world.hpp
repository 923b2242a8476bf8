// The world around the step functions: processes that crash and stop, a network that loses, a disk
// that fails, training and exchanges that take time. Every choice comes from the seed.
//   world.cpp         the event loop, processes, the network
//   coordinator.cpp   a coordinator's driver and disk
//   site.cpp          a site's driver and training thread: what coordinator and training make it do
//   site_data.cpp     its exchanges, copies and results
//   faults.cpp        what goes wrong, and what operators do
//   describe.cpp      lines of a trace
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "outer/coordinator.hpp"
#include "outer/samples.hpp"
#include "outer/simulator.hpp"
#include "outer/simulator/checks.hpp"
#include "outer/simulator/events.hpp"
#include "outer/site.hpp"

namespace isthmus::outer::simulator {

/// What coordinator and site have in common.
struct Process {
    bool up = false;
    std::uint32_t life = 0;     ///< counts its processes
    std::uint64_t draw = 0;     ///< of this life: nonce
    bool stopped = false;       ///< SIGSTOP
    std::uint32_t wake = 0;     ///< token of the kWake that ends it
    std::vector<Event> missed;  ///< while stopped
    Ns stopped_at = 0;
    bool dies_at_action = false;  ///< at the next list of actions, after some of them
    double rate = 1;              ///< of its clock
    Ns offset = 0;
    std::optional<JudgeGate> gate;
    TimePoint clock(Ns at) const {
        return TimePoint(
            std::chrono::nanoseconds(offset + static_cast<Ns>(static_cast<double>(at) * rate)));
    }
};

/// A site's process, its training thread and its data.
struct LocalSite {
    Process process;
    std::string name;
    SiteState state;

    // The model: the name of the outer state, and what was trained into it since.
    StateName model;
    bool moments = false;
    std::uint64_t mixed_in = 0, num_mixed_in = 0;  ///< samples in the local parameters
    // The training thread.
    bool lent = true;  ///< it waits, and its model may be changed
    bool hold = false;
    std::uint32_t train = 0;         ///< token of kTrained
    std::deque<SiteAction> waiting;  ///< until the model is lent
    std::optional<Assignment> work;
    bool void_samples = false, counted = false;  ///< told to it with its next work
    SampleCursor cursor;
    Ns step_time = kSecond, work_began = 0;
    std::int64_t steps_made = 0;  ///< of `work`, when its thread last said so
    std::uint64_t steps_before = 0;
    // The exchange.
    std::optional<Attempt> begun;  ///< newest; the BEGIN is the step function's
    std::optional<CutId> offered;
    bool not_finite = false;
    double norm = 1;
    std::optional<StateHash> staged;
    std::uint32_t exchange = 0;  ///< token
    Ns exchange_moved = 0, look_in = 0;
    std::uint64_t moved = 0;  ///< pieces and chunks
    // Copies.
    struct Result {
        StateName from, to;
    };
    std::deque<Result> results;  ///< committed; the last, or all since the snapshot
    std::optional<StateName> snapshot;
    bool snapshot_moments = false, wants_moments = false;
    std::uint32_t fetch = 0;  ///< token
    std::optional<Restore> copying;
    std::vector<SiteId> holders;
    std::uint32_t looks = 0;

    bool dropped = false;     ///< by an operator; comes back no more
    bool drained = false;     ///< or is about to be
    bool ended_good = false;  ///< its last process; with `last`: at the end of the run
    bool saw_end = false;
};

class World {
  public:
    World(const SimulatorOptions&, const FaultRanges* allowed);
    SimulatorResult run();
    std::uint64_t faults() const { return dice_.faults(); }

  private:
    // world.cpp
    void set_up();
    CoordinatorOptions coordinator_options();
    void dispatch(const Event&);
    void deliver(const Event&);
    Process& process(std::uint32_t who);
    void at(Ns when, What, std::uint32_t who, std::uint32_t token = 0);
    void start_later(std::uint32_t who, Ns in);
    void kill(std::uint32_t who);
    void stop_process(std::uint32_t who, Ns for_ns);
    void wake(const Event&);
    bool is_over();
    void judge_end();
    void send(What, std::uint32_t site, std::uint32_t life, Message&&);
    void post(What, std::uint32_t site, std::uint32_t life, Message&&, Ns in);
    bool reach(std::uint32_t a, std::uint32_t b) const;
    void break_promise(const std::string& who, const std::string& what);
    void check(const std::string& who, const Status&);
    std::uint32_t index_of(const std::string& name) const;
    std::uint32_t index_of(SiteId) const;

    // coordinator.cpp
    void start_coordinator();
    void coordinator_hears(const Event&, Message);
    void coordinator_step(const CoordinatorEvent&);
    void act(CoordinatorActions);
    bool append(Append&);
    void say(SayTo&);
    void look_at_coordinator();

    // site.cpp
    void start_site(std::uint32_t);
    void site_step(std::uint32_t, const SiteEvent&);
    void site_tick(const Event&);
    void act(std::uint32_t, SiteActions);
    void on(std::uint32_t, Say&);
    void on(std::uint32_t, Connect&) {}
    void on(std::uint32_t, Exchange&);
    void on(std::uint32_t, Apply&);
    void on(std::uint32_t, Discard&);
    void on(std::uint32_t, Train&);
    void on(std::uint32_t, Hold&);
    void on(std::uint32_t, FetchCopy&);
    void on(std::uint32_t, FetchResult&);
    void on(std::uint32_t, Snapshot&);
    void on(std::uint32_t, DropSnapshot&);
    void on(std::uint32_t, Complete&);
    void on(std::uint32_t, Report&);
    void on(std::uint32_t, End&);
    bool waits_for_model(std::uint32_t, SiteAction);
    void raise_hold(std::uint32_t);
    void lends(const Event&);
    Cut cut_of(std::uint32_t);
    void train_steps(std::uint32_t, std::int64_t steps);
    void snapshot_at_step(std::uint32_t);
    std::int64_t steps_made(const LocalSite&) const;

    // site_data.cpp
    void look_at_exchange(const Event&);
    bool needs(const Begin&, const Participant& me, const Participant& other) const;
    bool gives(std::uint32_t from, std::uint32_t to, const Participant&, const Attempt&) const;
    void add_owners_without_input(const Begin&, const Participant& me,
                                  std::vector<SiteId>& missing) const;
    std::vector<InputReport> inspect(const Begin&, SiteId self) const;
    void look_at_fetch(const Event&);
    std::optional<Fetched> copy_from_donors(std::uint32_t);
    std::optional<Fetched> result_from_holders(std::uint32_t);
    void set_model(std::uint32_t, const StateName&);
    void keep_result(std::uint32_t, const StateName& from, const StateName& to);

    // faults.cpp
    void plan_faults();
    void plan_faults(double expected, std::uint32_t kind);
    void fault(const Event&);
    void crash_a_site();
    void crash_the_coordinator();
    void stop_something();
    void part();
    void heal();
    void operate();
    void operator_again(const Event&);
    void end_faults();
    bool can_spare(std::uint32_t site) const;
    std::optional<std::uint32_t> any_site(bool spare);
    Ns a_while();

    // describe.cpp
    bool tracing() const { return options_.trace_lines > 0; }
    void note(std::uint32_t who, const std::string& line);
    std::string name_of_process(std::uint32_t who) const;
    static std::string describe(const Message&);
    static std::string describe(const JournalRecord&);
    std::string stand() const;

    struct Partition {
        std::uint32_t a = 0, b = 0;  ///< processes; b may be the coordinator, or everyone
        Ns until = 0;
        bool holds_back = false;  ///< what is sent comes when it heals
    };

    SimulatorOptions options_;
    Faults faults_;  ///< in force now
    Draws draws_;
    Dice dice_;
    Queue queue_;
    Ns now_ = 0;
    SimulatorResult result_;
    std::uint64_t digest_ = 0;
    std::deque<std::string> trace_;
    bool over_ = false;
    Checks checks_;
    std::vector<Message> messages_;  ///< on the way
    std::vector<std::uint32_t> free_;
    std::vector<Partition> partitions_;

    std::vector<LocalSite> sites_;
    StateName initial_;

    Process coordinator_;
    CoordinatorOptions run_options_;
    std::unique_ptr<CoordinatorState> coordinator_state_;
    std::vector<std::uint32_t> connection_;  ///< by site: life whose HELLO this coordinator took
    std::vector<JournalRecord> disk_;
    LogHead head_;
    bool coordinator_done_ = false;
    std::uint64_t last_meeting_ = 0;
    Ns progress_at_ = 0, round_ns_ = kSecond;
    bool quiet_ = false;  ///< faults have ended
};

/// The coordinator's number among processes; sites have theirs.
inline constexpr std::uint32_t kCoordinator = 0xffffffffu;
inline constexpr std::uint32_t kEveryone = 0xfffffffeu;

}  // namespace isthmus::outer::simulator
