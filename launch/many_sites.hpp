// A run of several sites from the command's side: what `train` starts, and what `site` and
// `coordinator` do. sites.hpp has the machinery.
#pragma once

#include <cstdint>

#include "base/ids.hpp"
#include "launch/command.hpp"
#include "launch/run_config.hpp"

namespace isthmus::launch {

/// Starts a coordinator and every site on this machine as children of this program and waits for
/// them. REQUIRES the run's folder stands (create_run_folder). ERRORS  throws Fatal: what
/// supervise_run throws.
void train_many_sites(CommandContext&, const RunConfig&);

/// One site of the run, in this process. Records go to RUN/site-N; site 0 writes RUN/model.
/// ERRORS  throws Fatal: what train_here and the meeting throw.
void train_one_of_many(CommandContext&, const RunConfig&, SiteId, bool overwrite);

void coordinate(CommandContext&, const RunConfig&);

/// A fingerprint of everything that must be the same at all sites: the configuration without what
/// is a machine's own affair (folders, threads, instruction set, evaluation), and the data.
std::uint64_t shared_config_hash(RunConfig, std::uint64_t data_fingerprint);

}  // namespace isthmus::launch
