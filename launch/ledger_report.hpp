// What a run's journal says about its samples: who trained which, and whether each is accounted for
// once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/files.hpp"
#include "outer/ledger.hpp"

namespace isthmus::launch {

struct LedgerReport {
    struct SiteTotal {
        std::string name;
        std::uint64_t rounds = 0;                              ///< that it contributed to
        std::uint64_t committed = 0, skipped = 0, leased = 0;  ///< samples
        std::uint64_t tokens = 0;
    };
    std::uint64_t run = 0;
    std::string data;  ///< fingerprint of the token file; "" before the start
    bool ended = false;
    outer::StateName newest;
    outer::Ledger ledger;
    std::vector<SiteTotal> sites;  ///< by site id
    std::vector<outer::CommitRecord> commits;
    std::vector<outer::QuarantineRecord> quarantines;
    std::uint64_t abandoned = 0;  ///< meetings without a result
    std::string
        problem;  ///< why the proof fails; the rest is what the records before it say. "": proven
};

/// Replays RUN/journal, beside a coordinator that may be writing it. ERRORS  throws Fatal(kInput)
/// for a journal that is missing or damaged.
LedgerReport read_ledger(FileSystem&, const Path& run_folder);

std::string ledger_text(const LedgerReport&, bool rounds);
std::string ledger_json(const LedgerReport&, bool rounds);

}  // namespace isthmus::launch
