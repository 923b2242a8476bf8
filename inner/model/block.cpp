#include "inner/model/block.hpp"

#include <algorithm>
#include <cmath>

namespace isthmus::inner {

Slot Slot::declare(BufferPlan& plan, const std::string& name, const std::string& group, DType dtype,
                   std::int64_t rows, std::int64_t cols, Lifetime life) {
    return {plan.add(name, group, rows * cols * bytes_of(dtype), life), dtype, rows, cols, {}};
}

void Slot::bind(const BufferPlan& plan, const Arena& arena) {
    if (id) tensor = {arena.at(plan.offset(id)), dtype, rows, cols, cols};
}

void BlockActivations::bind(const BufferPlan& plan, const Arena& arena) {
    for (Slot* slot : {&x1, &h1, &mean1, &rstd1, &qkv, &attention, &lse, &x2, &h2, &mean2, &rstd2,
                       &up, &q_saved, &k_saved, &q_rstd, &k_rstd})
        slot->bind(plan, arena);
}

void BlockScratch::bind(const BufferPlan& plan, const Arena& arena) {
    for (Slot* slot : {&out, &activated, &dup, &dqkv, &dnorm, &dattention, &attention_workspace,
                       &linear_workspace, &norm_workspace})
        slot->bind(plan, arena);
}

BlockWeights block_weights(const UnitBuffers& unit, const ModelConfig& config) {
    const std::string up = config.is_gpt2() ? "up" : "gate_up";
    BlockWeights w;
    w.qkv = unit.weight("qkv.weight");
    w.attention_out = unit.weight("attention_out.weight");
    w.up = unit.weight(up + ".weight");
    w.down = unit.weight("down.weight");
    w.norm1 = unit.vector("norm1.weight");
    w.norm1_bias = unit.vector("norm1.bias");
    w.norm2 = unit.vector("norm2.weight");
    w.norm2_bias = unit.vector("norm2.bias");
    w.qkv_bias = unit.vector("qkv.bias");
    w.attention_out_bias = unit.vector("attention_out.bias");
    w.up_bias = unit.vector(up + ".bias");
    w.down_bias = unit.vector("down.bias");
    w.q_norm = unit.vector("q_norm");
    w.k_norm = unit.vector("k_norm");
    return w;
}

BlockGradients block_gradients(const UnitBuffers& unit, const ModelConfig& config) {
    const std::string up = config.is_gpt2() ? "up" : "gate_up";
    BlockGradients g;
    g.qkv = unit.matrix_gradient("qkv.weight");
    g.attention_out = unit.matrix_gradient("attention_out.weight");
    g.up = unit.matrix_gradient(up + ".weight");
    g.down = unit.matrix_gradient("down.weight");
    g.norm1 = unit.vector_gradient("norm1.weight");
    g.norm1_bias = unit.vector_gradient("norm1.bias");
    g.norm2 = unit.vector_gradient("norm2.weight");
    g.norm2_bias = unit.vector_gradient("norm2.bias");
    g.qkv_bias = unit.vector_gradient("qkv.bias");
    g.attention_out_bias = unit.vector_gradient("attention_out.bias");
    g.up_bias = unit.vector_gradient(up + ".bias");
    g.down_bias = unit.vector_gradient("down.bias");
    g.q_norm = unit.vector_gradient("q_norm");
    g.k_norm = unit.vector_gradient("k_norm");
    return g;
}

BlockActivations Block::declare(BufferPlan& plan, const std::string& name, BatchShape shape,
                                Lifetime x1_life, Lifetime life, bool training) const {
    const std::int64_t rows = shape.rows(), d = config_.d_model;
    const auto make = [&](const char* what, DType dtype, std::int64_t cols, Lifetime over) {
        return Slot::declare(plan, name + "." + what, "activations", dtype, rows, cols, over);
    };
    BlockActivations a;
    a.x1 = make("x1", DType::kF32, d, x1_life);
    a.h1 = make("h1", compute_, d, life);
    a.qkv = make("qkv", compute_, config_.qkv_dim(), life);
    a.attention = make("attention", compute_, config_.q_dim(), life);
    a.x2 = make("x2", DType::kF32, d, life);
    a.h2 = make("h2", compute_, d, life);
    a.up = make("up", compute_, config_.is_gpt2() ? config_.ffn_dim : 2 * config_.ffn_dim, life);
    if (config_.qk_norm) {
        a.q_saved = make("q_saved", compute_, config_.q_dim(), life);
        a.k_saved = make("k_saved", compute_, config_.kv_dim(), life);
        a.q_rstd = make("q_rstd", DType::kF32, config_.num_heads, life);
        a.k_rstd = make("k_rstd", DType::kF32, config_.num_kv_heads, life);
    }
    if (config_.is_gpt2()) {
        a.mean1 = make("mean1", DType::kF32, 1, life);
        a.mean2 = make("mean2", DType::kF32, 1, life);
    }
    if (training) {
        a.rstd1 = make("rstd1", DType::kF32, 1, life);
        a.rstd2 = make("rstd2", DType::kF32, 1, life);
        a.lse = make("lse", DType::kF32, config_.num_heads, life);
    }
    return a;
}

BlockScratch Block::declare_scratch(BufferPlan& plan, BatchShape shape, Lifetime life,
                                    bool training) const {
    const std::int64_t rows = shape.rows(), d = config_.d_model, f = config_.ffn_dim;
    const std::int64_t up = config_.is_gpt2() ? f : 2 * f;
    const auto make = [&](const char* what, DType dtype, std::int64_t r, std::int64_t cols) {
        return Slot::declare(plan, what, "scratch", dtype, r, cols, life);
    };
    BlockScratch s;
    s.out = make("out", compute_, rows, d);
    s.activated = make("activated", compute_, rows, f);
    const auto floats = [](std::int64_t bytes) { return (bytes + 3) / 4; };
    s.attention_workspace =
        make("attention workspace", DType::kF32, 1,
             floats(ops_.attention_workspace_bytes(attention_args({}, {}, shape))));
    if (!training) return s;
    s.dup = make("dup", compute_, rows, up);
    s.dqkv = make("dqkv", compute_, rows, config_.qkv_dim());
    s.dnorm = make("dnorm", compute_, rows, d);
    s.dattention = make("dattention", compute_, rows, config_.q_dim());
    std::int64_t linear = 0;
    for (const auto& [out, in] : {std::pair{config_.qkv_dim(), d}, std::pair{d, config_.q_dim()},
                                  std::pair{up, d}, std::pair{d, f}})
        linear = std::max(linear, ops_.linear_workspace_bytes(rows, out, in, compute_));
    s.linear_workspace = make("linear workspace", DType::kF32, 1, floats(linear));
    std::int64_t norm = ops_.norm_workspace_floats(rows, d);
    if (config_.qk_norm)
        norm =
            std::max(norm, ops_.norm_workspace_floats(rows * config_.num_heads, config_.head_dim));
    s.norm_workspace = make("norm workspace", DType::kF32, 1, norm);
    return s;
}

AttentionArgs Block::attention_args(const BlockActivations& a, const BlockScratch& s,
                                    BatchShape shape) const {
    AttentionArgs args;
    args.batch = shape.batch;
    args.sequence = shape.sequence;
    args.heads = config_.num_heads;
    args.kv_heads = config_.num_kv_heads;
    args.head_dim = config_.head_dim;
    args.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config_.head_dim)));
    args.window = config_.sliding_window;
    args.qkv = a.qkv.tensor.data == nullptr ? Tensor{nullptr, compute_, 0, 0, 0}
                                            : a.qkv.first(shape.rows());
    args.out = a.attention.tensor.data == nullptr ? Tensor{nullptr, compute_, 0, 0, 0}
                                                  : a.attention.first(shape.rows());
    args.lse = a.lse.floats();
    args.workspace = s.attention_workspace.tensor.data;
    return args;
}

