// The loops of a round's arithmetic: one source (kernels.inc), compiled for three instruction sets.
// All three give the same bits for all numbers (which NaN comes of two NaNs is not promised):
// element-wise fp32 operations in a fixed sequence, integer hashing, no contraction, no flush to
// zero. outer_step.hpp and codec.hpp say what each means; nobody else calls these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace isthmus::outer {

enum class InstructionSet { kBaseline, kAvx2, kAvx512 };
std::string_view name(InstructionSet);

/// Seed of one codec block's random numbers.
struct BlockDraw {
    std::uint32_t first = 0, second = 0;
};

/// All spans: n elements; an output may be one of the inputs, but not overlap it otherwise.
struct Kernels {
    void (*pseudo_gradient)(const float* anchor, const float* local, float* out, std::size_t n);
    void (*add)(float* x, const float* y, std::size_t n);
    void (*subtract)(const float* d, const float* sent, float* e, std::size_t n);
    void (*accumulate)(float* sum, float weight, const float* x, std::size_t n);
    void (*divide)(float* x, float total, std::size_t n);
    double (*sum_of_squares)(const float* x, std::size_t n);

    void (*sgd)(float* anchor, const float* g, float lr, std::size_t n);
    void (*momentum)(float* anchor, float* m, const float* g, float lr, float mu, std::size_t n);
    void (*nesterov)(float* anchor, float* m, const float* g, float lr, float mu, std::size_t n);

    /// One block: n <= kBlockElements.
    void (*encode_int8)(const float* x, std::size_t n, BlockDraw, std::byte* out);
    void (*decode_int8)(const std::byte* in, std::size_t n, float* out);
    void (*encode_bf16)(const float* x, std::size_t n, BlockDraw, std::byte* out);
    /// Any n.
    void (*decode_bf16)(const std::byte* in, std::size_t n, float* out);
};

extern const Kernels kKernelsBaseline;
extern const Kernels kKernelsAvx2;
extern const Kernels kKernelsAvx512;

/// What this processor has, the best last.
std::vector<InstructionSet> available_instruction_sets();
/// REQUIRES  the processor has the instruction set.
const Kernels& kernels_of(InstructionSet);
/// Of the best instruction set; looked up once a process.
const Kernels& kernels();

}  // namespace isthmus::outer
