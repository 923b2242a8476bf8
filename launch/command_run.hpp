// What every command that works on a run's configuration takes: the file, --set, --run.
#pragma once

#include <string>
#include <vector>

#include "launch/command.hpp"
#include "launch/run_config.hpp"

namespace isthmus::launch {

struct RunOptions {
    std::string file;
    std::vector<std::string> overrides;
    std::string run_folder;
};

/// `options` must outlive the parse.
void add_run_options(CLI::App& command, RunOptions& options);

/// ERRORS  throws Fatal(kUsage): see load_run_config.
RunConfig load_run(CommandContext&, const RunOptions&);

/// The folder that `word` means: itself, the one of a run's FILE.toml, or runs/WORD.
/// ERRORS  throws Fatal(kInput) when there is no such folder.
Path run_folder_of(CommandContext&, const std::string& word);

}  // namespace isthmus::launch