void Block::rotate(Stream stream, const Tensor& qkv, BatchShape shape, std::int64_t first_position,
                   bool inverse) const {
    if (config_.is_gpt2()) return;
    RopeArgs args;
    args.head_dim = config_.head_dim;
    args.sequence = shape.sequence;
    args.first_position = first_position;
    args.cos = rope_.cos.data();
    args.sin = rope_.sin.data();
    args.inverse = inverse;
    // Query and key heads lie side by side and rotate alike: one call for both.
    args.x = qkv.col_range(0, config_.q_dim() + config_.kv_dim());
    ops_.rope(stream, args);
}

HeadNormArgs Block::head_norm_args(bool query, const Tensor& qkv, const BlockWeights& w,
                                   const BlockActivations& a, std::int64_t rows) const {
    HeadNormArgs args;
    args.x = query ? qkv.col_range(0, config_.q_dim())
                   : qkv.col_range(config_.q_dim(), config_.kv_dim());
    args.head_dim = config_.head_dim;
    args.weight = query ? w.q_norm : w.k_norm;
    args.eps = static_cast<float>(config_.norm_eps);
    args.saved = (query ? a.q_saved : a.k_saved).first(rows);
    args.rstd = (query ? a.q_rstd : a.k_rstd).floats();
    return args;
}

