// The loops under a round's arithmetic, compiled from one source (kernels_impl.hpp) for each
// instruction set.
//
// All variants give the same bits: every element is a fixed sequence of fp32 operations, compiled
// without contraction and without any fast-math option, and sums run in fixed interleaved lanes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace isthmus::outer {

struct Kernels {
    std::string_view name;
    /// out[i] = anchor[i] - local[i]
    void (*subtract)(const float* anchor, const float* local, float* out, std::size_t n);
    void (*add)(float* x, const float* y, std::size_t n);
    void (*accumulate)(float* sum, float weight, const float* x, std::size_t n);
    void (*divide)(float* x, float total, std::size_t n);
    double (*sum_of_squares)(const float* x, std::size_t n);
    void (*sgd)(float* anchor, const float* g, float lr, std::size_t n);
    void (*momentum)(float* anchor, float* m, const float* g, float lr, float mu, bool nesterov,
                     std::size_t n);
    /// One block: returns the scale; q gets n bytes. `index`: of x[0], for random rounding under
    /// `key`.
    float (*encode_int8)(const float* x, std::size_t n, std::uint64_t key, std::uint64_t index,
                         std::int8_t* q);
    void (*decode_int8)(const std::int8_t* q, float scale, float* x, std::size_t n);
    void (*encode_bf16)(const float* x, std::size_t n, std::uint64_t key, std::uint64_t index,
                        std::uint16_t* out);
    void (*decode_bf16)(const std::uint16_t* in, float* x, std::size_t n);
};

/// The best that this processor runs.
const Kernels& kernels();
/// All that this processor runs, the baseline first; for tests that compare them.
std::vector<const Kernels*> all_kernels();

}  // namespace isthmus::outer
