// From arguments to a command: the tree of subcommands, the ten-line introduction, and errors that
// name what was probably meant.
#pragma once

#include <string>
#include <vector>

#include "launch/command.hpp"

namespace isthmus::launch {

/// Parses and runs. `arguments` are those after the program's name.
/// ERRORS  throws Fatal(kUsage) for a command line that does not parse, with the nearest option or
/// command; and whatever the command throws.
void run_command_line(CommandContext&, const std::vector<std::string>& arguments);

}  // namespace isthmus::launch
