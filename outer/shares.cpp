#include "outer/shares.hpp"

#include <algorithm>
#include <numeric>

#include "base/check.hpp"

namespace isthmus::outer {

std::vector<float> water_filled_shares(const std::vector<double>& rates) {
    CHECK(!rates.empty());
    const double n = static_cast<double>(rates.size());
    const double slowest = *std::min_element(rates.begin(), rates.end());
    const std::vector<float> equal(rates.size(), static_cast<float>(1.0 / n));
    if (slowest <= 0) return equal;
    const double sum = std::accumulate(rates.begin(), rates.end(), 0.0);
    const double time = std::max(1.0 / slowest, 2.0 * (n - 1.0) / sum);
    std::vector<double> shares;
    for (double b : rates) shares.push_back(std::max(0.0, time * b - 1.0));
    const double total = std::accumulate(shares.begin(), shares.end(), 0.0);
    if (total <= 1e-9) return equal;
    std::vector<float> out;
    for (double share : shares) out.push_back(static_cast<float>(share / total));
    return out;
}

}  // namespace isthmus::outer
