// RUN/status.json: what the coordinator knows, replaced about once a second; and how `isthmus
// status` shows it.
//
//   pid, machine       the coordinator's
//   unix_s             when it was written
//   run, number        name and run id
//   phase              training, barrier, exchange, ended; "starting" before the first round
//   paused, ended_because
//   round, meeting, meetings, step      commits so far; the open meeting and how many there are
//   state              name of the newest state
//   loss               mean of the members' last training losses
//   predicted          bytes_sent, bytes_received of one site in a round; seconds if known
//   samples            committed, returned, skipped
//   sites[]            name, state (absent, follower, member, done, dropped), round, step,
//                      tokens_per_s, loss, last_seen_s (null: never), bytes_sent, bytes_received,
//                      utilisation (null: not known), restored
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/files.hpp"
#include "launch/prediction.hpp"
#include "launch/run_config.hpp"
#include "outer/coordinator.hpp"

namespace isthmus::launch {

nlohmann::ordered_json status_json(const RunConfig&, const RoundPrediction&,
                                   const outer::CoordinatorState&, outer::TimePoint now);

/// Replaces the file by rename, without waiting for the disk: after a power failure an old status
/// is as good as none. ERRORS  the system's reason.
Status replace_quickly(FileSystem&, const Path& file, std::string_view content);

/// Training time over training time and what the outer loop added; 0 if nothing is known.
double utilisation(const outer::SiteFigures&);

/// Whose figures these are, and whether they still are: "" while the coordinator lives and writes,
/// else one line that says since when it does not.
std::string staleness(const nlohmann::ordered_json& status, double unix_s);

/// The table for people. REQUIRES  a status_json.
std::string status_table(const nlohmann::ordered_json& status, double unix_s);

double unix_seconds();

}  // namespace isthmus::launch
