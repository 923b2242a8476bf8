#include "inner/optim/optimizer.hpp"

#include <cmath>

namespace isthmus::inner {
namespace {

std::int64_t num_blocks(Range piece) {
    return (piece.count() + kGrainElements - 1) / kGrainElements;
}

}  // namespace

Optimizer::Optimizer(const OptimConfig& config, const Layout& layout, std::vector<ShardPlan> shards,
                     Rank rank, BufferPlan& plan)
    : config_(config) {
    CHECK(shards.size() == layout.units.size());
    for (std::size_t u = 0; u < shards.size(); ++u) {
        const Unit& unit = layout.units[u];
        Owned owned;
        owned.unit = &unit;
        owned.piece = shards[u].piece(rank);
        owned.parts = split_by_view(unit, owned.piece);
        const std::int64_t bytes = owned.piece.count() * 4;
        owned.first_id = plan.add(unit.name + " m", "moments", bytes, kAlways);
        owned.second_id = plan.add(unit.name + " v", "moments", bytes, kAlways);
        owned.norms_id =
            plan.add(unit.name + " norms", "gradients", num_blocks(owned.piece) * 8, kAlways);
        owned_.push_back(std::move(owned));
    }
}

void Optimizer::bind(const BufferPlan& plan, const Arena& arena) {
    for (Owned& owned : owned_) {
        const auto count = static_cast<std::size_t>(owned.piece.count());
        owned.first = {reinterpret_cast<float*>(arena.at(plan.offset(owned.first_id))), count};
        owned.second = {reinterpret_cast<float*>(arena.at(plan.offset(owned.second_id))), count};
        owned.norms = {reinterpret_cast<double*>(arena.at(plan.offset(owned.norms_id))),
                       static_cast<std::size_t>(num_blocks(owned.piece))};
    }
}

double Optimizer::squared_norm(Ops& ops, Stream stream, const std::vector<UnitBuffers*>& units) {
    for (std::size_t u = 0; u < owned_.size(); ++u) {
        Owned& owned = owned_[u];
        const auto gradients = units[u]->gradients().subspan(
            static_cast<std::size_t>(owned.piece.begin), owned.first.size());
        ops.block_sum_squares(stream, gradients, kGrainElements, owned.norms.data());
    }
    ops.synchronize(stream);
    double total = 0;
    for (Owned& owned : owned_) {
        owned.squared = 0;
        for (const double block : owned.norms) owned.squared += block;
        total += owned.squared;
    }
    return total;
}

std::vector<std::string> Optimizer::not_finite() const {
    std::vector<std::string> names;
    for (const Owned& owned : owned_)
        if (!std::isfinite(owned.squared)) names.push_back(owned.unit->name);
    return names;
}

void Optimizer::update(Ops& ops, Stream stream, const std::vector<UnitBuffers*>& units,
                       std::int64_t update, double learning_rate, double gradient_scale) {
    AdamWArgs args;
    args.gradient_scale = static_cast<float>(gradient_scale);
    args.learning_rate = static_cast<float>(learning_rate);
    args.beta1 = static_cast<float>(config_.beta1);
    args.beta2 = static_cast<float>(config_.beta2);
    args.eps = static_cast<float>(config_.eps);
    const auto t = static_cast<double>(update);
    args.correction1 = static_cast<float>(1.0 - std::pow(config_.beta1, t));
    args.correction2 = static_cast<float>(1.0 - std::pow(config_.beta2, t));
    for (std::size_t u = 0; u < owned_.size(); ++u) {
        const Owned& owned = owned_[u];
        for (const ViewRange& part : owned.parts) {
            const std::int64_t at = part.range.begin, mine = at - owned.piece.begin;
            args.count = part.range.count();
            args.parameters = units[u]->parameters().data() + at;
            args.gradients = units[u]->gradients().data() + at;
            args.first_moment = owned.first.data() + mine;
            args.second_moment = owned.second.data() + mine;
            args.copy = units[u]->copy() == nullptr ? nullptr : units[u]->copy() + at;
            args.weight_decay = part.view->decay ? static_cast<float>(config_.weight_decay) : 0.0f;
            ops.adamw(stream, args);
        }
    }
}

std::span<float> Optimizer::first_moments(UnitId id) const {
    return owned_[id.value].first;
}
std::span<float> Optimizer::second_moments(UnitId id) const {
    return owned_[id.value].second;
}

}  // namespace isthmus::inner
