// `isthmus train` with several sites: starts the coordinator and the sites as children, passes
// their output on with their names in front, starts again who was killed, and ends all when the run
// cannot go on.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/files.hpp"
#include "base/log.hpp"

namespace isthmus::launch {

struct SupervisedRun {
    std::vector<std::string> sites;  ///< names
    Path run_folder;                 ///< exists
    Path program;                    ///< this program's file
    std::int64_t threads = 0;        ///< of the whole machine, divided among the sites
    int restarts = 3;                ///< of each process that a signal ended
    /// Arguments after the program's name.
    std::vector<std::string> coordinator_arguments;
    std::function<std::vector<std::string>(const std::string& site, std::int64_t threads)>
        site_arguments;
    std::function<bool()> stop;
};

/// Runs all of it as child processes; no child outlives the call, nor this process. A process that
/// a signal ended is started again. A site that ends with an error of its own, or once too often,
/// is left behind if rounds have been made and other sites go on; before that, and for the
/// coordinator, it ends the run. A coordinator whose disk refuses is started again every few
/// seconds: its run pauses.
/// ERRORS throws Fatal(kPeerLost) naming the process that ended and how, Fatal(kInterrupted), or
/// with the child's own exit code when it ended with an error of its own.
void supervise_run(const SupervisedRun&, Log&);

}  // namespace isthmus::launch
