#include "inner/engine.hpp"
#include "inner/model/transformer.hpp"
#include "inner/trainer.hpp"

namespace isthmus::inner {
namespace {

/// One block's keys and values of the sequence so far. SHAPE [context, kv_dim], E.
struct Cache {
    Slot keys, values;
};

class ModelPredictor final : public Predictor {
  public:
    ModelPredictor(const ModelConfig& config, const TrainConfig& train)
        : config_(config),
          ops_(make_ops(train)),
          layout_(make_layout(config_)),
          shape_(batch_shape(config_, train)),
          model_(config_, layout_, {compute_type(train), shape_, false, false}, *ops_, plan_),
          decode_block_(model_.block()) {
        declare_decoding(compute_type(train));
        plan_.assign();
        arena_ = std::make_unique<Arena>(plan_.total_bytes());
        model_.bind(plan_, *arena_);
        activations_.bind(plan_, *arena_);
        scratch_.bind(plan_, *arena_);
        for (Slot* slot : {&hidden_, &final_x_, &logits_, &mean_, &decode_workspace_})
            slot->bind(plan_, *arena_);
        for (Cache& cache : caches_) {
            cache.keys.bind(plan_, *arena_);
            cache.values.bind(plan_, *arena_);
        }
    }

    const Layout& layout() const override { return layout_; }
    std::span<float> parameters(UnitId id) override { return model_.unit(id).parameters(); }
    void parameters_changed() override { model_.refresh(stream_); }

    double evaluate(TokenFile& file, Split split, std::int64_t windows) override {
        return mean_loss(
            file, split, windows, shape_,
            [&](const std::int32_t* tokens, const std::int32_t* targets, std::int64_t n) {
                const MicroBatch batch{tokens, targets, {n, shape_.sequence}};
                return model_.loss(stream_, batch, lifecycle_);
            });
    }

    void logits(std::span<const std::int32_t> tokens, std::span<float> out) override {
        const auto count = static_cast<std::int64_t>(tokens.size());
        CHECK(static_cast<std::int64_t>(out.size()) == count * config_.vocab);
        model_.logits(stream_, {tokens.data(), nullptr, {1, count}}, out.data(), lifecycle_);
    }

    void reset() override { length_ = 0; }
    std::int64_t length() const override { return length_; }

    std::span<const float> feed(std::int32_t token) override {
        CHECK(length_ < config_.context, "the context of {} tokens is full", config_.context);
        CHECK(token >= 0 && token < config_.vocab, "token {} of {}", token, config_.vocab);
        const Transformer::Ends& ends = model_.ends();
        ops_->embedding(stream_, &token, ends.token, ends.position, 1, length_,
                        activations_.x1.tensor);
        Tensor x = activations_.x1.tensor, add;
        for (std::int64_t l = 0; l < config_.num_layers; ++l) {
            const Block::Attend attend = [&](const BlockActivations& a, BatchShape) {
                attend_to_cache(caches_[static_cast<std::size_t>(l)], a);
            };
            decode_block_.forward(stream_, model_.block_weights_of(l), activations_, scratch_,
                                  {1, 1}, x, add, true, length_, &attend);
            x = activations_.x2.tensor;
            add = scratch_.out.tensor;
        }
        NormForwardArgs norm{x,
                             add,
                             final_x_.tensor,
                             ends.norm,
                             ends.norm_bias,
                             static_cast<float>(config_.norm_eps),
                             hidden_.tensor,
                             mean_.floats(),
                             nullptr};
        ops_->norm(stream_, norm);
        ops_->linear(stream_, hidden_.tensor, ends.output, nullptr, logits_.tensor);
        ops_->synchronize(stream_);
        ++length_;
        return {logits_.floats(), static_cast<std::size_t>(config_.vocab)};
    }

  private:
    void declare_decoding(DType compute) {
        const auto make = [&](const char* name, DType dtype, std::int64_t rows, std::int64_t cols) {
            return Slot::declare(plan_, name, "generation", dtype, rows, cols, kAlways);
        };
        activations_ = decode_block_.declare(plan_, "decode", {1, 1}, kAlways, kAlways, false);
        scratch_ = decode_block_.declare_scratch(plan_, {1, 1}, kAlways, false);
        for (std::int64_t l = 0; l < config_.num_layers; ++l)
            caches_.push_back({make("keys", compute, config_.context, config_.kv_dim()),
                               make("values", compute, config_.context, config_.kv_dim())});
        hidden_ = make("hidden", compute, 1, config_.d_model);
        final_x_ = make("final x", DType::kF32, 1, config_.d_model);
        logits_ = make("logits", DType::kF32, 1, config_.vocab);
        mean_ = make("mean", DType::kF32, 1, 1);
        decode_workspace_ =
            make("decode workspace", DType::kF32, config_.context, config_.num_heads);
    }

    void attend_to_cache(Cache& cache, const BlockActivations& a) {
        const Tensor qkv = a.qkv.tensor;
        const std::int64_t q = config_.q_dim(), kv = config_.kv_dim();
        ops_->convert(stream_, qkv.col_range(q, kv), cache.keys.tensor.row_range(length_, 1));
        ops_->convert(stream_, qkv.col_range(q + kv, kv),
                      cache.values.tensor.row_range(length_, 1));
        const AttentionArgs forward = decode_block_.attention_args(a, scratch_, {1, 1});
        AttentionDecodeArgs args;
        args.heads = forward.heads;
        args.kv_heads = forward.kv_heads;
        args.head_dim = forward.head_dim;
        args.scale = forward.scale;
        args.window = forward.window;
        args.length = length_ + 1;
        args.q = qkv.col_range(0, q);
        args.keys = cache.keys.tensor;
        args.values = cache.values.tensor;
        args.out = a.attention.tensor;
        args.workspace = decode_workspace_.floats();
        ops_->attention_decode(stream_, args);
    }

    const ModelConfig config_;
    std::unique_ptr<Ops> ops_;
    const Layout layout_;
    const BatchShape shape_;
    BufferPlan plan_;
    Transformer model_;
    Block& decode_block_;
    std::unique_ptr<Arena> arena_;
    ResidentUnits lifecycle_;
    Stream stream_;
    BlockActivations activations_;
    BlockScratch scratch_;
    std::vector<Cache> caches_;
    Slot hidden_, final_x_, logits_, mean_, decode_workspace_;
    std::int64_t length_ = 0;
};

}  // namespace

std::unique_ptr<Predictor> Predictor::create(const ModelConfig& config, const TrainConfig& train) {
    return std::make_unique<ModelPredictor>(config, train);
}

}  // namespace isthmus::inner
