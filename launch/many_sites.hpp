// A run of several sites from the command's side: what `train` starts, and what `site` and
// `coordinator` do.
#pragma once

#include <string>
#include <vector>

#include "launch/command.hpp"
#include "launch/run_config.hpp"

namespace isthmus::launch {

/// Starts a coordinator and every site on this machine as children of this program and waits for
/// them; says with which state all have ended. REQUIRES the run's folder stands
/// (create_run_folder). ERRORS  throws Fatal: what supervise_run throws; kInternal when sites that
/// finished hold different parameters.
void train_many_sites(CommandContext&, const RunConfig&, int restarts);

struct SiteWords {
    std::string name, listen, advertise, key_file;
    std::vector<std::string> coordinator;
};
/// One site of the run, in this process. Records and the model go to RUN/site-NAME; a site that was
/// started before goes on with its records.
/// ERRORS  throws Fatal: what train_here and the meeting throw.
void train_one_of_many(CommandContext&, const RunConfig&, const SiteWords&);

/// The coordinator of the run, in this process. `listen`: "" = as configured.
void coordinate(CommandContext&, const RunConfig&, const std::string& listen);

}  // namespace isthmus::launch
