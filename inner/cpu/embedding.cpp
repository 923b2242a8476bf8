// Token and position embeddings.
#include <algorithm>

#include "inner/cpu/dispatch.hpp"
#include "inner/cpu/functions.hpp"
#include "inner/cpu/parallel.hpp"

namespace isthmus::inner::cpu {
namespace {

void check_ids(const std::int32_t* ids, std::int64_t rows, std::int64_t vocab) {
    for (std::int64_t row = 0; row < rows; ++row)
        CHECK(ids[row] >= 0 && ids[row] < vocab, "token {} in row {}, vocabulary {}", ids[row], row,
              vocab);
}

EmbeddingKernelArgs kernel_args(const std::int32_t* ids, const Tensor& table,
                                const Tensor& positions, std::int64_t sequence,
                                std::int64_t first_position, const Tensor& x) {
    check_shape(table, table.rows, x.cols);
    CHECK(sequence > 0 && first_position >= 0);
    if (positions) {
        check_shape(positions, positions.rows, x.cols);
        CHECK(first_position + std::min(sequence, x.rows) <= positions.rows,
              "{} positions from {}, table of {}", std::min(sequence, x.rows), first_position,
              positions.rows);
    }
    check_ids(ids, x.rows, table.rows);
    return {ids,
            x.rows,
            x.cols,
            sequence,
            first_position,
            table.f32(),
            table.stride,
            pointer<float>(positions),
            positions.stride,
            x.f32(),
            x.stride};
}

}  // namespace

void embedding(const CpuContext& context, const std::int32_t* ids, const Tensor& table,
               const Tensor& positions, std::int64_t sequence, std::int64_t first_position,
               const Tensor& x) {
    const auto args = kernel_args(ids, table, positions, sequence, first_position, x);
    parallel_blocks(context.threads, x.rows, [&](int, std::int64_t begin, std::int64_t end) {
        context.kernels->embedding.forward(args, begin, end);
    });
}

/// Threads own columns, so each element of the tables is summed by one thread, in ascending rows.
void embedding_backward(const CpuContext& context, const std::int32_t* ids, const Tensor& dx,
                        const Tensor& dtable, const Tensor& dpositions, std::int64_t sequence) {
    const auto args = kernel_args(ids, dtable, dpositions, sequence, 0, dx);
    constexpr std::int64_t kCacheLineFloats = 16;
    parallel_blocks(
        context.threads, dx.cols,
        [&](int, std::int64_t begin, std::int64_t end) {
            context.kernels->embedding.backward(args, begin, end);
        },
        kCacheLineFloats);
}

}  // namespace isthmus::inner::cpu
