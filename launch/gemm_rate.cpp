#include "launch/gemm_rate.hpp"

#include <algorithm>
#include <chrono>

#include "base/error.hpp"
#include "inner/ops/buffer_plan.hpp"

namespace isthmus::launch {

namespace {

constexpr std::int64_t kSide = 1024;

inner::Tensor square(std::byte* data, inner::DType dtype) {
    return {data, dtype, kSide, kSide, kSide};
}

}  // namespace

double gemm_rate(inner::Ops& ops, inner::DType dtype, double budget_seconds) {
    using Clock = std::chrono::steady_clock;
    inner::BufferPlan plan;
    const std::int64_t bytes = kSide * kSide * inner::bytes_of(dtype);
    const std::int64_t packed_bytes = ops.packed_bytes(kSide, kSide, dtype);
    const auto x_id = plan.add("x", "gemm rate", bytes, inner::kAlways);
    const auto w_id = plan.add("weight", "gemm rate", bytes, inner::kAlways);
    const auto y_id = plan.add("y", "gemm rate", bytes, inner::kAlways);
    const auto packed_id =
        plan.add("packed", "gemm rate", std::max<std::int64_t>(packed_bytes, 64), inner::kAlways);
    plan.assign();
    const inner::Arena arena(plan.total_bytes());
    const auto at = [&](inner::BufferId id) { return arena.at(plan.offset(id)); };

    // Ones: zeros may be fast where numbers are not (denormals aside), and ones cost what numbers
    // cost.
    const inner::Stream stream;
    const auto x = square(at(x_id), dtype);
    const auto y = square(at(y_id), dtype);
    inner::Weight weight{kSide, kSide, square(at(w_id), dtype),
                         packed_bytes > 0 ? at(packed_id) : nullptr};
    for (const auto& tensor : {x, weight.plain}) {
        if (dtype == inner::DType::kF32) {
            std::fill_n(tensor.f32(), kSide * kSide, 1.0f);
        } else {
            std::fill_n(tensor.b16(), kSide * kSide, to_bf16(1.0f));
        }
    }
    ops.pack(stream, weight);
    ops.linear(stream, x, weight, nullptr, y);  // the first call plans the kernel
    ops.synchronize(stream);

    double best = 1e30;
    const auto start = Clock::now();
    do {
        const auto before = Clock::now();
        ops.linear(stream, x, weight, nullptr, y);
        ops.synchronize(stream);
        best = std::min(best, std::chrono::duration<double>(Clock::now() - before).count());
    } while (std::chrono::duration<double>(Clock::now() - start).count() < budget_seconds);
    return 2.0 * kSide * kSide * kSide / std::max(best, 1e-9);
}

inner::CpuOptions cpu_options(const inner::TrainConfig& train) {
    const inner::CpuFeatures cpu = inner::detect_cpu();
    inner::CpuOptions options;
    options.threads = train.threads > 0 ? static_cast<int>(train.threads) : std::max(1, cpu.cores);
    options.emulate_bf16 = train.emulate_bf16;
    options.instruction_set = cpu.best;
    if (train.instruction_set != "auto") {
        using inner::InstructionSet;
        for (auto set : {InstructionSet::kBaseline, InstructionSet::kAvx2, InstructionSet::kAvx512})
            if (train.instruction_set == inner::to_string(set)) options.instruction_set = set;
        if (options.instruction_set > cpu.best) {
            throw fatal(ExitCode::kResources,
                        "train.instruction_set = \"{}\" is beyond this processor ({}): set "
                        "\"auto\" or \"{}\"",
                        train.instruction_set, cpu.model_name, inner::to_string(cpu.best));
        }
    }
    return options;
}

void require_dtype(const inner::TrainConfig& train) {
    if (train.dtype != "bf16" || train.emulate_bf16 || inner::cpu_has_bf16()) return;
    throw fatal(
        ExitCode::kResources,
        "train.dtype = \"bf16\": this processor ({}) has no bf16 instructions (AVX-512 BF16 "
        "or AMX), and emulated it is slower than fp32: set train.dtype = \"fp32\"",
        inner::detect_cpu().model_name);
}

}  // namespace isthmus::launch
