#include "outer/config.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include "base/check.hpp"
#include "base/error.hpp"

namespace isthmus::outer {

namespace {

/// With fewer rounds than this, momentum of kHeavyMomentum or more has no time to pay off.
constexpr std::size_t kRoundsForMomentum = 300;
constexpr float kHeavyMomentum = 0.8f;

/// "300:10": every 10 steps up to step 300.
struct ScheduleEntry {
    std::int64_t until = 0, every = 0;
};

std::int64_t whole(std::string_view text, const std::string& entry) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size() && value > 0) return value;
    throw fatal(ExitCode::kUsage,
                "outer.sync_schedule has \"{}\": write \"STEP:EVERY\", for example \"300:10\" for "
                "every 10 steps up to step "
                "300",
                entry);
}

std::vector<ScheduleEntry> schedule_of(const OuterConfig& config) {
    std::vector<ScheduleEntry> entries;
    for (const std::string& entry : config.sync_schedule) {
        const auto colon = entry.find(':');
        const std::string_view text = entry;
        if (colon == std::string::npos) whole({}, entry);
        entries.push_back({.until = whole(text.substr(0, colon), entry),
                           .every = whole(text.substr(colon + 1), entry)});
        if (entries.size() > 1 && entries[entries.size() - 2].until >= entries.back().until) {
            throw fatal(ExitCode::kUsage,
                        "outer.sync_schedule: \"{}\" does not come after the entry before it",
                        entry);
        }
    }
    return entries;
}

}  // namespace

void OuterConfig::describe(ConfigVisitor& v) {
    v.field(
        "sites", sites,
        {.help = "names of the sites that train one model; fewer than two: this machine alone"});
    v.field("sync_every_steps", sync_every_steps,
            {.help = "inner steps between two meetings of the sites",
             .unit = "steps",
             .min = 1,
             .max = 1e9});
    v.field("sync_schedule", sync_schedule,
            {.help = "\"STEP:EVERY\" entries, e.g. [\"300:10\", \"600:30\"]: every 10 steps up to "
                     "step 300, every 30 up to "
                     "600, then sync_every_steps"});
    v.field(
        "qsr_alpha", qsr_alpha,
        {.help = "QSR: meet after max(sync_every_steps, (alpha / learning rate)^2) steps; 0: off",
         .min = 0,
         .max = 1e3});
    v.field(
        "optimizer", optimizer,
        {.help =
             "outer optimizer: averaging of parameters, sgd, nesterov (needs hundreds of rounds)",
         .one_of = {"averaging", "sgd", "nesterov"}});
    v.field(
        "lr", lr,
        {.help = "outer learning rate; 0: the optimizer's own (1, 1, 0.7)", .min = 0, .max = 10});
    v.field(
        "momentum", momentum,
        {.help = "outer momentum; -1: the optimizer's own (0, 0, 0.9)", .min = -1, .max = 0.9999});
    v.field("codec", codec,
            {.help = "how pseudo-gradients travel: 4, 2 or about 1 byte a parameter",
             .one_of = {"fp32", "bf16", "int8"}});
    v.field(
        "error_feedback", error_feedback,
        {.help = "what the codec left out is added to the next round; costs 4 bytes a parameter"});
    v.field("weights", weights,
            {.help = "how much a site counts in the mean", .one_of = {"tokens", "equal"}});
    v.field(
        "method", method,
        {.help = "how the mean is formed; auto: two sites swap, from three on pieces have owners",
         .one_of = {"auto", "all-gather", "owners"}});
    v.field("min_sites", min_sites,
            {.help = "rounds after the first need so many sites; the first waits for all",
             .min = 1,
             .max = 1000});
    v.field("pace", pace,
            {.help = "sites of unequal speed: equal steps for all, steps by measured speed (DyLU), "
                     "or a time a round",
             .one_of = {"equal", "speed", "time"}});
    v.field("round_s", round_s,
            {.help = "inner training time of a round, for pace = \"time\"", .unit = "s", .min = 0});
    v.field(
        "max_attempts", max_attempts,
        {.help = "attempts at a round before the sites train on without it", .min = 1, .max = 100});
    v.field("full_digest_rounds", full_digest_rounds,
            {.help = "every so many rounds the sites compare all parameters' digest; 0: never",
             .min = 0,
             .max = 1e9});
    v.field(
        "max_norm_ratio", max_norm_ratio,
        {.help = "a site whose pseudo-gradient is so many times the median is left out; 0: never",
         .min = 0});
}

