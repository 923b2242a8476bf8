// Options that eval and generate share: how to compute, with the train section's meaning.
#pragma once

#include "inner/trainer.hpp"
#include "launch/command.hpp"

namespace isthmus::launch {

/// --dtype and --threads. `compute` must outlive the parse.
void add_compute_options(CLI::App& command, inner::TrainConfig& compute);

}  // namespace isthmus::launch
