#include "inner/optim/config.hpp"

namespace isthmus::inner {

void OptimConfig::describe(ConfigVisitor& v) {
    v.field("lr", lr, {.help = "peak learning rate", .min = 0, .max = 10});
    v.field("schedule", schedule,
            {.help = "after the warm-up: constant; linear or cosine down to the end; wsd = stable, "
                     "then linear down over the last decay_steps",
             .one_of = {"constant", "linear", "cosine", "wsd"}});
    v.field("warmup_steps", warmup_steps,
            {.help = "linear rise from 0 to lr", .unit = "steps", .min = 0, .max = 1e12});
    v.field("decay_steps", decay_steps,
            {.help = "length of the final descent; schedule wsd only, 0 with the others",
             .unit = "steps",
             .min = 0,
             .max = 1e12});
    v.field("final_lr_fraction", final_lr_fraction,
            {.help = "learning rate at the end as a share of lr", .min = 0, .max = 1});
    v.field("beta1", beta1, {.help = "decay of AdamW's first moment", .min = 0, .max = 0.99999999});
    v.field("beta2", beta2,
            {.help = "decay of AdamW's second moment", .min = 0, .max = 0.99999999});
    v.field("eps", eps, {.help = "AdamW's epsilon", .min = 0, .max = 1});
    v.field(
        "weight_decay", weight_decay,
        {.help = "decoupled decay of matrices; vectors are never decayed", .min = 0, .max = 10});
    v.field(
        "clip_norm", clip_norm,
        {.help = "largest global norm of the gradients; 0 = no clipping", .min = 0, .max = 1e9});
}

}  // namespace isthmus::inner