void OuterConfig::resolve() {
    const bool nesterov = optimizer == "nesterov";
    if (optimizer == "averaging" && ((lr != 0 && lr != 1) || momentum > 0)) {
        throw fatal(ExitCode::kUsage,
                    "outer.optimizer = \"averaging\" has lr 1 and momentum 0: drop outer.lr and "
                    "outer.momentum, or choose "
                    "\"sgd\" or \"nesterov\"");
    }
    if (lr == 0) lr = nesterov ? 0.7 : 1.0;
    if (momentum < 0) momentum = nesterov ? 0.9 : 0.0;
    for (std::size_t i = 0; i < sites.size(); ++i) {
        const std::string& name = sites[i];
        const bool plain = !name.empty() && name.size() <= 64 && name != "coordinator" &&
                           std::all_of(name.begin(), name.end(), [](unsigned char c) {
                               return std::isalnum(c) || c == '-' || c == '_' || c == '.';
                           });
        if (!plain || name.front() == '.') {
            throw fatal(ExitCode::kUsage,
                        "outer.sites has \"{}\": a site's name has letters, digits, '-', '_' and "
                        "'.', and is not "
                        "\"coordinator\"",
                        name);
        }
        if (std::count(sites.begin(), sites.end(), name) > 1) {
            throw fatal(ExitCode::kUsage, "outer.sites names \"{}\" twice", name);
        }
    }
    if (sites.size() > 1 && min_sites > num_sites()) {
        throw fatal(ExitCode::kUsage,
                    "outer.min_sites = {} is more than the {} sites that outer.sites names",
                    min_sites, num_sites());
    }
    if ((pace == "time") != (round_s > 0)) {
        throw fatal(ExitCode::kUsage,
                    "outer.pace = \"time\" and outer.round_s go together: set both or neither");
    }
    schedule_of(*this);
}

OuterOptimizer OuterConfig::outer_optimizer() const {
    return {.lr = static_cast<float>(lr),
            .momentum = static_cast<float>(momentum),
            .nesterov = optimizer == "nesterov"};
}

std::vector<std::int64_t> meeting_steps(const OuterConfig& config, std::int64_t total_steps,
                                        const std::function<double(std::int64_t)>& lr) {
    CHECK(total_steps > 0 && config.sync_every_steps > 0);
    const auto entries = schedule_of(config);
    std::vector<std::int64_t> steps;
    std::int64_t at = 0;
    while (at < total_steps) {
        std::int64_t every = config.sync_every_steps;
        std::int64_t until = total_steps;
        for (const ScheduleEntry& entry : entries) {
            if (at >= entry.until) continue;
            every = entry.every;
            until = std::min(until, entry.until);
            break;
        }
        if (config.qsr_alpha > 0) {
            const double rate = lr(at + 1);
            const double ratio = rate > 0 ? config.qsr_alpha / rate : 1e9;
            every = std::max(every, static_cast<std::int64_t>(std::min(ratio * ratio, 1e12)));
            until = total_steps;
        }
        at = std::min({at + every, until, total_steps});
        steps.push_back(at);
    }
    return steps;
}

std::string optimizer_warning(const OuterOptimizer& optimizer, std::size_t num_rounds) {
    if (optimizer.momentum < kHeavyMomentum || num_rounds >= kRoundsForMomentum) return {};
    return fmt::format(
        "outer momentum {:g} with only {} rounds ahead: in a measured run of 1000 steps from "
        "scratch lr .7, momentum .9 ended at "
        "loss 1.399 to 1.429, one site alone at 1.379 and averaging at 1.310 to 1.355; "
        "outer.optimizer = \"averaging\" is the "
        "safe choice below {} rounds",
        optimizer.momentum, num_rounds, kRoundsForMomentum);
}

}  // namespace isthmus::outer
