// What a run with several sites should cost, before it starts: bytes and seconds of a round, memory
// of the outer loop. Shown beside what is measured.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launch/run_config.hpp"

namespace isthmus::launch {

struct RoundPrediction {
    std::int64_t encoded_bytes = 0;  ///< S: one site's pseudo-gradient as its codec writes it
    /// Of one site in one round with all sites, payload of its data connections.
    std::int64_t bytes_sent = 0, bytes_received = 0;
    /// From BEGIN to applied, if what links the sites is known (an emulated link, or net.rates).
    std::optional<double> seconds;
};

/// `unit_elements`: sizes of the model's units; codec blocks begin anew at each.
RoundPrediction predict_round(const RunConfig&, const std::vector<std::int64_t>& unit_elements);

/// Of the model that the configuration names.
std::vector<std::int64_t> unit_elements(const RunConfig&);

/// What the outer loop holds at one site, at the peak of a round in which nobody joins.
struct OuterMemory {
    std::vector<std::pair<std::string, std::int64_t>> groups;  ///< name, bytes
    std::int64_t bytes = 0, parameters = 0;
};
OuterMemory outer_memory(const RunConfig&);

}  // namespace isthmus::launch
