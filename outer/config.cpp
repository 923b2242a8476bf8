#include "outer/config.hpp"

#include "base/check.hpp"

namespace isthmus::outer {

namespace {

std::chrono::milliseconds milliseconds(double seconds) {
    return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000.0));
}

}  // namespace

void OuterConfig::describe(ConfigVisitor& v) {
    v.field("sites", sites,
            {.help = "sites that train one model and average it; 1: this machine alone",
             .min = 1,
             .max = 64});
    v.field("sync_every_steps", sync_every_steps,
            {.help = "inner steps between two meetings of the sites",
             .unit = "steps",
             .min = 1,
             .max = 1e9});
    v.field("lr", lr,
            {.help = "outer learning rate; 1 averages the sites' parameters", .min = 0, .max = 10});
    v.field(
        "round_budget_s", round_budget_s,
        {.help = "a site that stands still for this long while others wait is lost; one that is "
                 "silent for a quarter of it too",
         .unit = "s",
         .min = 0.5,
         .max = 86400});
    v.field("join_budget_s", join_budget_s,
            {.help = "how long the first wait for the last when a run starts",
             .unit = "s",
             .min = 0.5,
             .max = 86400});
}

Budget OuterConfig::budget() const {
    return {.round = milliseconds(round_budget_s), .join = milliseconds(join_budget_s)};
}

bool meets_after(std::int64_t step, std::int64_t total_steps, std::int64_t sync_every_steps) {
    CHECK(sync_every_steps > 0);
    return step > 0 && (step % sync_every_steps == 0 || step == total_steps);
}

}  // namespace isthmus::outer
