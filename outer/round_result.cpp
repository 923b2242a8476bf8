#include "outer/round_result.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "base/record.hpp"
#include "outer/outer_step.hpp"

namespace isthmus::outer {

RoundResult::RoundResult(const FragmentLayout& layout, ResultInfo info)
    : layout_(layout), info_(std::move(info)) {
    CHECK(info_.weights.size() == info_.sites.size());
    const std::size_t parts = info_.method == Method::kAllGather ? info_.sites.size() : 1;
    CHECK(parts > 0);
    std::size_t at = 0;
    for (std::uint32_t i = 0; i < layout_.num_pieces(); ++i) {
        offsets_.push_back(at);
        at += encoded_bytes(info_.codec, layout_.piece(i).count);
    }
    offsets_.push_back(at);
    parts_.assign(parts, std::vector<std::byte>(at));
}

std::size_t RoundResult::bytes() const {
    return parts_.size() * offsets_.back();
}

std::span<std::byte> RoundResult::piece(std::size_t part, std::uint32_t index) {
    return std::span(parts_[part]).subspan(offsets_[index], offsets_[index + 1] - offsets_[index]);
}
std::span<const std::byte> RoundResult::piece(std::size_t part, std::uint32_t index) const {
    return std::span(parts_[part]).subspan(offsets_[index], offsets_[index + 1] - offsets_[index]);
}

void RoundResult::mean(std::uint32_t index, std::span<float> out, std::span<float> scratch) const {
    const auto n = static_cast<std::size_t>(layout_.piece(index).count);
    CHECK(out.size() == n && scratch.size() >= n);
    if (info_.method != Method::kAllGather) return decode(info_.codec, piece(0, index), out);
    std::fill(out.begin(), out.end(), 0.0f);
    for (std::size_t part = 0; part < parts_.size(); ++part) {
        decode(info_.codec, piece(part, index), scratch.first(n));
        accumulate(out, info_.weights[part], scratch.first(n));
    }
    divide(out, total_weight(info_.weights));
}

StateHash RoundResult::piece_digest(std::uint32_t index) const {
    Digester digester;
    for (std::size_t part = 0; part < parts_.size(); ++part) digester.update(piece(part, index));
    return digester.finish();
}

StateHash RoundResult::digest(std::span<const StateHash> piece_digests) const {
    CHECK(piece_digests.size() == layout_.num_pieces());
    // What the bytes mean, without what is named by the result itself or by the attempt.
    ResultInfo meaning = info_;
    meaning.from = meaning.to = {};
    meaning.attempt = {};
    Digester digester;
    const auto bytes = pack(meaning);
    digester.update(std::span<const std::byte>(bytes));
    const StateHash pieces = combine(piece_digests);
    digester.update(std::span<const std::byte>(pieces));
    return digester.finish();
}

StateHash chained_hash(const StateHash& from, const StateHash& result_digest,
                       const OuterOptimizer& optimizer) {
    Digester digester;
    digester.update(std::span<const std::byte>(from));
    digester.update(std::span<const std::byte>(result_digest));
    const auto bytes = pack(optimizer);
    digester.update(std::span<const std::byte>(bytes));
    return digester.finish();
}

}  // namespace isthmus::outer
