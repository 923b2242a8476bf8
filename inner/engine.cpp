#include "inner/engine.hpp"

#include <algorithm>
#include <vector>

#include "base/error.hpp"
#include "inner/cpu/cpu_ops.hpp"
#include "inner/data/windows.hpp"

namespace isthmus::inner {

DType compute_type(const TrainConfig& config) {
    return config.dtype == "bf16" ? DType::kBF16 : DType::kF32;
}

std::unique_ptr<Ops> make_ops(const TrainConfig& config) {
    const CpuFeatures features = detect_cpu();
    if (config.dtype == "bf16" && !config.emulate_bf16 && !cpu_has_bf16())
        throw fatal(ExitCode::kResources,
                    "train.dtype: bf16 needs AVX-512 bf16 or AMX, which this processor ({}) lacks; "
                    "computed without them it is slower than fp32: set train.dtype = \"fp32\" "
                    "(train.emulate_bf16 = true allows it for tests)",
                    features.model_name);
    CpuOptions options;
    options.threads = config.threads > 0 ? static_cast<int>(config.threads) : features.cores;
    options.instruction_set = features.best;
    if (config.instruction_set == "baseline") options.instruction_set = InstructionSet::kBaseline;
    if (config.instruction_set == "avx2") options.instruction_set = InstructionSet::kAvx2;
    if (config.instruction_set == "avx512") options.instruction_set = InstructionSet::kAvx512;
    options.emulate_bf16 = config.emulate_bf16;
    return make_cpu_ops(options);
}

BatchShape batch_shape(const ModelConfig& model, const TrainConfig& config) {
    const std::int64_t sequence = config.sequence > 0 ? config.sequence : model.context;
    if (sequence > model.context)
        throw fatal(ExitCode::kUsage,
                    "train.sequence = {} is longer than model.context = {}: shorten the one or "
                    "lengthen the other",
                    sequence, model.context);
    return {config.batch, sequence};
}

double mean_loss(TokenFile& file, Split split, std::int64_t windows, BatchShape shape,
                 const LossOfWindows& loss) {
    const std::uint64_t available = num_windows(file, split, shape.sequence);
    if (available == 0)
        throw fatal(
            ExitCode::kInput,
            "the data's {} part has {} tokens, fewer than one window of {}: prepare it with "
            "more text (or a larger --validation), or shorten train.sequence",
            split == Split::kTrain ? "training" : "validation", file.split_tokens(split),
            shape.sequence + 1);
    const auto count = std::min<std::uint64_t>(available, static_cast<std::uint64_t>(windows));
    WindowReader reader(file, shape.sequence);
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(shape.rows())),
        targets(tokens.size());
    std::vector<std::uint64_t> ids;
    double total = 0;
    for (std::uint64_t at = 0; at < count; at += ids.size()) {
        const auto n = std::min<std::uint64_t>(count - at, static_cast<std::uint64_t>(shape.batch));
        ids.resize(n);
        for (std::uint64_t i = 0; i < n; ++i) ids[i] = at + i;
        if (const Status read = reader.read(split, ids, tokens.data(), targets.data()); !read)
            throw Fatal(ExitCode::kInput, read.error().message);
        total += loss(tokens.data(), targets.data(), static_cast<std::int64_t>(n));
    }
    return total / static_cast<double>(count * static_cast<std::uint64_t>(shape.sequence));
}

}  // namespace isthmus::inner
