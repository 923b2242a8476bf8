#include "launch/run_config.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/hash.hpp"

namespace isthmus::launch {

namespace {

template <class... Args>
void refuse_if(bool contradiction, fmt::format_string<Args...> format, Args&&... args) {
    if (contradiction) throw fatal(ExitCode::kUsage, format, std::forward<Args>(args)...);
}

void check_schedule(const inner::OptimConfig& optim, const inner::TrainConfig& train) {
    refuse_if(optim.warmup_steps > train.steps,
              "optim.warmup_steps = {} is longer than the run (train.steps = {}): lower it",
              optim.warmup_steps, train.steps);
    const bool wsd = optim.schedule == "wsd";
    refuse_if(wsd && optim.decay_steps == 0,
              "optim.schedule = \"wsd\" needs optim.decay_steps: set the length of the descent, "
              "for example {}",
              std::max<std::int64_t>(1, train.steps / 5));
    refuse_if(!wsd && optim.decay_steps != 0,
              "optim.decay_steps = {} has no meaning with optim.schedule = \"{}\": set it to 0, or "
              "the schedule to \"wsd\"",
              optim.decay_steps, optim.schedule);
    refuse_if(wsd && optim.warmup_steps + optim.decay_steps > train.steps,
              "optim.warmup_steps + optim.decay_steps = {} are more than train.steps = {}: lower "
              "one of them",
              optim.warmup_steps + optim.decay_steps, train.steps);
}

void check_train(const inner::TrainConfig& train, const inner::ModelConfig& model) {
    refuse_if(train.sequence > model.context,
              "train.sequence = {} is longer than model.context = {}: lower the one or raise the "
              "other",
              train.sequence, model.context);
    refuse_if(train.emulate_bf16 && train.dtype != "bf16",
              "train.emulate_bf16 = true has no meaning with train.dtype = \"{}\": drop it, or set "
              "train.dtype = \"bf16\"",
              train.dtype);
    refuse_if(train.eval_windows == 0 && train.eval_every != 0,
              "train.eval_windows = 0 never evaluates, but train.eval_every = {}: set "
              "train.eval_every = 0 too, or the number of windows",
              train.eval_every);
}

void check_outer(const outer::OuterConfig& outer, const inner::TrainConfig& train) {
    if (outer.num_sites() < 2) return;
    refuse_if(outer.sync_schedule.empty() && outer.sync_every_steps > train.steps,
              "outer.sync_every_steps = {} is more than train.steps = {}: the sites would meet "
              "only at the end; lower it",
              outer.sync_every_steps, train.steps);
}

void check_name(const std::string& name) {
    const bool plain = std::all_of(name.begin(), name.end(), [](unsigned char c) {
        return std::isalnum(c) || c == '-' || c == '_' || c == '.';
    });
    refuse_if(name.empty() || !plain || name.front() == '.',
              "name = \"{}\" cannot name a folder: use letters, digits, '-', '_' and '.'", name);
}

}  // namespace

void RunConfig::describe(ConfigVisitor& v) {
    v.field("name", name, {.help = "of the run; \"\" = the file's name without .toml"});
    v.field("data", data,
            {.help = "folder that `isthmus data prepare` or `data import` wrote, relative to where "
                     "the command is started"});
    v.field("run_folder", run_folder, {.help = "where records and the model go; \"\" = runs/NAME"});
    v.field(
        "run_id", run_id,
        {.help = "tells this run from others that meet it on a network; \"\" = from its name and "
                 "coordinator key"});
    v.section("model", model, "the transformer: a preset, and what differs from it");
    v.section("train", train, "steps, batches, precision, evaluation");
    v.section("optim", optim, "AdamW and its schedule");
    v.section("outer", outer, "several sites that meet over a thin link");
    v.section("net", net, "addresses, keys and the time budget of a run with several sites");
    v.section("link", link, "an emulated thin link between sites on one machine");
}

void RunConfig::resolve() {
    if (name.empty()) name = "run";
    check_name(name);
    if (run_folder.empty()) run_folder = (Path("runs") / name).string();
    model.resolve();
    if (train.sequence == 0) train.sequence = model.context;
    outer.resolve();
    train.resolve_batch(outer.num_sites());
    check_train(train, model);
    check_schedule(optim, train);
    check_outer(outer, train);
    net.check(outer.sites);
    static_cast<void>(link.shaper());
}

net::RunId RunConfig::run_number() const {
    return net::RunId(hash64(run_id.empty() ? name + " " + net.coordinator_key : run_id));
}

std::vector<std::int64_t> RunConfig::meetings() const {
    return outer::meeting_steps(outer, train.steps, [this](std::int64_t step) {
        return inner::learning_rate(optim, step, train.steps);
    });
}

void RunConfig::require_data() const {
    refuse_if(data.empty(),
              "data is not set: name the folder that `isthmus data prepare` wrote, in the file or "
              "with --set data=DIR");
}

Describe describe_of(RunConfig& config) {
    return [&config](ConfigVisitor& v) { config.describe(v); };
}

RunConfig load_run_config(FileSystem& files, const Path& file,
                          const std::vector<std::string>& overrides) {
    const auto text = read_text(files, file);
    if (!text) {
        throw fatal(ExitCode::kUsage,
                    "{} (a run needs a configuration; `isthmus config "
                    "--defaults` prints one)",
                    text.error().message);
    }
    RunConfig config;
    load_config(describe_of(config), *text, file.string(), overrides);
    if (config.name.empty()) config.name = file.stem().string();
    config.resolve();
    return config;
}

}  // namespace isthmus::launch
