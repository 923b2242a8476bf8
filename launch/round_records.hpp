// One line a round on disk, and what the lines of a whole run add up to.
//
// RUN/rounds.jsonl, by the coordinator
//   round, meeting, step      after this commit; the run's step at the meeting
//   attempt, method, codec
//   contributors[]            site (name), weight, tokens, samples
//   divisor, holders[]        sum of the weights; names of those who voted
//   state                     name of the new state, hex
//   unix_s
// RUN/site-NAME/rounds.jsonl, by each site
//   round, meeting, step, contributors, contributed, attempts
//   seconds                   of the whole round: train_s + lost_s
//   train_s                   in inner steps
//   lost_s                    in which the training thread waited for the outer loop, of which:
//   barrier_s, exchange_s, vote_s, apply_s
//   bytes_sent, bytes_received, predicted_bytes_sent, predicted_bytes_received, predicted_s
//   utilisation               train_s / seconds
//   held_bytes                by the outer loop beside its state, at the peak of the round
//   state
#pragma once

#include <optional>
#include <string>

#include "launch/prediction.hpp"
#include "launch/records.hpp"
#include "outer/coordinator.hpp"
#include "outer/site_driver.hpp"

namespace isthmus::launch {

struct SiteRound {
    outer::SiteDriver::RoundFigures figures;
    std::int64_t step = 0;
    double train_s = 0, lost_s = 0;
};
void append_json(fmt::memory_buffer&, const SiteRound&, const RoundPrediction&);
void append_json(fmt::memory_buffer&, const outer::CommitRecord&, const outer::CoordinatorState&);

/// "round 3 after step 60: 1.23 s of 8.40 s lost to it (waited 0.10, exchange 1.05, vote 0.02,
/// apply 0.03), 1.27 MB sent, 1.27 MB received (predicted 1.27, 1.27), state 0123456789ab".
std::string round_line(const SiteRound&, const RoundPrediction&);

struct RoundSummary {
    std::uint64_t rounds = 0;
    double bytes_sent = 0, train_s = 0, lost_s = 0;  ///< sums over rounds
    double exchange_s = 0, barrier_s = 0;
    std::string state;  ///< after the last round
};
/// Of a site's rounds.jsonl; a line that is torn or has no such keys is left out. Nothing: no file.
std::optional<RoundSummary> summarise_rounds(FileSystem&, const Path& rounds_file);
/// "25 rounds, 1.27 MB sent a round and site, 4.1 % of the time lost to the link (...)".
std::string summary_line(const RoundSummary&);

}  // namespace isthmus::launch
