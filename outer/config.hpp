// Configuration of what happens between sites.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/config.hpp"
#include "net/config.hpp"
#include "outer/outer_optimizer.hpp"

namespace isthmus::outer {

using net::Budget;

struct OuterConfig {
    std::vector<std::string> sites;  ///< names; fewer than two: this machine alone
    std::int64_t sync_every_steps = 100;
    std::vector<std::string> sync_schedule;  ///< "300:10": every 10 steps up to step 300; then the
                                             ///< next entry, then sync_every_steps
    double qsr_alpha =
        0;  ///< QSR (arXiv:2310.14423): H = max(sync_every_steps, floor((alpha / lr)^2)); 0: off
    std::string optimizer = "averaging";  ///< averaging, sgd, nesterov
    double lr = 0;                        ///< 0: the optimizer's own (1, 1, .7)
    double momentum = -1;                 ///< -1: the optimizer's own (0, 0, .9)
    std::string codec = "fp32";           ///< fp32, bf16, int8
    bool error_feedback = false;
    std::string weights = "tokens";  ///< tokens, equal
    std::string method = "auto";     ///< auto, all-gather, owners
    std::int64_t min_sites = 1;
    std::string pace = "equal";  ///< equal, speed (DyLU), time
    double round_s = 0;          ///< of pace = time
    std::int64_t max_attempts = 5;
    std::int64_t full_digest_rounds = 10;
    double max_norm_ratio = 10;

    void describe(ConfigVisitor&);
    std::int64_t num_sites() const {
        return sites.empty() ? 1 : static_cast<std::int64_t>(sites.size());
    }
    /// Fills defaults, refuses contradictions. ERRORS  throws Fatal(kUsage), naming keys.
    void resolve();
    OuterOptimizer outer_optimizer() const;
};

/// The steps after which sites meet, ascending, the last being total_steps: a pure function of the
/// configuration and of the inner learning rate `lr(step)` (QSR), so every site knows each meeting
/// in advance.
std::vector<std::int64_t> meeting_steps(const OuterConfig&, std::int64_t total_steps,
                                        const std::function<double(std::int64_t)>& lr);

/// A warning about an outer optimizer that will not have time to work, or "": with momentum >= .8
/// and fewer than 300 rounds it is worse than not communicating (tiny, 1000 steps from
/// scratch: 1.3990 to 1.4293 against 1.3792 for one site alone and 1.3104 to 1.3547 for averaging;
/// PyTorch peer).
std::string optimizer_warning(const OuterOptimizer&, std::size_t num_rounds);

}  // namespace isthmus::outer
