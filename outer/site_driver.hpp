// Sockets, clock, exchange and state around the site's step function, on a thread of their own:
// beats go on, and a joiner is served, while the training thread is deep in a step.
//
// The two threads share no mutable tensor: the training thread lends the model (model_port.hpp)
// whenever it waits in begin() or after_step(), and has it back when that returns.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.hpp"
#include "net/frame.hpp"
#include "net/link.hpp"
#include "outer/data_plane.hpp"
#include "outer/model_port.hpp"
#include "outer/outer_state.hpp"
#include "outer/site.hpp"

namespace isthmus::outer {

/// THREAD  all public functions by the training thread.
class SiteDriver {
  public:
    struct Options {
        net::RunId run;
        std::string name;
        std::vector<std::string>
            coordinator;  ///< endpoints "tcp://HOST:PORT", tried in turn; see find_coordinator
        /// Asked whenever no coordinator answers (it may have moved): endpoints, or none yet.
        std::function<std::vector<std::string>()> find_coordinator = {};
        std::string coordinator_key;  ///< pinned public key; "": loopback without keys
        Budget budget;
        OuterState::Options state;
        std::uint64_t full_digest_rounds = 10;
        std::int64_t piece_elements = kPieceElements;
        DataPlane::Options data;  ///< run, self, keys are filled in
        std::size_t cache_bytes = 256 << 20;
        std::uint64_t incarnation = 1;  ///< number; drawn from the clock by launch/
        std::uint64_t nonce = 0;
        std::vector<std::pair<std::string, std::string>>
            config;  ///< that must be equal at all sites
        std::int64_t tokens_per_sample = 1;
        /// Connects to the coordinator through something else (an emulated link).
        std::function<std::string(const std::string&)> route_coordinator = {};
        std::function<bool()> stop =
            {};  ///< asked while waiting; true ends this site as "interrupted"
        /// Hears what this site enters, and at which meeting: for tests that make it fail there.
        /// "training" (a step is made, more are to come) and "cut" (before the model is lent) by
        /// the training thread; "barrier" (READY is said), "exchange", "vote" (it is said), "apply"
        /// (before anything is applied) by the network thread.
        std::function<void(std::string_view phase, std::uint64_t meeting)> on_phase = {};
    };
    /// What the training thread does next.
    struct Work {
        std::int64_t from_step =
            0;  ///< set the trainer's step count to this (it says: already made)
        std::int64_t num_steps = 0;
        bool changed = false;  ///< parameters, or the inner optimizer's state, were replaced
    };
    struct Finished {
        StateName state;
        bool drained = false;  ///< left before the end of the run, as an operator asked
    };
    struct GoOn {};
    using Next = std::variant<GoOn, Work, Finished>;

    /// One round, for records.
    struct RoundFigures {
        Round round;  ///< commits, this one included
        StateName state;
        Meeting meeting;
        std::size_t num_contributors = 0;
        bool contributed = false;
        SiteFigures figures;
        double barrier_s = 0;  ///< waiting for BEGIN
        std::uint64_t attempts = 1;
        std::size_t bytes_held_peak = 0;
    };

    /// Opens the sockets and starts the thread. The model must outlive the driver.
    static Result<std::unique_ptr<SiteDriver>> start(net::Context&, const Options&, ModelPort&,
                                                     Log&);
    /// Stops the thread; without finish() the others are told that this site has failed.
    ~SiteDriver();

    /// Waits until there is work, before the first step. ERRORS  why the run did not start, or has
    /// ended.
    Result<Next> begin();
    /// The samples of the next step. REQUIRES  inside the assignment.
    void next_samples(std::span<SampleNumber> out);
    struct StepFigures {
        double loss = 0, seconds = 0;
        std::uint64_t tokens = 0, samples = 0;
        bool skipped = false;
    };
    /// After each inner step. Meets the others if the assignment is done, or gives in to a new
    /// state. ERRORS  why the run has ended.
    Result<Next> after_step(const StepFigures&);
    /// Rounds completed since the last call.
    std::vector<RoundFigures> take_rounds();
    /// After Finished: says so to the coordinator and waits until it may go (it may still have to
    /// serve others).
    Status finish();
    /// Ends this site early; `reason` follows "site NAME left: ".
    void quit(const std::string& reason);

  private:
    class Network;
    struct Impl;
    explicit SiteDriver(std::unique_ptr<Impl>);
    std::unique_ptr<Impl> impl_;
};

}  // namespace isthmus::outer
