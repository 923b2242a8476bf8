#include "outer/outer_state.hpp"

#include <algorithm>
#include <array>

#include "base/check.hpp"

namespace isthmus::outer {
namespace {

constexpr FragmentId kFragment{0};
/// Elements worked on at a time where a buffer should stay in the first-level cache.
constexpr std::int64_t kStride = 16 * kBlockElements;

std::size_t elements_of(const FragmentLayout& layout) {
    return static_cast<std::size_t>(layout.num_elements());
}

std::int64_t largest_piece(const FragmentLayout& layout) {
    std::int64_t largest = 0;
    for (std::uint32_t p = 0; p < layout.num_pieces(); ++p)
        largest = std::max(largest, layout.piece(p).count);
    return largest;
}

template <class T>
std::span<T> part_of(std::span<T> all, const Piece& piece) {
    return all.subspan(static_cast<std::size_t>(piece.offset),
                       static_cast<std::size_t>(piece.count));
}

}  // namespace

OuterState::OuterState(const FragmentLayout& layout, const Options& options, ModelPort& port)
    : layout_(layout),
      options_(options),
      anchor_(elements_of(layout)),
      momentum_(options.optimizer.has_momentum() ? elements_of(layout) : 0),
      residual_(options.error_feedback ? elements_of(layout) : 0) {
    CHECK(port.unit_elements(kFragment) == layout.unit_elements(), "the layout of another model");
    for (std::uint32_t p = 0; p < layout_.num_pieces(); ++p)
        port.read(kFragment, layout_.piece(p).offset, part_of<float>(anchor_, layout_.piece(p)));
    name_.hash = full_digest();
}

StateHash OuterState::full_digest() const {
    return outer::full_digest(layout_, anchor_, momentum_);
}

void OuterState::input(const Piece& run, ModelPort& port, std::span<float> out) const {
    port.read(kFragment, run.offset, out);
    pseudo_gradient(part_of<const float>(anchor_, run), out, out);
    if (options_.error_feedback) add(out, part_of<const float>(residual_, run));
}

std::uint64_t OuterState::key(SiteId self) const {
    return rounding_key(options_.seed, name_.round, kFragment, self);
}

void OuterState::encode_input(std::uint32_t index, SiteId self, ModelPort& port,
                              std::span<std::byte> out) const {
    const Piece& piece = layout_.piece(index);
    CHECK(out.size() == encoded_bytes(options_.codec, piece.count));
    std::array<float, kStride> buffer;
    for (std::int64_t done = 0; done < piece.count; done += kStride) {
        const Piece run{piece.offset + done, std::min(kStride, piece.count - done)};
        const auto values = std::span(buffer).first(static_cast<std::size_t>(run.count));
        input(run, port, values);
        const std::size_t bytes = encoded_bytes(options_.codec, run.count);
        encode(options_.codec, values, key(self), run.offset, out.first(bytes));
        out = out.subspan(bytes);
    }
}

/// Error feedback (arXiv:1809.07599): e' = d - decode(what was sent), d = anchor - local + e. The
/// model still holds the local parameters. With owners the input is not in the result, but encoding
/// it again gives the same bytes.
void OuterState::update_residual(const Piece& piece, SiteId self, ModelPort& port,
                                 std::span<const std::byte> sent) {
    std::array<float, kStride> wanted_buffer, sent_buffer;
    std::vector<std::byte> again;
    for (std::int64_t done = 0; done < piece.count; done += kStride) {
        const Piece run{piece.offset + done, std::min(kStride, piece.count - done)};
        const auto n = static_cast<std::size_t>(run.count);
        const auto wanted = std::span(wanted_buffer).first(n);
        input(run, port, wanted);
        const std::size_t bytes = encoded_bytes(options_.codec, run.count);
        std::span<const std::byte> encoded;
        if (sent.empty()) {
            again.resize(bytes);
            encode(options_.codec, wanted, key(self), run.offset, again);
            encoded = again;
        } else {
            encoded = sent.first(bytes);
            sent = sent.subspan(bytes);
        }
        decode(options_.codec, encoded, std::span(sent_buffer).first(n));
        subtract(wanted, std::span(sent_buffer).first(n), part_of<float>(residual_, run));
    }
}

void OuterState::apply(const RoundResult& result, SiteId self, ModelPort& port) {
    const ResultInfo& info = result.info();
    CHECK(info.from == name_, "a result of round {} on a state of round {}", info.from.round.value,
          name_.round.value);
    CHECK(info.optimizer.has_momentum() == options_.optimizer.has_momentum());
    const bool solo = info.method == Method::kSolo;
    const auto mine = std::ranges::find(info.sites, self);
    // Alone, a site sends its parameters as they are: nothing is left out, and what was stays.
    const bool feeds_back = options_.error_feedback && !solo && mine != info.sites.end();
    CHECK(!feeds_back || info.codec == options_.codec);

    const auto largest = static_cast<std::size_t>(largest_piece(layout_));
    std::vector<float> mean_buffer(largest), scratch_buffer(largest);
    for (std::uint32_t p = 0; p < layout_.num_pieces(); ++p) {
        const Piece& piece = layout_.piece(p);
        const auto anchor = part_of<float>(anchor_, piece);
        if (feeds_back) {
            std::span<const std::byte> sent;
            if (info.method == Method::kAllGather)
                sent = result.piece(static_cast<std::size_t>(mine - info.sites.begin()), p);
            update_residual(piece, self, port, sent);
        }
        const auto mean = std::span(mean_buffer).first(anchor.size());
        result.mean(p, mean, std::span(scratch_buffer).first(anchor.size()));
        if (solo) {
            std::ranges::copy(mean, anchor.begin());
        } else {
            const auto momentum =
                momentum_.empty() ? std::span<float>() : part_of<float>(momentum_, piece);
            outer_step(info.optimizer, anchor, momentum, mean);
        }
        port.write(kFragment, piece.offset, anchor);
    }
    port.written();
    name_ = info.to;
}

void OuterState::reset_model(ModelPort& port) const {
    for (std::uint32_t p = 0; p < layout_.num_pieces(); ++p)
        port.write(kFragment, layout_.piece(p).offset,
                   part_of<const float>(anchor_, layout_.piece(p)));
    port.written();
}

void OuterState::replace(const StateName& name, std::vector<float> anchor,
                         std::vector<float> momentum, ModelPort& port) {
    CHECK(anchor.size() == anchor_.size() && momentum.size() == momentum_.size());
    name_ = name;
    anchor_ = std::move(anchor);
    momentum_ = std::move(momentum);
    std::ranges::fill(residual_, 0.0f);
    reset_model(port);
}

}  // namespace isthmus::outer
