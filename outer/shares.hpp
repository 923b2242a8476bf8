// How the pieces of a round are divided among owners whose links differ (PROTOCOL 9).
#pragma once

#include <vector>

namespace isthmus::outer {

/// Water-filling: site i owns the share f_i and moves S (1 + f_i (N - 2)) each way, so f_i is
/// proportional to max(0, T b_i / S - 1) with T = max(S / min b, 2 (N - 1) S / sum b). Equal rates
/// give equal shares, and so does a rate that is not known (0) at any site. UNITS  rates: bytes/s,
/// b = min(up, down) of a site. SHAPE  N in, N out; the result adds up to 1.
std::vector<float> water_filled_shares(const std::vector<double>& rates);

}  // namespace isthmus::outer
