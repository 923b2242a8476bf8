#include "launch/prediction.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "inner/model/layout.hpp"
#include "outer/codec.hpp"

namespace isthmus::launch {

namespace {

/// Ethernet, IP and TCP headers over a payload of 1448 bytes a packet; an emulated link counts
/// none.
constexpr double kHeaders = 1.0456;
/// One-way trips of a round: READY and BEGIN, the first WANT and its answer, VOTE and COMMIT.
constexpr double kTrips = 6;
/// With owners the mean is asked for behind the inputs.
constexpr double kTripsOfMean = 2;

bool has_owners(const RunConfig& config) {
    const bool automatic = config.outer.method == "auto" && config.outer.num_sites() > 2;
    return automatic || config.outer.method == "owners";
}

/// The slowest of the links that net.rates names, bytes/s, if it names one for every site.
std::optional<double> slowest_rate(const RunConfig& config) {
    std::optional<double> slowest;
    for (const std::string& site : config.outer.sites) {
        const auto rate = config.net.bytes_per_s_of(site);
        if (!rate) return std::nullopt;
        slowest = slowest ? std::min(*slowest, *rate) : *rate;
    }
    return slowest;
}

}  // namespace

std::vector<std::int64_t> unit_elements(const RunConfig& config) {
    const inner::Layout layout = inner::make_layout(config.model);
    std::vector<std::int64_t> elements;
    for (const inner::Unit& unit : layout.units) elements.push_back(unit.count);
    return elements;
}

RoundPrediction predict_round(const RunConfig& config,
                              const std::vector<std::int64_t>& unit_elements) {
    const auto codec = outer::codec_named(config.outer.codec);
    CHECK(codec, "{}", codec.error().message);
    RoundPrediction prediction;
    for (std::int64_t elements : unit_elements) {
        prediction.encoded_bytes +=
            static_cast<std::int64_t>(outer::encoded_bytes(*codec, elements));
    }
    const std::int64_t sites = config.outer.num_sites();
    // All-gather: S to each of the others. Owners with equal shares f = 1/N: S (1 + f (N - 2)).
    const std::int64_t bytes = has_owners(config)
                                   ? 2 * (sites - 1) * prediction.encoded_bytes / sites
                                   : (sites - 1) * prediction.encoded_bytes;
    prediction.bytes_sent = prediction.bytes_received = bytes;
    const double trips = kTrips + (has_owners(config) ? kTripsOfMean : 0);
    if (const auto link = config.link.shaper()) {
        // A link for each pair of sites, so that each carries a share of the bytes.
        const double each = static_cast<double>(bytes) / static_cast<double>(sites - 1);
        prediction.seconds = each * 8 / static_cast<double>(link->bits_per_second) +
                             trips * std::chrono::duration<double>(link->latency).count();
    } else if (const auto rate = slowest_rate(config)) {
        prediction.seconds = kHeaders * static_cast<double>(bytes) / *rate;
    }
    return prediction;
}

OuterMemory outer_memory(const RunConfig& config) {
    const std::vector<std::int64_t> units = unit_elements(config);
    OuterMemory memory;
    for (std::int64_t elements : units) memory.parameters += elements;
    const std::int64_t encoded = predict_round(config, units).encoded_bytes;
    // The mean, or every site's encoded input.
    const std::int64_t staged = encoded * (has_owners(config) ? 1 : config.outer.num_sites());
    memory.groups.emplace_back("anchor", 4 * memory.parameters);
    if (config.outer.outer_optimizer().has_momentum())
        memory.groups.emplace_back("momentum", 4 * memory.parameters);
    if (config.outer.error_feedback) memory.groups.emplace_back("residual", 4 * memory.parameters);
    memory.groups.emplace_back("encoded cut", encoded);
    memory.groups.emplace_back("staged result", staged);
    memory.groups.emplace_back("last result", staged);
    memory.groups.emplace_back("transfers", std::min(config.net.window_mb << 20,
                                                     (config.outer.num_sites() - 1) * encoded));
    for (const auto& [name, bytes] : memory.groups) memory.bytes += bytes;
    return memory;
}

}  // namespace isthmus::launch
