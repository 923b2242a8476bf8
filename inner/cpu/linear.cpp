// The GEMM ops. Which GEMM runs:
//   bf16, hardware     oneDNN, on weights packed as it prefers
//   bf16, emulated     operands to fp32, our own GEMM, result rounded (tests)
//   fp32 on AVX-512    oneDNN for the shapes that have its batch-reduce kernels, on plain weights:
//   packed
//                      ones gain 1 to 5 % and would cost as much memory as both moments
//   fp32 elsewhere     our own GEMM (kernels/gemm.hpp says why)
#include "inner/cpu/linear.hpp"

#include <vector>

#include "base/error.hpp"
#include "inner/cpu/dispatch.hpp"
#include "inner/cpu/functions.hpp"
#include "inner/cpu/gemm.hpp"
#include "inner/cpu/onednn.hpp"
#include "inner/cpu/parallel.hpp"

namespace isthmus::inner::cpu {
namespace {

std::int64_t aligned(std::int64_t bytes) {
    return (bytes + 63) / 64 * 64;
}

/// C[m, n] (+)= A B (+ bias) on tensors as they lie in memory.
struct Product {
    Tensor a;
    bool a_transposed = false;
    Tensor b;
    bool b_transposed = false;
    const void* b_packed = nullptr;
    const float* bias = nullptr;
    Tensor c;
    bool accumulate = false;
};

}  // namespace

struct Linear::State {
    State(const CpuContext& cpu_context, const CpuOptions& cpu_options)
        : context(cpu_context),
          options(cpu_options),
          gemm(cpu_context),
          onednn(cpu_options.threads),
          onednn_fp32(cpu_options.instruction_set == InstructionSet::kAvx512),
          onednn_bf16(cpu_has_bf16() && !cpu_options.emulate_bf16) {}

    void run(const Product& p) {
        CHECK(p.a.dtype == p.b.dtype);
        CHECK(p.c.dtype == DType::kF32 || p.c.dtype == p.a.dtype);
        if (p.c.rows == 0) return;
        if (p.a.dtype == DType::kF32) {
            if (!onednn_fp32 || !onednn.is_fast(shape_of(p))) return run_own(p);
        } else if (!onednn_bf16) {
            return run_emulated(p);
        }
        if (p.b_packed != nullptr && onednn.is_slow(shape_of(p))) {
            Product plain = p;
            plain.b_packed = nullptr;
            return run(plain);
        }
        onednn.run(shape_of(p), p.a.data, p.b_packed != nullptr ? p.b_packed : p.b.data, p.bias,
                   p.c.data);
    }

    static Matmul shape_of(const Product& p) {
        const bool packed = p.b_packed != nullptr;
        return {.m = p.c.rows,
                .n = p.c.cols,
                .k = p.a_transposed ? p.a.rows : p.a.cols,
                .a_stride = p.a.stride,
                .b_stride = packed ? 0 : p.b.stride,
                .c_stride = p.c.stride,
                .a_transposed = p.a_transposed,
                .b_transposed = !packed && p.b_transposed,
                .b_packed = packed,
                .bias = p.bias != nullptr,
                .accumulate = p.accumulate,
                .operands = p.a.dtype,
                .result = p.c.dtype};
    }

    void run_own(const Product& p) {
        gemm.run({p.c.rows, p.c.cols, p.a_transposed ? p.a.rows : p.a.cols, p.a.f32(), p.a.stride,
                  p.a_transposed, p.b.f32(), p.b.stride, p.b_transposed, p.c.f32(), p.c.stride,
                  p.bias, p.accumulate, nullptr});
    }

    void run_emulated(const Product& p) {
        CHECK(options.emulate_bf16, "a bf16 GEMM without hardware and without emulation");
        Product wide = p;
        wide.a = as_float(p.a, emulated_a);
        wide.b = as_float(p.b, emulated_b);
        if (p.c.dtype == DType::kF32) return run_own(wide);
        wide.c = float_like(p.c, emulated_c);
        run_own(wide);
        convert(context, wide.c, p.c);
    }

    static Tensor float_like(const Tensor& t, std::vector<float>& memory) {
        const auto needed = static_cast<std::size_t>(t.rows * t.cols);
        if (memory.size() < needed) memory.resize(needed);
        return tensor_of(memory.data(), t.rows, t.cols);
    }
    Tensor as_float(const Tensor& t, std::vector<float>& memory) {
        const Tensor wide = float_like(t, memory);
        convert(context, t, wide);
        return wide;
    }

