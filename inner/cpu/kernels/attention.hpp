// Attention kernels. One call does one unit of work, which writes to places of its own:
//   forward   unit = (batch, kv head, segment of kSegmentQueries queries), all query heads of the
//   group backward  unit = (batch, kv head): the group's query heads are added up in ascending
//   order decode    unit = kv head
#pragma once

#include <cstdint>

#include "base/bf16.hpp"

namespace isthmus::inner {

constexpr std::int64_t kSegmentQueries = 256;

/// As AttentionArgs and AttentionBackwardArgs, with plain pointers. Strides in elements.
template <class E>
struct AttentionKernelArgs {
    std::int64_t sequence, heads, kv_heads, head_dim;
    float scale;
    std::int64_t window;
    const E* qkv;
    std::int64_t qkv_stride;
    E* out;
    std::int64_t out_stride;
    float* lse;
    const E* dout;  ///< backward only, from here on
    std::int64_t dout_stride;
    E* dqkv;
    std::int64_t dqkv_stride;
};

template <class E>
struct DecodeKernelArgs {
    std::int64_t heads, kv_heads, head_dim;
    float scale;
    std::int64_t window, length;
    const E* q;
    const E* keys;
    std::int64_t keys_stride;
    const E* values;
    std::int64_t values_stride;
    E* out;
    float* scores;  ///< [heads, length]
};

constexpr std::int64_t attention_segments(std::int64_t sequence) {
    return (sequence + kSegmentQueries - 1) / kSegmentQueries;
}

template <class E>
struct AttentionKernels {
    /// scratch: 64-byte aligned, attention_scratch_floats() of it, one a thread.
    void (*forward)(const AttentionKernelArgs<E>&, std::int64_t unit, float* scratch);
    void (*backward)(const AttentionKernelArgs<E>&, std::int64_t unit, float* scratch);
    void (*decode)(const DecodeKernelArgs<E>&, std::int64_t unit);
};

// --- Shape of the scratch: the same for every instruction set
// ------------------------------------------

/// Queries and keys of a block. A block of scores is [keys, queries].
constexpr std::int64_t kQueryBlock = 64;
constexpr std::int64_t kKeyBlock = 64;

/// Floats from one packed row of a head to the next. The extra 16 keep the rows of a block from
/// falling into the same few cache sets when head_dim is a power of two.
constexpr std::int64_t packed_stride(std::int64_t head_dim) {
    return (head_dim + 15) / 16 * 16 + 16;
}

/// Floats of scratch for a unit, for forward and backward alike: keys, values and their gradients
/// for the whole sequence; q, dout and the output or dq of a query block, plain and transposed; two
/// blocks of scores; rows of maxima, sums and the like.
constexpr std::int64_t attention_scratch_floats(std::int64_t sequence, std::int64_t head_dim,
                                                bool backward) {
    const std::int64_t row = packed_stride(head_dim);
    return (backward ? 4 : 2) * sequence * row + 5 * kQueryBlock * row +
           2 * kKeyBlock * kQueryBlock + 4 * kQueryBlock;
}

}  // namespace isthmus::inner
