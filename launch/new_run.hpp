// `isthmus new`: the file of a run, with keys, from a few words.
#pragma once

#include <string>
#include <vector>

#include "base/files.hpp"
#include "launch/run_config.hpp"

namespace isthmus::launch {

struct NewRun {
    std::string file;  ///< "FILE.toml", or NAME for NAME.toml
    std::string model = "tiny";
    std::string data;
    std::vector<std::string> sites;  ///< fewer than two: a run on one machine, without keys
    std::string run_folder;          ///< "" = runs/NAME
};

/// Writes FILE.toml, and beside it NAME.keys/ with a key for the coordinator and each site.
/// Returns the path of FILE.toml.
/// ERRORS  throws Fatal(kUsage): the file or keys exist, a name that cannot be one, a model that is
/// no preset; Fatal(kResources) when the disk refuses. Nothing is written then, but for the last.
Path write_new_run(FileSystem&, const NewRun&);

/// The commented text of FILE.toml. `keys`: folder, "" for none.
std::string new_run_text(const NewRun&, const std::string& name, const std::string& keys,
                         const std::string& coordinator_key);

}  // namespace isthmus::launch