    /// Packed layouts of W for y = x W^T, then for dx = dy W.
    bool packs(DType dtype) const { return dtype == DType::kBF16 && onednn_bf16; }
    std::int64_t forward_bytes(std::int64_t out, std::int64_t in, DType dtype) {
        return packs(dtype) ? aligned(onednn.packed_bytes(in, out, dtype)) : 0;
    }
    std::int64_t backward_bytes(std::int64_t out, std::int64_t in, DType dtype) {
        return packs(dtype) ? aligned(onednn.packed_bytes(out, in, dtype)) : 0;
    }
    const void* packed_forward(const Weight& w) {
        const bool has = w.packed != nullptr && forward_bytes(w.out, w.in, w.plain.dtype) > 0;
        return has ? w.packed : nullptr;
    }
    const void* packed_backward(const Weight& w) {
        const bool has = w.packed != nullptr && backward_bytes(w.out, w.in, w.plain.dtype) > 0;
        if (!has) return nullptr;
        return static_cast<const std::byte*>(w.packed) + forward_bytes(w.out, w.in, w.plain.dtype);
    }

    CpuContext context;
    CpuOptions options;
    Gemm gemm;
    OneDnn onednn;
    bool onednn_fp32;
    bool onednn_bf16;
    std::vector<float> emulated_a, emulated_b, emulated_c;
};

Linear::Linear(const CpuContext& context, const CpuOptions& options)
    : state_(std::make_unique<State>(context, options)) {}
Linear::~Linear() = default;

std::int64_t Linear::packed_bytes(std::int64_t out, std::int64_t in, DType dtype) const {
    return state_->forward_bytes(out, in, dtype) + state_->backward_bytes(out, in, dtype);
}

void Linear::pack(const Weight& w) {
    check_shape(w.plain, w.out, w.in);
    const Tensor& plain = w.plain;
    if (const void* to = state_->packed_forward(w); to != nullptr)
        state_->onednn.pack(w.in, w.out, plain.dtype, plain.data, plain.stride, true,
                            const_cast<void*>(to));
    if (const void* to = state_->packed_backward(w); to != nullptr)
        state_->onednn.pack(w.out, w.in, plain.dtype, plain.data, plain.stride, false,
                            const_cast<void*>(to));
}

void Linear::linear(const Tensor& x, const Weight& w, const float* bias, const Tensor& y) {
    check_shape(w.plain, w.out, w.in);
    check_shape(x, x.rows, w.in);
    check_shape(y, x.rows, w.out);
    state_->run({.a = x,
                 .b = w.plain,
                 .b_transposed = true,
                 .b_packed = state_->packed_forward(w),
                 .bias = bias,
                 .c = y});
}

void Linear::linear_input_gradient(const Tensor& dy, const Weight& w, const Tensor& dx) {
    check_shape(w.plain, w.out, w.in);
    check_shape(dy, dy.rows, w.out);
    check_shape(dx, dy.rows, w.in);
    state_->run({.a = dy, .b = w.plain, .b_packed = state_->packed_backward(w), .c = dx});
}

void Linear::linear_weight_gradient(const Tensor& dy, const Tensor& x, const Tensor& dw,
                                    float* dbias, bool accumulate, void*) {
    check_shape(dy, x.rows, dw.rows);
    check_shape(dw, dw.rows, x.cols);
    CHECK(dw.dtype == DType::kF32 && dy.rows > 0);
    state_->run({.a = dy, .a_transposed = true, .b = x, .c = dw, .accumulate = accumulate});
    if (dbias == nullptr) return;
    const CpuContext& context = state_->context;
    constexpr std::int64_t kCacheLineFloats = 16;
    with_type(dy.dtype, [&]<class E>(E) {
        parallel_blocks(
            context.threads, dy.cols,
            [&](int, std::int64_t begin, std::int64_t end) {
                context.kernels->of<E>().convert.column_sums(pointer<E>(dy), dy.stride, dy.rows,
                                                             dbias, accumulate, begin, end);
            },
            kCacheLineFloats);
    });
}

std::int64_t Linear::linear_workspace_bytes(std::int64_t, std::int64_t, std::int64_t, DType) const {
    return 0;  // scratch belongs to the GEMMs: forward needs it too
}

}  // namespace isthmus::inner::cpu
