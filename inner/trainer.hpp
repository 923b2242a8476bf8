// One site's trainer: forward, backward, clip, AdamW, on buffers planned before the first step.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.hpp"
#include "inner/data/token_file.hpp"
#include "inner/model/config.hpp"
#include "inner/model/layout.hpp"
#include "inner/ops/ops.hpp"
#include "inner/optim/config.hpp"

namespace isthmus::inner {

struct TrainConfig {
    std::int64_t steps = 1000;
    std::int64_t batch = 16;      ///< sequences a micro-batch
    std::int64_t sequence = 0;    ///< tokens; 0 = model.context
    std::int64_t accumulate = 1;  ///< micro-batches a step
    std::int64_t global_batch =
        0;                       ///< sequences a step of all sites; 0 = batch x accumulate x sites
    std::string dtype = "fp32";  ///< fp32, bf16
    bool emulate_bf16 = false;
    std::int64_t threads = 0;              ///< 0 = cores of this machine
    std::string instruction_set = "auto";  ///< auto, baseline, avx2, avx512
    bool recompute = false;  ///< keep only each block's input, compute the rest again in backward
    std::int64_t seed = 1;
    std::int64_t eval_every = 200;  ///< steps; 0 = only at the end
    std::int64_t eval_windows = 64;
    void describe(ConfigVisitor&);
    /// Fills `accumulate` from global_batch for a run of `replicas` (sites x ranks): A = B / (b N).
    /// ERRORS  throws Fatal(kUsage), naming the numbers, when B is not a multiple of b N, or when
    /// `accumulate` was set to something else.
    void resolve_batch(std::int64_t replicas);
};

struct StepReport {
    std::int64_t step = 0;     ///< 1 after the first
    double loss = 0;           ///< nats a token, mean over the step's counted tokens
    double gradient_norm = 0;  ///< before clipping
    double learning_rate = 0;
    std::int64_t tokens = 0;  ///< counted in this step
    bool skipped = false;     ///< NaN or Inf in the gradients: parameters are untouched
};

struct MemoryReport {
    std::int64_t arena_bytes = 0;
    std::vector<std::pair<std::string, std::int64_t>> groups;  ///< by BufferPlan group, at the peak
};

/// Where the trainer's samples come from: sample numbers in, tokens out. One site alone counts up;
/// with sites, the outer loop's leases decide.
using NextSamples = std::function<void(std::span<SampleNumber>)>;

class Trainer {
  public:
    /// Plans and allocates. REQUIRES model.resolve()d.
    /// ERRORS throws Fatal(kUsage) for contradictions (sequence beyond context, a batch that does
    /// not divide), kInput (text shorter than a context, vocabulary of data beyond the model's),
    /// kResources (does not fit, with the figure; bf16 without hardware). `next` empty: samples 0,
    /// 1, 2, ... of the run.
    static std::unique_ptr<Trainer> create(const ModelConfig&, const TrainConfig&,
                                           const OptimConfig&, TokenFile&, NextSamples next = {});
    virtual ~Trainer() = default;

    /// What create would plan, without allocating it.
    static MemoryReport predict(const ModelConfig&, const TrainConfig&, const OptimConfig&);

    virtual const Layout& layout() const = 0;
    virtual const MemoryReport& memory() const = 0;
    virtual std::string device() const = 0;  ///< "cpu avx2, 2 threads"

    /// One optimizer step. ERRORS throws Fatal(kInput) when data cannot be read, Fatal(kDiverged)
    /// at the third skipped step in a row, with a diagnosis (which units' gradients were not
    /// finite).
    virtual StepReport step() = 0;
    /// Mean loss in nats over the first `windows` windows of a split (fewer if it is shorter).
    virtual double evaluate(Split, std::int64_t windows) = 0;

    virtual std::int64_t steps_done() const = 0;
    /// The run has made `steps` (this site came later, or others were faster): the learning rate
    /// goes on from there. Adam's own count of updates is another number and stays.
    virtual void set_steps_done(std::int64_t steps) = 0;
    virtual std::int64_t skipped_steps() const = 0;
    virtual SampleNumber position() const = 0;  ///< the next sample number

    /// Named views of the flat buffers: fp32, one a unit. After writing to parameters call
    /// parameters_changed() before the next step.
    virtual std::span<float> parameters(UnitId) = 0;
    virtual std::span<float> first_moments(UnitId) = 0;
    virtual std::span<float> second_moments(UnitId) = 0;
    /// How many updates the moments have seen, from which AdamW's bias correction follows: it
    /// belongs to them, not to the run's steps, and travels with them.
    virtual std::int64_t updates() const = 0;
    virtual void set_updates(std::int64_t) = 0;
    virtual std::span<const float> gradients(UnitId) = 0;  ///< of the last step, unclipped
    virtual void parameters_changed() = 0;

    /// GEMM work of one step, in FLOP (multiply and add count two), for the share of the machine's
    /// rate.
    virtual double gemm_flop_per_step() const = 0;
};

/// Evaluation and generation without training state.
class Predictor {
  public:
    /// dtype, threads, instruction_set, emulate_bf16, batch and sequence of TrainConfig are used.
    static std::unique_ptr<Predictor> create(const ModelConfig&, const TrainConfig&);
    virtual ~Predictor() = default;
    virtual const Layout& layout() const = 0;
    virtual std::span<float> parameters(UnitId) = 0;
    virtual void parameters_changed() = 0;
    virtual double evaluate(TokenFile&, Split, std::int64_t windows) = 0;
    /// Logits of the whole sequence, fp32 [tokens.size(), vocab]: no cache (for parity tests).
    virtual void logits(std::span<const std::int32_t> tokens, std::span<float> out) = 0;
    /// Starts a sequence, then feeds one token after another through the key-value cache.
    virtual void reset() = 0;
    virtual std::int64_t length() const = 0;
    /// Logits [vocab] after `token`. REQUIRES length() < model.context.
    virtual std::span<const float> feed(std::int32_t token) = 0;
};

struct SamplingConfig {
    double temperature = 0.8;  ///< 0 = greedy
    std::int64_t top_k = 0;    ///< 0 = all
    double top_p = 1.0;
    std::uint64_t seed = 1;
};
/// Draws a token: a pure function of (logits, config, draw number).
std::int32_t sample_token(std::span<const float> logits, const SamplingConfig&, std::uint64_t draw);

}  // namespace isthmus::inner
