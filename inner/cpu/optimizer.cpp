// AdamW and gradient norms over flat buffers.
#include <algorithm>

#include "inner/cpu/functions.hpp"
#include "inner/cpu/parallel.hpp"

namespace isthmus::inner::cpu {

void adamw(const CpuContext& context, const AdamWArgs& a) {
    CHECK(a.count >= 0 && a.correction1 > 0 && a.correction2 > 0);
    const AdamWKernelArgs args = {a.parameters,
                                  a.gradients,
                                  a.first_moment,
                                  a.second_moment,
                                  a.copy,
                                  a.gradient_scale,
                                  1.0f - a.beta1,
                                  1.0f - a.beta2,
                                  a.eps,
                                  a.learning_rate * a.weight_decay,
                                  a.learning_rate / a.correction1,
                                  1.0f / a.correction2};
    parallel_blocks(
        context.threads, a.count,
        [&](int, std::int64_t begin, std::int64_t end) {
            context.kernels->flat.adamw(args, begin, end);
        },
        kFlatBlock);
}

void block_sum_squares(const CpuContext& context, std::span<const float> x, std::int64_t block,
                       double* out) {
    CHECK(block > 0);
    const std::int64_t n = std::ssize(x);
    parallel_blocks(context.threads, (n + block - 1) / block,
                    [&](int, std::int64_t begin, std::int64_t end) {
                        for (std::int64_t i = begin; i < end; ++i)
                            out[i] = context.kernels->flat.sum_squares(
                                x.data() + i * block, std::min(block, n - i * block));
                    });
}

}  // namespace isthmus::inner::cpu
