#include <algorithm>
#include <numeric>

#include "base/check.hpp"
#include "outer/exchange.hpp"

namespace isthmus::outer {

std::vector<std::uint32_t> deal_pieces(const std::vector<float>& shares, std::uint32_t num_pieces) {
    CHECK(!shares.empty());
    const double total = std::accumulate(shares.begin(), shares.end(), 0.0);
    CHECK(total > 0, "nobody owns a piece");
    // Whole pieces by largest remainder, the lower index first where they are equal.
    std::vector<std::uint32_t> counts;
    std::vector<std::pair<double, std::uint32_t>> remainders;
    std::uint32_t dealt = 0;
    for (std::uint32_t k = 0; k < shares.size(); ++k) {
        const double exact = static_cast<double>(shares[k]) / total * num_pieces;
        counts.push_back(std::min(static_cast<std::uint32_t>(exact), num_pieces - dealt));
        dealt += counts.back();
        if (shares[k] > 0) remainders.emplace_back(counts.back() - exact, k);
    }
    std::sort(remainders.begin(), remainders.end());
    for (std::size_t r = 0; dealt < num_pieces; ++dealt, r = (r + 1) % remainders.size())
        ++counts[remainders[r].second];
    // Each owner's pieces spread evenly over all.
    std::vector<std::pair<double, std::uint32_t>> places;
    places.reserve(num_pieces);
    for (std::uint32_t k = 0; k < counts.size(); ++k) {
        for (std::uint32_t j = 0; j < counts[k]; ++j)
            places.emplace_back((j + 0.5) * num_pieces / counts[k], k);
    }
    std::sort(places.begin(), places.end());
    std::vector<std::uint32_t> owners;
    owners.reserve(num_pieces);
    for (const auto& [place, k] : places) owners.push_back(k);
    return owners;
}

}  // namespace isthmus::outer
