// Attention ops: units of (batch, kv head) over threads, kernels do the rest.
#include "inner/cpu/dispatch.hpp"
#include "inner/cpu/functions.hpp"
#include "inner/cpu/parallel.hpp"

namespace isthmus::inner::cpu {
namespace {

void check_heads(std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim) {
    CHECK(kv_heads > 0 && heads > 0 && heads % kv_heads == 0 && head_dim > 0, "{} heads, {} kv, {}",
          heads, kv_heads, head_dim);
}

void check_attention(const AttentionArgs& a) {
    check_heads(a.heads, a.kv_heads, a.head_dim);
    CHECK(a.batch >= 0 && a.sequence >= 0 && a.window >= 0);
    const std::int64_t rows = a.batch * a.sequence;
    check_shape(a.qkv, rows, (a.heads + 2 * a.kv_heads) * a.head_dim);
    check_shape(a.out, rows, a.heads * a.head_dim);
    CHECK(a.out.dtype == a.qkv.dtype);
    CHECK(a.workspace != nullptr || rows == 0);
}

std::int64_t forward_units(const AttentionArgs& a) {
    return a.batch * a.kv_heads * attention_segments(a.sequence);
}

/// The first 64-byte boundary in the workspace: attention_workspace_bytes counts on it.
float* aligned(void* workspace) {
    const auto address = reinterpret_cast<std::uintptr_t>(workspace);
    return reinterpret_cast<float*>((address + 63) / 64 * 64);
}

template <class E>
AttentionKernelArgs<E> kernel_args(const AttentionArgs& a) {
    AttentionKernelArgs<E> args = {};
    args.sequence = a.sequence;
    args.heads = a.heads;
    args.kv_heads = a.kv_heads;
    args.head_dim = a.head_dim;
    args.scale = a.scale;
    args.window = a.window;
    args.qkv = pointer<E>(a.qkv);
    args.qkv_stride = a.qkv.stride;
    args.out = pointer<E>(a.out);
    args.out_stride = a.out.stride;
    args.lse = a.lse;
    return args;
}

}  // namespace

void attention(const CpuContext& context, const AttentionArgs& a) {
    check_attention(a);
    float* scratch = aligned(a.workspace);
    const std::int64_t floats = attention_scratch_floats(a.sequence, a.head_dim, false);
    with_type(a.qkv.dtype, [&]<class E>(E) {
        const auto args = kernel_args<E>(a);
        const auto kernel = context.kernels->of<E>().attention.forward;
        parallel_units(context.threads, forward_units(a), [&](int thread, std::int64_t unit) {
            kernel(args, unit, scratch + thread * floats);
        });
    });
}

void attention_backward(const CpuContext& context, const AttentionBackwardArgs& a) {
    const AttentionArgs& f = a.forward;
    check_attention(f);
    check_shape(a.dout, f.out.rows, f.out.cols);
    check_shape(a.dqkv, f.qkv.rows, f.qkv.cols);
    CHECK(a.dout.dtype == f.qkv.dtype && a.dqkv.dtype == f.qkv.dtype && f.lse != nullptr);
    float* scratch = aligned(f.workspace);
    const std::int64_t floats = attention_scratch_floats(f.sequence, f.head_dim, true);
    with_type(f.qkv.dtype, [&]<class E>(E) {
        auto args = kernel_args<E>(f);
        args.dout = pointer<E>(a.dout);
        args.dout_stride = a.dout.stride;
        args.dqkv = pointer<E>(a.dqkv);
        args.dqkv_stride = a.dqkv.stride;
        const auto kernel = context.kernels->of<E>().attention.backward;
        parallel_units(context.threads, f.batch * f.kv_heads, [&](int thread, std::int64_t unit) {
            kernel(args, unit, scratch + thread * floats);
        });
    });
}

std::int64_t attention_workspace_bytes(const CpuContext& context, const AttentionArgs& a) {
    const std::int64_t forward = std::min<std::int64_t>(context.threads, forward_units(a)) *
                                 attention_scratch_floats(a.sequence, a.head_dim, false);
    const std::int64_t backward = std::min<std::int64_t>(context.threads, a.batch * a.kv_heads) *
                                  attention_scratch_floats(a.sequence, a.head_dim, true);
    return std::max(forward, backward) * bytes_of(DType::kF32) + 64;
}

void attention_decode(const CpuContext& context, const AttentionDecodeArgs& a) {
    check_heads(a.heads, a.kv_heads, a.head_dim);
    CHECK(a.length > 0 && a.window >= 0 && a.workspace != nullptr);
    check_shape(a.q, 1, a.heads * a.head_dim);
    check_shape(a.out, 1, a.heads * a.head_dim);
    check_shape(a.keys, a.keys.rows, a.kv_heads * a.head_dim);
    check_shape(a.values, a.keys.rows, a.kv_heads * a.head_dim);
    CHECK(a.length <= a.keys.rows);
    CHECK(a.keys.dtype == a.q.dtype && a.values.dtype == a.q.dtype && a.out.dtype == a.q.dtype);
    with_type(a.q.dtype, [&]<class E>(E) {
        const DecodeKernelArgs<E> args = {a.heads,         a.kv_heads,
                                          a.head_dim,      a.scale,
                                          a.window,        a.length,
                                          pointer<E>(a.q), pointer<E>(a.keys),
                                          a.keys.stride,   pointer<E>(a.values),
                                          a.values.stride, pointer<E>(a.out),
                                          a.workspace};
        const auto kernel = context.kernels->of<E>().attention.decode;
        parallel_units(context.threads, a.kv_heads,
                       [&](int, std::int64_t unit) { kernel(args, unit); });
    });
}

}  // namespace isthmus::inner::cpu
