// The whole configuration of a run: one struct tree, read from one TOML file.
//
// Every key is declared once, in its section's describe(). What only several sections together can
// contradict is checked here, in one place, before anything is allocated.
#pragma once

#include <string>
#include <vector>

#include "base/config.hpp"
#include "base/files.hpp"
#include "inner/model/config.hpp"
#include "inner/optim/config.hpp"
#include "inner/trainer.hpp"
#include "net/config.hpp"
#include "net/frame.hpp"
#include "outer/config.hpp"

namespace isthmus::launch {

struct RunConfig {
    std::string name;        ///< "" = the file's name without .toml
    std::string data;        ///< a folder that `isthmus data prepare` or `import` wrote
    std::string run_folder;  ///< "" = runs/NAME
    std::string run_id;      ///< "" = name and coordinator key
    inner::ModelConfig model;
    inner::TrainConfig train;
    inner::OptimConfig optim;
    outer::OuterConfig outer;
    net::NetConfig net;
    net::LinkConfig link;

    void describe(ConfigVisitor&);

    /// Fills what follows from other keys (preset, sequence, run folder), then refuses
    /// contradictions. `data` may be empty: who trains requires it (require_data). ERRORS  throws
    /// Fatal(kUsage), naming both keys and what to change.
    void resolve();
    /// ERRORS  throws Fatal(kUsage) when `data` is not set.
    void require_data() const;
    Path folder() const { return run_folder; }
    bool several_sites() const { return outer.num_sites() > 1; }
    /// Tells runs apart that meet on one network; every frame carries it. Equal wherever the run's
    /// name and its coordinator's key are.
    net::RunId run_number() const;
    /// The steps after which sites meet.
    std::vector<std::int64_t> meetings() const;
    /// Samples of one optimizer step of one site.
    std::int64_t samples_per_step() const { return train.batch * train.accumulate; }
    std::int64_t sequence() const { return train.sequence; }
    /// Tokens of one optimizer step of one site.
    std::int64_t tokens_per_step() const { return train.batch * train.accumulate * train.sequence; }
};

/// For load_config, dump_config and explain_config. The config must outlive it.
Describe describe_of(RunConfig&);

/// Reads FILE.toml and `key=value` overrides, then resolves. Relative paths in it are relative to
/// the current folder. ERRORS  throws Fatal(kUsage): no such file, or anything load_config or
/// resolve refuses.
RunConfig load_run_config(FileSystem&, const Path& file, const std::vector<std::string>& overrides);

}  // namespace isthmus::launch
