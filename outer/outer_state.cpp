#include "outer/outer_state.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace isthmus::outer {

namespace {

template <class T>
std::span<T> part(std::span<T> all, const Piece& p) {
    return all.subspan(static_cast<std::size_t>(p.offset), static_cast<std::size_t>(p.count));
}

}  // namespace

OuterState::OuterState(const FragmentLayout& layout, const Options& options, ModelPort& model)
    : layout_(layout), options_(options) {
    const auto n = static_cast<std::size_t>(layout.num_elements());
    anchor_.resize(n);
    if (options.optimizer.has_momentum()) momentum_.assign(n, 0.0f);
    if (options.error_feedback) residual_.assign(n, 0.0f);
    model.read(FragmentId(0), 0, anchor_);
    name_.hash = full_digest();
}

StateHash OuterState::full_digest() const {
    return outer::full_digest(layout_, anchor_, momentum_);
}

void OuterState::encode_input(std::uint32_t index, SiteId self, ModelPort& model,
                              std::span<std::byte> out) const {
    const Piece& p = layout_.piece(index);
    std::vector<float> delta(static_cast<std::size_t>(p.count));
    model.read(FragmentId(0), p.offset, delta);
    pseudo_gradient(part(std::span<const float>(anchor_), p), delta, delta);
    if (!residual_.empty()) add(delta, part(std::span<const float>(residual_), p));
    encode(options_.codec, delta, rounding_key(options_.seed, name_.round, FragmentId(0), self),
           p.offset, out);
}

void OuterState::apply(const RoundResult& result, SiteId self, ModelPort& model) {
    const ResultInfo& info = result.info();
    CHECK(info.from == name_, "a result of another state is applied");
    const bool solo = info.method == Method::kSolo;
    CHECK(!solo || info.optimizer.averages());
    const bool contributed = std::count(info.sites.begin(), info.sites.end(), self) > 0;
    std::vector<float> mean, scratch;
    std::vector<std::byte> sent;
    for (std::uint32_t i = 0; i < layout_.num_pieces(); ++i) {
        const Piece& p = layout_.piece(i);
        const auto n = static_cast<std::size_t>(p.count);
        mean.resize(n);
        scratch.resize(n);
        const auto anchor = part(std::span(anchor_), p);
        if (!residual_.empty() && contributed && !solo) {
            // What was sent is encoded again: the same bytes, since encoding depends on the cut
            // alone.
            sent.resize(encoded_bytes(options_.codec, p.count));
            encode_input(i, self, model, sent);
            const auto residual = part(std::span(residual_), p);
            model.read(FragmentId(0), p.offset, scratch);
            pseudo_gradient(anchor, scratch, scratch);
            add(scratch, residual);
            decode(options_.codec, sent, mean);
            subtract(scratch, mean, residual);
        }
        result.mean(i, mean, scratch);
        if (solo) {
            std::copy(mean.begin(), mean.end(), anchor.begin());
        } else {
            const auto momentum =
                momentum_.empty() ? std::span<float>() : part(std::span(momentum_), p);
            outer_step(info.optimizer, anchor, momentum, mean);
        }
        model.write(FragmentId(0), p.offset, anchor);
    }
    model.written();
    name_ = info.to;
}

void OuterState::reset_model(ModelPort& model) const {
    model.write(FragmentId(0), 0, anchor_);
    model.written();
}

void OuterState::replace(const StateName& name, std::vector<float> anchor,
                         std::vector<float> momentum, ModelPort& model) {
    CHECK(anchor.size() == anchor_.size() && momentum.size() == momentum_.size());
    anchor_ = std::move(anchor);
    momentum_ = std::move(momentum);
    std::fill(residual_.begin(), residual_.end(), 0.0f);
    name_ = name;
    reset_model(model);
}

}  // namespace isthmus::outer
