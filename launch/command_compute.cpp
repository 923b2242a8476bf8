#include "launch/command_compute.hpp"

#include <CLI/CLI.hpp>

namespace isthmus::launch {

void add_compute_options(CLI::App& command, inner::TrainConfig& compute) {
    command
        .add_option("--dtype", compute.dtype, "compute type; bf16 needs a processor that has it")
        ->check(CLI::IsMember({"fp32", "bf16"}))
        ->capture_default_str();
    command
        .add_option("--threads", compute.threads,
                    "compute threads; 0 = every core this process may use")
        ->check(CLI::Range(0, 4096))
        ->type_name("THREADS")
        ->capture_default_str();
}

}  // namespace isthmus::launch
