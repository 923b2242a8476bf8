#include "inner/cpu/onednn.hpp"

#include <omp.h>

#include <array>
#include <cstring>
#include <dnnl.hpp>
#include <map>
#include <string>
#include <tuple>

#include "base/error.hpp"
#include "inner/ops/buffer_plan.hpp"

namespace isthmus::inner::cpu {
namespace {

using dnnl::memory;

/// Multiplications up to which oneDNN's plain loops ("ref"), all that it has for a 1 x 1 matrix on
/// some processors, cost nothing that could be felt.
constexpr std::int64_t kSmall = 4096;

/// Rows that the layout of packed weights is chosen for; it hardly depends on them.
constexpr std::int64_t kTypicalRows = 256;

memory::data_type type_of(DType dtype) {
    return dtype == DType::kF32 ? memory::data_type::f32 : memory::data_type::bf16;
}

memory::desc plain_desc(std::int64_t rows, std::int64_t cols, DType dtype, std::int64_t stride,
                        bool transposed) {
    return {{rows, cols},
            type_of(dtype),
            transposed ? memory::dims{1, stride} : memory::dims{stride, 1}};
}

/// One shape: its primitive and the arguments whose data pointers change from call to call.
struct Prepared {
    dnnl::matmul primitive;
    memory a, b, c, bias, scratch;
    std::array<dnnl_exec_arg_t, 5> args = {};
    int num_args = 0;
    std::int64_t scratch_bytes = 0;
    bool fast = false;
    bool slow = false;

    void add(int name, const memory& m) {
        args[static_cast<std::size_t>(num_args++)] = {name, m.get()};
    }
};

/// "brg:avx512_core", "gemm:jit", "ref:any", ...
bool is_from(const dnnl::matmul::primitive_desc& desc, const char* family) {
    return std::strncmp(desc.impl_info_str(), family, std::strlen(family)) == 0;
}

/// A layout of weights, and its size if it is not the plain one.
struct Layout {
    memory::desc desc;
    std::int64_t packed_bytes = 0;
};

}  // namespace

struct OneDnn::State {
    explicit State(int num_threads) : threads(num_threads) {}

    dnnl::matmul::primitive_desc describe(const Matmul& s, const memory::desc& b) {
        omp_set_num_threads(threads);  // primitives are made for a number of threads
        dnnl::primitive_attr attributes;
        attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
        if (s.accumulate) {
            dnnl::post_ops post;
            post.append_sum(1.0f);
            attributes.set_post_ops(post);
        }
        const auto a = plain_desc(s.m, s.k, s.operands, s.a_stride, s.a_transposed);
        const auto c = plain_desc(s.m, s.n, s.result, s.c_stride, false);
        if (!s.bias) return {dnnl::matmul::desc(a, b, c), attributes, engine};
        const memory::desc bias({1, s.n}, memory::data_type::f32, memory::format_tag::ab);
        return {dnnl::matmul::desc(a, b, bias, c), attributes, engine};
    }

    /// What oneDNN would like B[k, n] to be.
    const Layout& layout(std::int64_t k, std::int64_t n, DType dtype) {
        const auto key = std::tuple(k, n, dtype);
        const auto found = layouts.find(key);
        if (found != layouts.end()) return found->second;
        Layout& made = layouts[key];
        try {
            Matmul s{.m = kTypicalRows, .n = n, .k = k, .a_stride = k, .c_stride = n};
            s.operands = s.result = dtype;
            const memory::desc any({k, n}, type_of(dtype), memory::format_tag::any);
            made.desc = describe(s, any).weights_desc();
        } catch (const dnnl::error&) {
            return made;  // nothing to pack for: run() will say what is missing
        }
        const bool plain = made.desc == plain_desc(k, n, dtype, n, false) ||
                           made.desc == plain_desc(k, n, dtype, k, true);
        if (!plain) made.packed_bytes = static_cast<std::int64_t>(made.desc.get_size());
        return made;
    }

