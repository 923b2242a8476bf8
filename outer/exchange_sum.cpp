#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.hpp"
#include "outer/exchange_impl.hpp"
#include "outer/outer_step.hpp"

namespace isthmus::outer {

namespace {

constexpr FragmentId kFragment{0};

}  // namespace

std::span<const float> RoundExchange::Impl::decoded(std::uint32_t i,
                                                    std::span<const std::byte> bytes) {
    scratch.resize(static_cast<std::size_t>(layout.piece(i).count));
    decode(begin->codec, bytes, scratch);
    return scratch;
}

bool RoundExchange::Impl::work() {
    if (over || ready.empty()) return false;
    const std::uint32_t i = ready.front();
    ready.pop_front();
    const bool good = begin->method == Method::kSolo        ? copy_local(i)
                      : begin->method == Method::kAllGather ? gather(i)
                                                            : sum_inputs(i);
    if (!good) return true;
    complete_piece(i);
    finish_if_complete();
    return true;
}

bool RoundExchange::Impl::note_input(std::size_t contributor, std::uint32_t i,
                                     std::span<const float> values) {
    double& s = squares[contributor * num_pieces() + i];
    s = sum_of_squares(values);
    if (!std::isfinite(s)) fail({});
    return std::isfinite(s);
}

bool RoundExchange::Impl::copy_local(std::uint32_t i) {
    scratch.resize(static_cast<std::size_t>(layout.piece(i).count));
    model.read(kFragment, layout.piece(i).offset, scratch);
    if (!note_input(0, i, scratch)) return false;
    const auto bytes = std::as_bytes(std::span(scratch));
    std::copy(bytes.begin(), bytes.end(), result->piece(0, i).begin());
    return true;
}

bool RoundExchange::Impl::gather(std::uint32_t i) {
    double bound = 0;
    for (std::size_t k = 0; k < contributors.size(); ++k) {
        const Participant& p = contributors[k];
        const auto bytes = p.peer.site == self ? own_piece(i) : input(p.cut, i);
        if (!note_input(k, i, decoded(i, bytes))) return false;
        bound += static_cast<double>(p.weight) * std::sqrt(squares[k * num_pieces() + i]);
        std::copy(bytes.begin(), bytes.end(), result->piece(k, i).begin());
    }
    for (auto& [id, pieces] : inputs) forget_input(pieces, i);
    return mean_is_finite(i, bound);
}

bool RoundExchange::Impl::mean_is_finite(std::uint32_t i, double bound) {
    constexpr double kSafe = std::numeric_limits<float>::max() / 4;
    const double total = total_weight(result->info().weights);
    if (bound < kSafe * std::min(1.0, total)) return true;
    sum.resize(static_cast<std::size_t>(layout.piece(i).count));
    result->mean(i, sum, scratch);
    if (std::isfinite(sum_of_squares(sum))) return true;
    fail({});
    return false;
}

bool RoundExchange::Impl::sum_inputs(std::uint32_t i) {
    const Piece& piece = layout.piece(i);
    sum.assign(static_cast<std::size_t>(piece.count), 0.0f);
    for (std::size_t k = 0; k < contributors.size(); ++k) {
        const Participant& p = contributors[k];
        const auto bytes = p.peer.site == self ? own_piece(i) : input(p.cut, i);
        const auto values = decoded(i, bytes);
        if (!note_input(k, i, values)) return false;
        accumulate(sum, p.weight, values);
    }
    divide(sum, total_weight(result->info().weights));
    encode(begin->codec, sum, rounding_key(begin->seed, begin->from.round, kFragment, kMeanSite),
           piece.offset, result->piece(0, i));
    // Beyond the cache's size inputs are asked for again if there is another attempt.
    if (inputs_bytes > options.cache_bytes) {
        for (auto& [id, pieces] : inputs) forget_input(pieces, i);
    }
    data.may_serve_now();
    if (std::isfinite(sum_of_squares(sum))) return true;
    // The others must see it too: nobody is to blame, and nobody may wait for this site.
    complete_piece(i);
    fail({});
    return false;
}

void RoundExchange::Impl::complete_piece(std::uint32_t i) {
    CHECK(!have[i]);
    have[i] = true;
    digests[i] = result->piece_digest(i);
    ++complete;
}

std::vector<InputReport> RoundExchange::Impl::reports() const {
    std::vector<InputReport> all;
    for (std::size_t k = 0; k < contributors.size(); ++k) {
        InputReport r{.site = contributors[k].peer.site, .finite = true, .sum_of_squares = 0};
        for (std::uint32_t i = 0; i < num_pieces(); ++i)
            r.sum_of_squares += squares[k * num_pieces() + i];
        r.finite = std::isfinite(r.sum_of_squares);
        all.push_back(r);
    }
    return all;
}

void RoundExchange::Impl::fail(std::vector<SiteId> missing, std::string why) {
    if (over) return;
    over = true;
    outcome = ExchangeFailed{.attempt = begin->attempt,
                             .missing = std::move(missing),
                             .inputs = reports(),
                             .why = std::move(why)};
}

void RoundExchange::Impl::finish_if_complete() {
    if (over || complete < num_pieces()) return;
    over = whole = true;
    ResultInfo& info = result->info();
    info.to.hash = chained_hash(begin->from.hash, result->digest(digests), begin->optimizer);
    outcome = Exchanged{.attempt = begin->attempt, .result = info.to.hash, .inputs = reports()};
}

}  // namespace isthmus::outer
