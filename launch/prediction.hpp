// What a run with several sites should cost, before it starts: bytes and seconds of a round, memory
// of the outer loop. Shown beside what is measured.
#pragma once

#include <cstdint>
#include <optional>
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

/// Bytes that the outer loop holds at one site: anchor 4 a parameter, momentum 4 (none for
/// averaging), residual 4 (with error feedback), encoded cut and staged result.
std::int64_t outer_memory_bytes(const RunConfig&);

}  // namespace isthmus::launch
