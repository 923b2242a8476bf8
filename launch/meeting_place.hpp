// Where the coordinator of a run on this machine is found: RUN/coordinator.address, one line with
// its endpoint, "tcp://127.0.0.1:45321".
#pragma once

#include <string>

#include "base/files.hpp"

namespace isthmus::launch {

/// "" if no coordinator has written one, or it is no endpoint.
std::string read_coordinator_address(FileSystem&, const Path& run_folder);
/// ERRORS  throws Fatal(kResources).
void write_coordinator_address(FileSystem&, const Path& run_folder, const std::string& endpoint);

/// Where a coordinator listens: as configured, but where that leaves the port open, on the port of
/// the coordinator before it, which sites still try.
std::string listen_where_it_was(const std::string& configured, const std::string& old_endpoint);

}  // namespace isthmus::launch
