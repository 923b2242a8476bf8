#include "launch/shared_config.hpp"

#include <array>
#include <sstream>

#include "base/check.hpp"
#include "inner/model/layout.hpp"
#include "net/frame.hpp"

namespace isthmus::launch {

namespace {

/// Keys, or whole sections ("link."), that may differ. The list of sites is here because it may
/// grow while a run goes on; what follows from it (train.accumulate) is compared. So is the name of
/// the run: its number is on every frame.
constexpr std::array kOwnAffairs = {"name",
                                    "data",
                                    "run_folder",
                                    "run_id",
                                    "train.threads",
                                    "train.instruction_set",
                                    "train.eval_every",
                                    "train.eval_windows",
                                    "outer.sites",
                                    "net.coordinator",
                                    "net.coordinator_listen",
                                    "net.keys",
                                    "net.listen",
                                    "net.rates",
                                    "net.streams",
                                    "net.window_mb",
                                    "link."};

bool own_affair(const std::string& key) {
    for (const std::string entry : kOwnAffairs) {
        if (entry.ends_with('.') ? key.starts_with(entry) : key == entry) return true;
    }
    return false;
}

}  // namespace

SharedConfig shared_config(const RunConfig& config, std::optional<std::uint64_t> data_fingerprint) {
    RunConfig copy = config;
    // A dump has one key a line, below the [section] that it belongs to.
    std::istringstream lines(dump_config(describe_of(copy), false));
    SharedConfig shared;
    std::string section;
    for (std::string line; std::getline(lines, line);) {
        if (line.empty() || line.front() == '#') continue;
        if (line.front() == '[') {
            section = line.substr(1, line.find(']') - 1) + ".";
            continue;
        }
        const auto equals = line.find(" = ");
        CHECK(equals != std::string::npos, "a dump's line without a value: {}", line);
        const std::string key = section + line.substr(0, equals);
        if (!own_affair(key)) shared.emplace_back(key, line.substr(equals + 3));
    }
    shared.emplace_back("model parameters",
                        std::to_string(inner::make_layout(config.model).count()));
    shared.emplace_back("build (version of the wire format)", std::to_string(net::kFrameVersion));
    if (data_fingerprint)
        shared.emplace_back(kDataChecksumKey, fmt::format("{:016x}", *data_fingerprint));
    return shared;
}

}  // namespace isthmus::launch
