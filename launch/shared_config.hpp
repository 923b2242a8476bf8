// What must be equal at all sites of a run, as key and value pairs: a site that differs is refused
// with the differing keys.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launch/run_config.hpp"

namespace isthmus::launch {

/// Key under which a site names its token file; the coordinator, who may have none, leaves it out.
inline constexpr const char* kDataChecksumKey = "data (checksum)";

using SharedConfig = std::vector<std::pair<std::string, std::string>>;

/// The resolved configuration less what is a machine's own affair (folders, names of the sites,
/// addresses, threads, instruction set, evaluation, emulated links), the number of parameters, the
/// version of the wire format, and the token file's fingerprint if one is given.
SharedConfig shared_config(const RunConfig&, std::optional<std::uint64_t> data_fingerprint);

}  // namespace isthmus::launch
