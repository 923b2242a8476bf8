// The CPU's op table: every op forwards to the function that does the work.
#include "inner/cpu/cpu_ops.hpp"

#include "base/error.hpp"
#include "inner/cpu/functions.hpp"
#include "inner/cpu/linear.hpp"

namespace isthmus::inner {
namespace {

class CpuOps final : public Ops {
  public:
    explicit CpuOps(const CpuOptions& options)
        : options_(options),
          context_{&kernels_of(options.instruction_set), options.threads},
          linear_(context_, options) {}

    std::string name() const override {
        return fmt::format("cpu {}{}, {} thread{}", to_string(options_.instruction_set),
                           options_.emulate_bf16 ? " (bf16 emulated)"
                           : cpu_has_bf16()      ? " bf16"
                                                 : "",
                           options_.threads, options_.threads == 1 ? "" : "s");
    }
    void synchronize(Stream) override {}

    std::int64_t packed_bytes(std::int64_t out, std::int64_t in, DType dtype) const override {
        return linear_.packed_bytes(out, in, dtype);
    }
    void pack(Stream, const Weight& w) override { linear_.pack(w); }
    void linear(Stream, const Tensor& x, const Weight& w, const float* bias,
                const Tensor& y) override {
        linear_.linear(x, w, bias, y);
    }
    void linear_input_gradient(Stream, const Tensor& dy, const Weight& w,
                               const Tensor& dx) override {
        linear_.linear_input_gradient(dy, w, dx);
    }
    void linear_weight_gradient(Stream, const Tensor& dy, const Tensor& x, const Tensor& dw,
                                float* dbias, bool accumulate, void* workspace) override {
        linear_.linear_weight_gradient(dy, x, dw, dbias, accumulate, workspace);
    }
    std::int64_t linear_workspace_bytes(std::int64_t m, std::int64_t out, std::int64_t in,
                                        DType dtype) const override {
        return linear_.linear_workspace_bytes(m, out, in, dtype);
    }

    void norm(Stream, const NormForwardArgs& a) override { cpu::norm(context_, a); }
    void norm_backward(Stream, const NormBackwardArgs& a) override {
        cpu::norm_backward(context_, a);
    }
    void head_norm(Stream, const HeadNormArgs& a) override { cpu::head_norm(context_, a); }
    void head_norm_backward(Stream, const HeadNormArgs& a) override {
        cpu::head_norm_backward(context_, a);
    }
    std::int64_t norm_workspace_floats(std::int64_t rows, std::int64_t dim) const override {
        return cpu::norm_workspace_floats(rows, dim);
    }
    void rope(Stream, const RopeArgs& a) override { cpu::rope(context_, a); }

    void attention(Stream, const AttentionArgs& a) override { cpu::attention(context_, a); }
    void attention_backward(Stream, const AttentionBackwardArgs& a) override {
        cpu::attention_backward(context_, a);
    }
    std::int64_t attention_workspace_bytes(const AttentionArgs& a) const override {
        return cpu::attention_workspace_bytes(context_, a);
    }
    void attention_decode(Stream, const AttentionDecodeArgs& a) override {
        cpu::attention_decode(context_, a);
    }

    void swiglu(Stream, const Tensor& gu, const Tensor& a) override {
        cpu::swiglu(context_, gu, a);
    }
    void swiglu_backward(Stream, const Tensor& gu, const Tensor& da, const Tensor& dgu,
                         const Tensor& a) override {
        cpu::swiglu_backward(context_, gu, da, dgu, a);
    }
    void gelu(Stream, const Tensor& u, const Tensor& a) override { cpu::gelu(context_, u, a); }
    void gelu_backward(Stream, const Tensor& u, const Tensor& da, const Tensor& du,
                       const Tensor& a) override {
        cpu::gelu_backward(context_, u, da, du, a);
    }

    void embedding(Stream, const std::int32_t* ids, const Tensor& table, const Tensor& positions,
                   std::int64_t sequence, std::int64_t first_position, const Tensor& x) override {
        cpu::embedding(context_, ids, table, positions, sequence, first_position, x);
    }
    void embedding_backward(Stream, const std::int32_t* ids, const Tensor& dx, const Tensor& dtable,
                            const Tensor& dpositions, std::int64_t sequence) override {
        cpu::embedding_backward(context_, ids, dx, dtable, dpositions, sequence);
    }
    void cross_entropy(Stream, const CrossEntropyArgs& a) override {
        cpu::cross_entropy(context_, a);
    }

    void adamw(Stream, const AdamWArgs& a) override { cpu::adamw(context_, a); }
    void block_sum_squares(Stream, std::span<const float> x, std::int64_t block,
                           double* out) override {
        cpu::block_sum_squares(context_, x, block, out);
    }
    void fill(Stream, std::span<float> x, float value) override { cpu::fill(context_, x, value); }
    void convert(Stream, const Tensor& from, const Tensor& to) override {
        cpu::convert(context_, from, to);
    }
    void add(Stream, const Tensor& x, const Tensor& y) override { cpu::add(context_, x, y); }

  private:
    CpuOptions options_;
    CpuContext context_;
    cpu::Linear linear_;
};

}  // namespace

std::unique_ptr<Ops> make_cpu_ops(const CpuOptions& options) {
    CHECK(options.threads >= 1);
    const CpuFeatures features = detect_cpu();
    if (options.instruction_set > features.best)
        throw fatal(ExitCode::kResources,
                    "instruction set {}: this processor ({}) has {} at most; choose that or leave "
                    "the choice to the program",
                    to_string(options.instruction_set), features.model_name,
                    to_string(features.best));
    return std::make_unique<CpuOps>(options);
}

}  // namespace isthmus::inner
