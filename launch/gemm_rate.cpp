#include "launch/gemm_rate.hpp"

#include <algorithm>
#include <chrono>

#include "inner/ops/buffer_plan.hpp"

namespace isthmus::launch {

namespace {

// Some 3 ms a product: among a hundred of them some run undisturbed, also while other sites start.
constexpr std::int64_t kSide = 512;

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

}  // namespace isthmus::launch