void Block::mix(Stream stream, const BlockWeights& w, const BlockActivations& a,
                const BlockScratch& s, BatchShape shape, std::int64_t first_position,
                const Attend* attend) const {
    const std::int64_t rows = shape.rows();
    const Tensor qkv = a.qkv.first(rows);
    ops_.linear(stream, a.h1.first(rows), w.qkv, w.qkv_bias, qkv);
    if (config_.qk_norm) {
        ops_.head_norm(stream, head_norm_args(true, qkv, w, a, rows));
        ops_.head_norm(stream, head_norm_args(false, qkv, w, a, rows));
    }
    rotate(stream, qkv, shape, first_position, false);
    if (attend != nullptr)
        (*attend)(a, shape);
    else
        ops_.attention(stream, attention_args(a, s, shape));
    ops_.linear(stream, a.attention.first(rows), w.attention_out, w.attention_out_bias,
                s.out.first(rows));
}

void Block::forward(Stream stream, const BlockWeights& w, const BlockActivations& a,
                    const BlockScratch& s, BatchShape shape, const Tensor& x, const Tensor& add,
                    bool with_output, std::int64_t first_position, const Attend* attend) const {
    const std::int64_t rows = shape.rows();
    const auto eps = static_cast<float>(config_.norm_eps);
    NormForwardArgs norm{x,
                         add,
                         add ? a.x1.first(rows) : Tensor{},
                         w.norm1,
                         w.norm1_bias,
                         eps,
                         a.h1.first(rows),
                         a.mean1.floats(),
                         a.rstd1.floats()};
    ops_.norm(stream, norm);
    mix(stream, w, a, s, shape, first_position, attend);
    norm = {a.x1.first(rows), s.out.first(rows), a.x2.first(rows), w.norm2, w.norm2_bias, eps,
            a.h2.first(rows), a.mean2.floats(),  a.rstd2.floats()};
    ops_.norm(stream, norm);
    const Tensor up = a.up.first(rows);
    ops_.linear(stream, a.h2.first(rows), w.up, w.up_bias, up);
    if (!with_output) return;
    const Tensor activated = s.activated.first(rows);
    if (config_.is_gpt2())
        ops_.gelu(stream, up, activated);
    else
        ops_.swiglu(stream, up, activated);
    ops_.linear(stream, activated, w.down, w.down_bias, s.out.first(rows));
}

