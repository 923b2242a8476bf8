#include "outer/round_result.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <type_traits>

#include "base/check.hpp"
#include "outer/outer_step.hpp"

namespace isthmus::outer {
namespace {

/// Elements that are summed at a time, so that they stay in the first-level cache: whole blocks.
constexpr std::size_t kRun = 16 * static_cast<std::size_t>(kBlockElements);

template <class T>
void update(Digester& digester, const T& value) {
    static_assert(std::has_unique_object_representations_v<T> || std::is_same_v<T, float>);
    digester.update(std::as_bytes(std::span(&value, 1)));
}

}  // namespace

Status check(const ResultInfo& info) {
    const auto& sites = info.sites;
    if (sites.empty() || sites.size() != info.weights.size())
        return Error{fmt::format("{} sites, {} weights", sites.size(), info.weights.size())};
    if (std::ranges::adjacent_find(sites, std::greater_equal()) != sites.end())
        return Error{"sites do not ascend"};
    if (sites.back() == kMeanSite) return Error{"the mean is listed as a site"};
    const auto usable = [](float weight) { return weight > 0 && std::isfinite(weight); };
    if (!std::ranges::all_of(info.weights, usable) || !std::isfinite(total_weight(info.weights)))
        return Error{"weights are not positive and finite"};
    if (info.method == Method::kSolo) {
        if (sites.size() != 1) return Error{fmt::format("alone, but {} sites", sites.size())};
        if (info.codec != Codec::kFp32 || !info.optimizer.averages())
            return Error{"alone, but not fp32 and averaging"};
    }
    return Done{};
}

RoundResult::RoundResult(const FragmentLayout& layout, ResultInfo info)
    : layout_(layout), info_(std::move(info)) {
    const Status status = check(info_);
    CHECK(status.has_value(), "{}", status.error().message);
    offsets_.push_back(0);
    for (std::uint32_t p = 0; p < layout_.num_pieces(); ++p)
        offsets_.push_back(offsets_.back() + encoded_bytes(info_.codec, layout_.piece(p).count));
    parts_.resize(info_.method == Method::kOwners ? 1 : info_.sites.size());
    for (auto& part : parts_) part.resize(offsets_.back());
}

std::size_t RoundResult::bytes() const {
    return parts_.size() * offsets_.back();
}

std::span<std::byte> RoundResult::piece(std::size_t part, std::uint32_t index) {
    CHECK(part < parts_.size() && index < layout_.num_pieces());
    return std::span(parts_[part]).subspan(offsets_[index], offsets_[index + 1] - offsets_[index]);
}

std::span<const std::byte> RoundResult::piece(std::size_t part, std::uint32_t index) const {
    return const_cast<RoundResult*>(this)->piece(part, index);
}

void RoundResult::mean(std::uint32_t index, std::span<float> out, std::span<float> scratch) const {
    const auto count = static_cast<std::size_t>(layout_.piece(index).count);
    CHECK(out.size() == count && scratch.size() >= count);
    scratch = scratch.first(count);
    if (info_.method != Method::kAllGather) {
        decode(info_.codec, piece(0, index), out);
        return;
    }
    const float total = total_weight(info_.weights);
    for (std::size_t done = 0; done < count; done += kRun) {
        const auto sum = out.subspan(done, std::min(kRun, count - done));
        const auto x = scratch.first(sum.size());
        const std::size_t skipped = encoded_bytes(info_.codec, static_cast<std::int64_t>(done));
        const std::size_t bytes = encoded_bytes(info_.codec, static_cast<std::int64_t>(sum.size()));
        std::ranges::fill(sum, 0.0f);
        for (std::size_t part = 0; part < parts_.size(); ++part) {
            decode(info_.codec, piece(part, index).subspan(skipped, bytes), x);
            accumulate(sum, info_.weights[part], x);
        }
        divide(sum, total);
    }
}

StateHash RoundResult::piece_digest(std::uint32_t index) const {
    Digester digester;
    for (std::size_t part = 0; part < parts_.size(); ++part) digester.update(piece(part, index));
    return digester.finish();
}

StateHash RoundResult::digest(std::span<const StateHash> piece_digests) const {
    CHECK(piece_digests.size() == layout_.num_pieces());
    Digester digester;
    update(digester, info_.method);
    update(digester, info_.codec);
    update(digester, static_cast<std::uint64_t>(info_.sites.size()));
    for (const SiteId site : info_.sites) update(digester, site.value);
    for (const float weight : info_.weights) update(digester, weight);
    digester.update(std::as_bytes(piece_digests));
    return digester.finish();
}

StateHash chained_hash(const StateHash& from, const StateHash& result_digest,
                       const OuterOptimizer& optimizer) {
    Digester digester;
    digester.update(from);
    digester.update(result_digest);
    update(digester, optimizer.lr);
    update(digester, optimizer.momentum);
    update(digester, static_cast<std::uint8_t>(optimizer.nesterov));
    return digester.finish();
}

}  // namespace isthmus::outer
