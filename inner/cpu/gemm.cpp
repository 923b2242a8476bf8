#include "inner/cpu/gemm.hpp"

#include <algorithm>

#include "inner/cpu/parallel.hpp"

namespace isthmus::inner::cpu {
namespace {

constexpr std::int64_t kScratchBytes =
    (kGemmScratchFloats * static_cast<std::int64_t>(sizeof(float)) + 4095) / 4096 * 4096;
/// Up to here B is read faster than it could be packed.
constexpr std::int64_t kDotRows = 3;
/// Packing an element costs about as much as this many multiply-adds of a tile.
constexpr std::int64_t kPackCost = 18;

struct Range {
    std::int64_t begin, end;
};

/// Part `index` of `parts` of [0, n), at multiples of `unit`.
Range part_of(std::int64_t n, std::int64_t unit, int parts, int index) {
    const std::int64_t units = (n + unit - 1) / unit;
    return {std::min(n, units * index / parts * unit),
            std::min(n, units * (index + 1) / parts * unit)};
}

}  // namespace

Gemm::Gemm(const CpuContext& context)
    : context_(context), scratch_(kScratchBytes * context.threads) {}

/// Every part packs its columns of B, and its rows of A where A is packed, so a cut along one side
/// repeats the packing of the other. Takes the cut whose largest part costs least.
Gemm::Grid Gemm::choose_grid(const GemmArgs& g) const {
    Grid best;
    std::int64_t best_cost = -1;
    const std::int64_t tile_rows = context_.kernels->gemm.tile_rows;
    const std::int64_t tile_cols = context_.kernels->gemm.tile_cols;
    const auto per_part = [](std::int64_t n, std::int64_t unit, int parts) {
        const std::int64_t units = (n + unit - 1) / unit;
        return (units + parts - 1) / parts * unit;
    };
    for (int rows = 1; rows <= context_.threads; ++rows) {
        const int cols = context_.threads / rows;
        const std::int64_t m = per_part(g.m, tile_rows, rows);
        const std::int64_t n = per_part(g.n, tile_cols, cols);
        const std::int64_t passes_over_a = (n + kGemmBlockN - 1) / kGemmBlockN;
        const std::int64_t packed = n + (g.a_transposed ? m * passes_over_a : 0);
        const std::int64_t cost = m * n + kPackCost * packed;
        if (best_cost < 0 || cost < best_cost) {
            best_cost = cost;
            best = {rows, cols};
        }
    }
    return best;
}

void Gemm::run(const GemmArgs& args) {
    if (args.m == 0 || args.n == 0) return;
    CHECK(args.bias == nullptr || !args.accumulate);
    const bool dots =
        args.m <= kDotRows && !args.a_transposed && args.b_transposed && !args.accumulate;
    const GemmKernels& kernels = context_.kernels->gemm;
    const Grid grid = dots ? Grid{1, context_.threads} : choose_grid(args);
    parallel_blocks(
        context_.threads, grid.rows * grid.cols,
        [&](int part, std::int64_t begin, std::int64_t end) {
            for (std::int64_t at = begin; at < end; ++at) {
                const auto [i, i_end] =
                    part_of(args.m, kernels.tile_rows, grid.rows, static_cast<int>(at) / grid.cols);
                const auto [j, j_end] =
                    part_of(args.n, kernels.tile_cols, grid.cols, static_cast<int>(at) % grid.cols);
                if (i == i_end || j == j_end) continue;
                GemmArgs mine = args;
                mine.m = i_end - i;
                mine.n = j_end - j;
                mine.a += args.a_transposed ? i : i * args.a_stride;
                mine.b += args.b_transposed ? j * args.b_stride : j;
                mine.c += i * args.c_stride + j;
                if (args.bias != nullptr) mine.bias += j;
                mine.scratch = reinterpret_cast<float*>(scratch_.at(part * kScratchBytes));
                (dots ? kernels.dots : kernels.gemm)(mine);
            }
        });
}

}  // namespace isthmus::inner::cpu