void Block::backward_ffn(Stream stream, const BlockWeights& w, const BlockGradients& g,
                         const BlockActivations& a, const BlockScratch& s, std::int64_t rows,
                         const Tensor& dx, const Tensor& dx_low, bool accumulate) const {
    void* workspace = s.linear_workspace.tensor.data;
    const Tensor activated = s.activated.first(rows), dup = s.dup.first(rows);
    // `activated` holds the activation's gradient first, and the recomputed activation afterwards.
    ops_.linear_input_gradient(stream, dx_low, w.down, activated);
    if (config_.is_gpt2()) {
        ops_.gelu_backward(stream, a.up.first(rows), activated, dup, activated);
    } else {
        ops_.swiglu_backward(stream, a.up.first(rows), activated, dup, activated);
    }
    ops_.linear_weight_gradient(stream, dx_low, activated, g.down, g.down_bias, accumulate,
                                workspace);
    const Tensor dnorm = s.dnorm.first(rows);
    ops_.linear_input_gradient(stream, dup, w.up, dnorm);
    ops_.linear_weight_gradient(stream, dup, a.h2.first(rows), g.up, g.up_bias, accumulate,
                                workspace);
    NormBackwardArgs norm{dnorm,
                          a.x2.first(rows),
                          w.norm2,
                          a.mean2.floats(),
                          a.rstd2.floats(),
                          dx,
                          dx_low.data == dx.data ? Tensor{} : dx_low,
                          g.norm2,
                          g.norm2_bias,
                          s.norm_workspace.floats()};
    ops_.norm_backward(stream, norm);
}

void Block::backward_attention(Stream stream, const BlockWeights& w, const BlockGradients& g,
                               const BlockActivations& a, const BlockScratch& s, BatchShape shape,
                               const Tensor& dx, const Tensor& dx_low, bool accumulate) const {
    const std::int64_t rows = shape.rows();
    void* workspace = s.linear_workspace.tensor.data;
    const Tensor dattention = s.dattention.first(rows), dqkv = s.dqkv.first(rows);
    ops_.linear_input_gradient(stream, dx_low, w.attention_out, dattention);
    ops_.linear_weight_gradient(stream, dx_low, a.attention.first(rows), g.attention_out,
                                g.attention_out_bias, accumulate, workspace);
    ops_.attention_backward(stream, {attention_args(a, s, shape), dattention, dqkv});
    rotate(stream, dqkv, shape, 0, true);
    if (config_.qk_norm) {
        for (const bool query : {true, false}) {
            HeadNormArgs args = head_norm_args(query, dqkv, w, a, rows);
            args.dweight = query ? g.q_norm : g.k_norm;
            args.workspace = s.norm_workspace.floats();
            ops_.head_norm_backward(stream, args);
        }
    }
    const Tensor dnorm = s.dnorm.first(rows);
    ops_.linear_input_gradient(stream, dqkv, w.qkv, dnorm);
    ops_.linear_weight_gradient(stream, dqkv, a.h1.first(rows), g.qkv, g.qkv_bias, accumulate,
                                workspace);
    NormBackwardArgs norm{dnorm,
                          a.x1.first(rows),
                          w.norm1,
                          a.mean1.floats(),
                          a.rstd1.floats(),
                          dx,
                          dx_low.data == dx.data ? Tensor{} : dx_low,
                          g.norm1,
                          g.norm1_bias,
                          s.norm_workspace.floats()};
    ops_.norm_backward(stream, norm);
}

void Block::backward(Stream stream, const BlockWeights& w, const BlockGradients& g,
                     const BlockActivations& a, const BlockScratch& s, BatchShape shape,
                     const Tensor& dx, const Tensor& dx_low, bool accumulate) const {
    backward_ffn(stream, w, g, a, s, shape.rows(), dx, dx_low, accumulate);
    backward_attention(stream, w, g, a, s, shape, dx, dx_low, accumulate);
}

}  // namespace isthmus::inner