    Prepared& prepare(const Matmul& s) {
        const auto found = prepared.find(s);
        if (found != prepared.end()) return found->second;
        try {
            const memory::desc b =
                s.b_packed ? layout(s.k, s.n, s.operands).desc
                           : plain_desc(s.k, s.n, s.operands, s.b_stride, s.b_transposed);
            const auto desc = describe(s, b);
            Prepared& p = prepared[s];
            p.primitive = dnnl::matmul(desc);
            p.fast = is_from(desc, "brg");
            p.slow = is_from(desc, "ref") && s.m * s.n * s.k > kSmall;
            p.a = memory(desc.src_desc(), engine, nullptr);
            p.b = memory(desc.weights_desc(), engine, nullptr);
            p.c = memory(desc.dst_desc(), engine, nullptr);
            p.scratch = memory(desc.scratchpad_desc(), engine, nullptr);
            p.scratch_bytes = static_cast<std::int64_t>(desc.scratchpad_desc().get_size());
            p.add(DNNL_ARG_SRC, p.a);
            p.add(DNNL_ARG_WEIGHTS, p.b);
            p.add(DNNL_ARG_DST, p.c);
            if (s.bias) {
                p.bias = memory(desc.bias_desc(), engine, nullptr);
                p.add(DNNL_ARG_BIAS, p.bias);
            }
            if (p.scratch_bytes > 0) p.add(DNNL_ARG_SCRATCHPAD, p.scratch);
            if (p.scratch_bytes > scratch->bytes())
                scratch = std::make_unique<Arena>(p.scratch_bytes);
            return p;
        } catch (const dnnl::error& error) {
            throw unfit(s, error.message);
        }
    }

    static Fatal unfit(const Matmul& s, const char* why) {
        return fatal(ExitCode::kResources,
                     "oneDNN cannot multiply {} x {} by {} x {} in {} fast here ({}): use fp32",
                     s.m, s.k, s.k, s.n, s.operands == DType::kF32 ? "fp32" : "bf16", why);
    }

    int threads;
    dnnl::engine engine{dnnl::engine::kind::cpu, 0};
    dnnl::stream stream{engine};
    std::map<std::tuple<std::int64_t, std::int64_t, DType>, Layout> layouts;
    std::map<Matmul, Prepared> prepared;
    std::unique_ptr<Arena> scratch = std::make_unique<Arena>(0);
};

OneDnn::OneDnn(int threads) : state_(std::make_unique<State>(threads)) {}
OneDnn::~OneDnn() = default;

bool OneDnn::is_fast(const Matmul& shape) {
    return state_->prepare(shape).fast;
}

bool OneDnn::is_slow(const Matmul& shape) {
    return state_->prepare(shape).slow;
}

std::int64_t OneDnn::packed_bytes(std::int64_t k, std::int64_t n, DType dtype) {
    return state_->layout(k, n, dtype).packed_bytes;
}

void OneDnn::pack(std::int64_t k, std::int64_t n, DType dtype, const void* plain,
                  std::int64_t stride, bool transposed, void* packed) {
    omp_set_num_threads(state_->threads);
    memory from(plain_desc(k, n, dtype, stride, transposed), state_->engine,
                const_cast<void*>(plain));
    memory to(state_->layout(k, n, dtype).desc, state_->engine, packed);
    dnnl::reorder(from, to).execute(state_->stream, from, to);
    state_->stream.wait();
}

void OneDnn::run(const Matmul& shape, const void* a, const void* b, const float* bias, void* c) {
    CHECK(shape.bias == (bias != nullptr));
    Prepared& p = state_->prepare(shape);
    if (p.slow) throw State::unfit(shape, "plain loops only");
    omp_set_num_threads(state_->threads);
    p.a.set_data_handle(const_cast<void*>(a));
    p.b.set_data_handle(const_cast<void*>(b));
    p.c.set_data_handle(c);
    if (shape.bias) p.bias.set_data_handle(const_cast<float*>(bias));
    if (p.scratch_bytes > 0) p.scratch.set_data_handle(state_->scratch->at(0));
    // The C call takes an array that is ready; the C++ one would build a map and a vector each
    // time.
    const dnnl_status_t status =
        dnnl_primitive_execute(p.primitive.get(), state_->stream.get(), p.num_args, p.args.data());
    CHECK(status == dnnl_success, "oneDNN's matmul failed with status {}",
          static_cast<int>(status));
    state_->stream.wait();
}

}  // namespace isthmus::inner::cpu
