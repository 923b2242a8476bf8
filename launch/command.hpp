// What every command of the program is given, and how it hangs itself into the command line.
#pragma once

#include <functional>

#include "base/files.hpp"
#include "base/log.hpp"

namespace CLI {
class App;
}

namespace isthmus::launch {

/// Built once by main and passed down; outlives every command.
struct CommandContext {
    FileSystem& files;
    Log& log;
    /// True once Ctrl-C or SIGTERM came. Long loops ask it between steps, tidy up and throw
    /// Fatal(kInterrupted) that says what was kept.
    std::function<bool()> stop;
    /// Whether stderr is a terminal: progress lines may be redrawn with '\r'.
    bool terminal = false;
};

/// Each adds its subcommand with options, defaults and units. The subcommand's callback does the
/// work and throws Fatal on failure; results go to stdout, everything else to stderr.
void add_train_command(CLI::App&, CommandContext&);
void add_site_command(CLI::App&, CommandContext&);
void add_coordinator_command(CLI::App&, CommandContext&);
void add_eval_command(CLI::App&, CommandContext&);
void add_generate_command(CLI::App&, CommandContext&);
void add_data_command(CLI::App&, CommandContext&);
void add_doctor_command(CLI::App&, CommandContext&);
void add_config_command(CLI::App&, CommandContext&);
void add_link_command(CLI::App&, CommandContext&);
void add_new_command(CLI::App&, CommandContext&);
void add_status_command(CLI::App&, CommandContext&);
void add_ctl_command(CLI::App&, CommandContext&);
void add_keys_command(CLI::App&, CommandContext&);
void add_simulate_command(CLI::App&, CommandContext&);

}  // namespace isthmus::launch
