// A run of several sites: one coordinator and one process a site, here all on this machine.
//
// `isthmus train` with sites > 1 supervises: it starts `isthmus coordinator` and `isthmus site` as
// children, passes their output on with their names in front, and ends them all when one is lost.
// The coordinator writes where it listens into the run's folder (kMeetingFile, by rename); sites
// wait for it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/files.hpp"
#include "base/log.hpp"
#include "launch/training.hpp"
#include "outer/config.hpp"

namespace isthmus::launch {

/// In the run's folder: one line, "ENDPOINT RUN-ID", as long as the coordinator runs.
inline constexpr const char* kMeetingFile = "coordinator.address";

struct CoordinatorRun {
    outer::OuterConfig outer;
    Path run_folder;             ///< exists
    std::function<bool()> stop;  ///< Ctrl-C or SIGTERM came
};
/// Brings the sites together until all are done.
/// ERRORS throws Fatal(kPeerLost) naming the lost site, Fatal(kInterrupted), Fatal(kResources).
void run_coordinator(const CoordinatorRun&, FileSystem&, Log&);

struct SiteRun {
    outer::OuterConfig outer;
    SiteId site;
    Path run_folder;                ///< of the whole run: where the coordinator's address stands
    std::int64_t steps = 0;         ///< inner steps in all
    std::int64_t micro_batch = 1;   ///< samples (train.batch)
    std::uint64_t config_hash = 0;  ///< of everything that must be equal at all sites
    std::function<bool()> stop;
    /// After each meeting, with the hash of the parameters that every site now holds; may be empty.
    std::function<void(Round, const std::string& hash)> on_round = {};
};

/// A site's part in the run, as hooks of its training loop: it takes the site's share of the
/// samples, joins before the first step, meets the others every H steps and after the last, and
/// leaves at the end; then all sites hold the same bits. THREAD  the training thread.
class SiteMeeting {
  public:
    SiteMeeting(SiteRun, FileSystem&, Log&);
    /// A site that goes without having ended its run tells the others so, and that ends theirs.
    ~SiteMeeting();
    SiteMeeting(const SiteMeeting&) = delete;
    SiteMeeting& operator=(const SiteMeeting&) = delete;

    /// They hold on to this object.
    /// ERRORS they throw Fatal(kPeerLost) naming who was lost, Fatal(kInterrupted) when `stop` came
    /// while waiting for others, Fatal(kUsage) when outer.sites and the site's number contradict.
    TrainingHooks hooks();

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

struct SupervisedRun {
    outer::OuterConfig outer;
    Path run_folder;           ///< exists
    Path program;              ///< this program's file
    std::int64_t threads = 0;  ///< of the whole machine, divided among the sites; 0: all cores
    /// Arguments after the program's name.
    std::vector<std::string> coordinator_arguments;
    std::function<std::vector<std::string>(SiteId, std::int64_t threads)> site_arguments;
    std::function<bool()> stop;
};
/// Runs all of it as child processes; no child outlives the call, nor this process.
/// ERRORS throws Fatal(kPeerLost) naming the process that ended and how, Fatal(kInterrupted), or
/// with the child's own exit code when it ended with an error of its own.
void supervise_run(const SupervisedRun&, FileSystem&, Log&);

}  // namespace isthmus::launch
