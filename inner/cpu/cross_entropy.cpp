// Softmax cross-entropy: rows are independent, so they are split over threads.
#include "inner/cpu/dispatch.hpp"
#include "inner/cpu/functions.hpp"
#include "inner/cpu/parallel.hpp"

namespace isthmus::inner::cpu {

void cross_entropy(const CpuContext& context, const CrossEntropyArgs& a) {
    const std::int64_t rows = a.logits.rows;
    const std::int64_t vocab = a.logits.cols;
    check_shape(a.logits, rows, vocab);
    CHECK(vocab > 0 && a.targets != nullptr && a.loss != nullptr);
    if (a.dlogits) check_shape(a.dlogits, rows, vocab);
    for (std::int64_t row = 0; row < rows; ++row)
        CHECK(a.targets[row] >= -1 && a.targets[row] < vocab, "target {} in row {}, vocabulary {}",
              a.targets[row], row, vocab);
    with_type(a.dlogits.dtype, [&]<class E>(E) {
        const CrossEntropyKernelArgs<E> args = {
            vocab,  a.logits.f32(),        a.logits.stride, a.targets, a.gradient_scale,
            a.loss, pointer<E>(a.dlogits), a.dlogits.stride};
        const auto kernel = context.kernels->of<E>().loss.cross_entropy;
        parallel_blocks(context.threads, rows, [&](int, std::int64_t begin, std::int64_t end) {
            kernel(args, begin, end);
        });
    });
}

}  // namespace isthmus::inner::cpu
