// The coordinator's process: driver, records, status and the operator's desk around it.
//
//   RUN/journal              what it must still know after any crash (outer/journal.hpp)
//   RUN/coordinator.address  where it listens; stays when it is lost, so that one that is started
//                            again listens there too
//   RUN/status.json          run_status.hpp
//   RUN/rounds.jsonl         round_records.hpp
//   RUN/ctl.sock             operator_desk.hpp
#pragma once

#include <functional>
#include <string>

#include "base/files.hpp"
#include "base/log.hpp"
#include "launch/run_config.hpp"
#include "outer/coordinator.hpp"

namespace isthmus::launch {

struct CoordinatorRun {
    RunConfig config;            ///< its folder exists
    std::string listen;          ///< "ADDRESS:PORT"; "": as configured
    std::function<bool()> stop;  ///< Ctrl-C or SIGTERM came
};

/// What the configuration says to the coordinator's step function.
outer::CoordinatorOptions coordinator_options(const RunConfig&);

/// Coordinates until all sites are done.
/// ERRORS  throws Fatal: kUsage (keys), kResources (address, journal, disk), kInterrupted,
/// kPeerLost with the reason why the run ended early.
void run_coordinator(const CoordinatorRun&, FileSystem&, Log&);

}  // namespace isthmus::launch
