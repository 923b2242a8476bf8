#include "inner/model/transformer.hpp"

#include <algorithm>

namespace isthmus::inner {
namespace {

/// Rows of a chunk of logits: about 4 MiB of fp32, so that small vocabularies stay in cache, but
/// never under 128 rows (each chunk reads and writes the output matrix's gradient once), and never
/// all rows of a batch worth splitting.
std::int64_t head_chunk_rows(std::int64_t rows, std::int64_t vocab) {
    const std::int64_t cached = (std::int64_t{1} << 20) / vocab;
    const std::int64_t wanted = std::max<std::int64_t>(128, cached / 64 * 64);
    return std::min(wanted, std::max<std::int64_t>(64, (rows + 1) / 2));
}

}  // namespace

Transformer::Transformer(const ModelConfig& config, const Layout& layout,
                         const TransformerOptions& options, Ops& ops, BufferPlan& plan)
    : config_(config),
      layout_(layout),
      options_(options),
      ops_(ops),
      rope_(make_rope_table(config)),
      block_(config_, rope_, ops, options.compute) {
    head_rows_ = head_chunk_rows(options.shape.rows(), config.vocab);
    for (const Unit& unit : layout.units)
        units_.emplace_back(unit, options.compute, options.training, ops, plan);
    declare(plan);
}

void Transformer::declare(BufferPlan& plan) {
    const std::int64_t rows = options_.shape.rows(), d = config_.d_model;
    const auto layers = static_cast<int>(config_.num_layers);
    const bool training = options_.training;
    const int head = layers + 1, last = 2 * layers + 2;
    const auto make = [&](const char* what, const char* group, DType dtype, std::int64_t r,
                          std::int64_t cols, Lifetime life) {
        return Slot::declare(plan, what, group, dtype, r, cols, life);
    };
    // Without backward, or when it recomputes, blocks take turns with one set of activations.
    const bool shared = !training || options_.recompute;
    for (int l = 0; l < layers; ++l) {
        const int backward = training ? last - 1 - l : 1 + l;
        if (shared && l > 0 && !training) {
            activations_.push_back(activations_.front());
        } else if (shared && l > 0) {
            BlockActivations a = activations_.front();
            a.x1 = make("x1", "activations", DType::kF32, rows, d, {l, backward});
            activations_.push_back(a);
        } else {
            const Lifetime life = shared ? Lifetime{0, last} : Lifetime{l, backward};
            activations_.push_back(block_.declare(plan, "block" + std::to_string(l), options_.shape,
                                                  {l, shared && !training ? last : backward}, life,
                                                  training));
        }
    }
    scratch_ = block_.declare_scratch(plan, options_.shape, {0, last}, training);
    final_x_ = make("final x", "activations", DType::kF32, rows, d, {head, head});
    hidden_ = make("hidden", "activations", options_.compute, rows, d, {head, head});
    if (config_.is_gpt2())
        final_mean_ = make("final mean", "activations", DType::kF32, rows, 1, {head, head});
    losses_ = make("losses", "head", DType::kF32, rows, 1, {head, head});
    logits_ = make("logits", "head", DType::kF32, head_rows_, config_.vocab, {head, head});
    if (!training) return;
    final_rstd_ = make("final rstd", "activations", DType::kF32, rows, 1, {head, head});
    if (options_.compute != DType::kF32) {
        dlogits_ =
            make("dlogits", "head", options_.compute, head_rows_, config_.vocab, {head, head});
        dx_low_ = make("dx low", "scratch", options_.compute, rows, d, {head, last});
    }
    dhidden_ = make("dhidden", "head", options_.compute, rows, d, {head, head});
    dx_ = make("dx", "scratch", DType::kF32, rows, d, {head, last});
    const std::int64_t workspace =
        ops_.linear_workspace_bytes(head_rows_, config_.vocab, d, options_.compute);
    head_workspace_ =
        make("head workspace", "head", DType::kF32, 1, (workspace + 3) / 4, {head, head});
}

void Transformer::bind(const BufferPlan& plan, const Arena& arena) {
    for (UnitBuffers& unit : units_) unit.bind(plan, arena);
    for (BlockActivations& a : activations_) a.bind(plan, arena);
    scratch_.bind(plan, arena);
    for (Slot* slot : {&final_x_, &hidden_, &final_mean_, &final_rstd_, &logits_, &dlogits_,
                       &losses_, &dhidden_, &dx_, &dx_low_, &head_workspace_})
        slot->bind(plan, arena);
    for (std::int64_t l = 0; l < config_.num_layers; ++l) {
        const UnitBuffers& unit = units_[layout_.block(l).value];
        weights_.push_back(block_weights(unit, config_));
        if (options_.training) gradients_.push_back(block_gradients(unit, config_));
    }
    bind_ends();
}

void Transformer::refresh(Stream stream) {
    for (UnitBuffers& unit : units_) unit.refresh(ops_, stream);
}

void Transformer::bind_ends() {
    const UnitBuffers &first = units_.front(), &last = units_.back();
    const bool tied = config_.tied_head, training = options_.training;
    ends_.token = first.matrix("token");
    if (config_.is_gpt2()) ends_.position = first.matrix("position");
    ends_.output = tied ? first.weight("token") : last.weight("output.weight");
    ends_.norm = last.vector("norm.weight");
    ends_.norm_bias = last.vector("norm.bias");
    if (!training) return;
    ends_.token_gradient = first.matrix_gradient("token");
    if (config_.is_gpt2()) ends_.position_gradient = first.matrix_gradient("position");
    ends_.output_gradient = tied ? ends_.token_gradient : last.matrix_gradient("output.weight");
    ends_.norm_gradient = last.vector_gradient("norm.weight");
    ends_.norm_bias_gradient = last.vector_gradient("norm.bias");
}

/// Only what its op adds to: matrices are overwritten by their first GEMM.
void Transformer::zero_gradients(Stream stream) {
    for (const UnitBuffers& unit : units_) {
        for (const View& view : unit.unit().views) {
            const bool embedding = &unit == &units_.front();
            const bool written_by_gemm =
                view.dims.size() == 2 &&
                (!embedding || (config_.tied_head && view.name == "embedding.token"));
            if (!written_by_gemm)
                ops_.fill(stream,
                          unit.gradients().subspan(static_cast<std::size_t>(view.offset),
                                                   static_cast<std::size_t>(view.count())),
                          0.0f);
        }
    }
}

void Transformer::embed(Stream stream, const MicroBatch& batch, UnitLifecycle& lifecycle) {
    lifecycle.before_forward(layout_.embedding());
    ops_.embedding(stream, batch.tokens, ends_.token, ends_.position, batch.shape.sequence, 0,
                   activations_.front().x1.first(batch.shape.rows()));
    lifecycle.after_forward(layout_.embedding());
}

void Transformer::run_forward(Stream stream, const MicroBatch& batch, UnitLifecycle& lifecycle) {
    const std::int64_t rows = batch.shape.rows();
    CHECK(rows <= options_.shape.rows() && batch.shape.sequence <= config_.context);
    embed(stream, batch, lifecycle);
    Tensor x = activations_.front().x1.first(rows), add;
    for (std::int64_t l = 0; l < config_.num_layers; ++l) {
        const auto i = static_cast<std::size_t>(l);
        lifecycle.before_forward(layout_.block(l));
        block_.forward(stream, weights_[i], activations_[i], scratch_, batch.shape, x, add, true);
        lifecycle.after_forward(layout_.block(l));
        x = activations_[i].x2.first(rows);
        add = scratch_.out.first(rows);
    }
    lifecycle.before_forward(layout_.head());
    if (config_.tied_head) lifecycle.before_forward(layout_.embedding());
    final_norm(stream, rows);
}

void Transformer::final_norm(Stream stream, std::int64_t rows) {
    NormForwardArgs norm{activations_.back().x2.first(rows),
                         scratch_.out.first(rows),
                         final_x_.first(rows),
                         ends_.norm,
                         ends_.norm_bias,
                         static_cast<float>(config_.norm_eps),
                         hidden_.first(rows),
                         final_mean_.floats(),
                         final_rstd_.floats()};
    ops_.norm(stream, norm);
}

double Transformer::head(Stream stream, const MicroBatch& batch, bool train, float gradient_scale,
                         bool accumulate) {
    const std::int64_t rows = batch.shape.rows();
    for (std::int64_t row = 0; row < rows; row += head_rows_) {
        const std::int64_t count = std::min(head_rows_, rows - row);
        const Tensor hidden = hidden_.tensor.row_range(row, count), logits = logits_.first(count);
        ops_.linear(stream, hidden, ends_.output, nullptr, logits);
        CrossEntropyArgs loss{
            logits, batch.targets + row, gradient_scale, losses_.floats() + row, {}};
        if (train) loss.dlogits = dlogits_ ? dlogits_.first(count) : logits;
        ops_.cross_entropy(stream, loss);
        if (!train) continue;
        ops_.linear_input_gradient(stream, loss.dlogits, ends_.output,
                                   dhidden_.tensor.row_range(row, count));
        ops_.linear_weight_gradient(stream, loss.dlogits, hidden, ends_.output_gradient, nullptr,
                                    accumulate || row > 0, head_workspace_.tensor.data);
    }
    ops_.synchronize(stream);
    double total = 0;
    for (std::int64_t row = 0; row < rows; ++row) total += losses_.floats()[row];
    return total;
}

const BlockActivations& Transformer::activations(std::int64_t layer) const {
    return activations_[static_cast<std::size_t>(layer)];
}

void Transformer::run_backward(Stream stream, const MicroBatch& batch, bool accumulate,
                               UnitLifecycle& lifecycle) {
    const std::int64_t rows = batch.shape.rows();
    const Tensor dx = dx_.first(rows);
    const Tensor dx_low = dx_low_ ? dx_low_.first(rows) : dx;
    ops_.fill(stream, {dx.f32(), static_cast<std::size_t>(rows * config_.d_model)}, 0.0f);
    NormBackwardArgs norm{dhidden_.first(rows),
                          final_x_.first(rows),
                          ends_.norm,
                          final_mean_.floats(),
                          final_rstd_.floats(),
                          dx,
                          dx_low_ ? dx_low : Tensor{},
                          ends_.norm_gradient,
                          ends_.norm_bias_gradient,
                          scratch_.norm_workspace.floats()};
    ops_.norm_backward(stream, norm);
    lifecycle.after_backward(layout_.head());
    for (std::int64_t l = config_.num_layers - 1; l >= 0; --l) {
        const auto i = static_cast<std::size_t>(l);
        lifecycle.before_backward(layout_.block(l));
        if (options_.recompute)
            block_.forward(stream, weights_[i], activations_[i], scratch_, batch.shape,
                           activations(l).x1.first(rows), Tensor{}, false);
        block_.backward(stream, weights_[i], gradients_[i], activations_[i], scratch_, batch.shape,
                        dx, dx_low, accumulate);
        lifecycle.after_backward(layout_.block(l));
    }
    ops_.embedding_backward(stream, batch.tokens, dx, ends_.token_gradient, ends_.position_gradient,
                            batch.shape.sequence);
    lifecycle.after_backward(layout_.embedding());
}

double Transformer::forward_backward(Stream stream, const MicroBatch& batch, float gradient_scale,
                                     bool accumulate, UnitLifecycle& lifecycle) {
    CHECK(options_.training);
    if (!accumulate) zero_gradients(stream);
    run_forward(stream, batch, lifecycle);
    const double total = head(stream, batch, true, gradient_scale, accumulate);
    run_backward(stream, batch, accumulate, lifecycle);
    ops_.synchronize(stream);
    return total;
}

double Transformer::loss(Stream stream, const MicroBatch& batch, UnitLifecycle& lifecycle) {
    run_forward(stream, batch, lifecycle);
    const double total = head(stream, batch, false, 0.0f, false);
    lifecycle.after_forward(layout_.head());
    return total;
}

void Transformer::logits(Stream stream, const MicroBatch& batch, float* out,
                         UnitLifecycle& lifecycle) {
    run_forward(stream, batch, lifecycle);
    ops_.linear(stream, hidden_.first(batch.shape.rows()), ends_.output, nullptr,
                tensor_of(out, batch.shape.rows(), config_.vocab));
    ops_.synchronize(stream);
    lifecycle.after_forward(layout_.head());
}

}  // namespace isthmus::inner
