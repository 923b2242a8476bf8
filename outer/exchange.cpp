#include "outer/exchange_impl.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <tuple>

#include "base/check.hpp"
#include "outer/outer_step.hpp"

namespace isthmus::outer {

namespace {

/// Pieces summed in one pump; the rest by encode_ahead, between looks at the sockets.
constexpr int kPiecesAtOnce = 16;

bool is_round_item(const Want& want) {
    return std::holds_alternative<CutItem>(want.item) ||
           std::holds_alternative<MeanItem>(want.item);
}

/// By when it was made: after a rollback rounds begin again.
bool is_older(const Attempt& a, const Attempt& b) {
    return std::tie(a.coordinator, a.counter) < std::tie(b.coordinator, b.counter);
}

ResultInfo info_of(const Begin& b) {
    ResultInfo info{
        .from = b.from,
        .to = {.lineage = b.from.lineage, .round = Round(b.from.round.value + 1), .hash = {}},
        .attempt = b.attempt,
        .method = b.method,
        .codec = b.method == Method::kSolo ? Codec::kFp32 : b.codec,
        .optimizer = b.optimizer,
        .sites = {},
        .weights = {}};
    for (const Participant& p : b.participants) {
        if (p.weight <= 0) continue;
        info.sites.push_back(p.peer.site);
        info.weights.push_back(p.weight);
    }
    return info;
}

}  // namespace

std::span<const std::byte> RoundExchange::Impl::own_piece(std::uint32_t i) {
    if (own[i].empty()) {
        own[i].resize(piece_bytes(i));
        state.encode_input(i, cut->site, model, own[i]);
    }
    return own[i];
}

void RoundExchange::Impl::start(const Begin& b, SiteId me, TimePoint now) {
    CHECK(cut, "an exchange without a cut");
    CHECK(b.method == Method::kSolo || b.codec == state.options().codec);
    keep_gathered_inputs(b);
    begin = b;
    newest = b.attempt;
    self = me;
    began = now;
    over = whole = false;
    outcome.reset();
    complete = 0;
    contributors.clear();
    for (const Participant& p : b.participants) {
        if (p.weight > 0) contributors.push_back(p);
    }
    result = std::make_shared<RoundResult>(layout, info_of(b));
    have.assign(num_pieces(), false);
    digests.assign(num_pieces(), {});
    squares.assign(contributors.size() * num_pieces(), 0.0);
    deal();
    drop_what_is_not_needed();
    look_for_ready_pieces();
    ask();
    data.may_serve_now();
    finish_if_complete();
}

void RoundExchange::Impl::deal() {
    owner.clear();
    if (begin->method != Method::kOwners) return;
    std::vector<float> shares;
    for (const Participant& p : begin->participants) shares.push_back(p.share);
    owner = deal_pieces(shares, num_pieces());
}

bool RoundExchange::Impl::is_mine(std::uint32_t i) const {
    return owner.empty() || begin->participants[owner[i]].peer.site == self;
}

bool RoundExchange::Impl::needs(const CutId& id, std::uint32_t i) const {
    return begin->method != Method::kSolo && is_mine(i) &&
           std::any_of(contributors.begin(), contributors.end(),
                       [&](const Participant& p) { return p.peer.site != self && p.cut == id; });
}

void RoundExchange::Impl::keep_gathered_inputs(const Begin& next) {
    if (!begin || begin->method != Method::kAllGather) return;
    for (std::size_t k = 0; k < contributors.size(); ++k) {
        const CutId& id = contributors[k].cut;
        const bool again = contributors[k].peer.site != self &&
                           std::any_of(next.participants.begin(), next.participants.end(),
                                       [&](const Participant& p) { return p.cut == id; });
        for (std::uint32_t i = 0; again && i < num_pieces(); ++i) {
            if (!have[i] || inputs_bytes >= options.cache_bytes) continue;
            const auto bytes = std::as_const(*result).piece(k, i);
            keep_input(id, i, {bytes.begin(), bytes.end()});
        }
    }
}

void RoundExchange::Impl::keep_input(const CutId& id, std::uint32_t i,
                                     std::vector<std::byte> bytes) {
    auto& pieces = inputs[id];
    pieces.resize(num_pieces());
    inputs_bytes += bytes.size();
    inputs_bytes -= pieces[i].size();
    pieces[i] = std::move(bytes);
}

void RoundExchange::Impl::forget_input(Pieces& pieces, std::uint32_t i) {
    inputs_bytes -= pieces[i].size();
    pieces[i] = {};
}

void RoundExchange::Impl::drop_what_is_not_needed() {
    data.forget([&](const Want& want) {
        if (!is_round_item(want)) return false;
        const auto* c = std::get_if<CutItem>(&want.item);
        return !c || want.index >= num_pieces() || !needs(c->cut, want.index);
    });
    for (auto& [id, pieces] : inputs) {
        for (std::uint32_t i = 0; i < num_pieces(); ++i) {
            if (!needs(id, i)) forget_input(pieces, i);
        }
    }
}

std::span<const std::byte> RoundExchange::Impl::input(const CutId& id, std::uint32_t i) const {
    const auto found = inputs.find(id);
    if (found == inputs.end()) return {};
    return found->second[i];
}

void RoundExchange::Impl::look_for_ready_pieces() {
    ready.clear();
    missing_inputs.assign(num_pieces(), 0);
    for (std::uint32_t i = 0; i < num_pieces(); ++i) {
        if (!is_mine(i)) continue;
        for (const Participant& p : contributors) {
            if (p.peer.site != self && input(p.cut, i).empty()) ++missing_inputs[i];
        }
        if (missing_inputs[i] == 0) ready.push_back(i);
    }
}

void RoundExchange::Impl::ask() {
    if (begin->method == Method::kSolo) return;
    for (std::uint32_t i = 0; i < num_pieces(); ++i) {
        if (!is_mine(i)) continue;
        for (const Participant& p : contributors) {
            if (p.peer.site != self && input(p.cut, i).empty())
                data.ask(p.peer.site, {CutItem{p.cut}, i}, piece_bytes(i));
        }
    }
    for (std::uint32_t i = 0; i < num_pieces(); ++i) {
        if (is_mine(i)) continue;
        const SiteId from = begin->participants[owner[i]].peer.site;
        data.ask(from, {MeanItem{begin->attempt}, i}, piece_bytes(i));
    }
}

void RoundExchange::Impl::take(DataPlane::Arrived& a) {
    ++moved;
    const std::uint32_t i = a.want.index;
    if (!begin || i >= num_pieces()) return;
    const auto* c = std::get_if<CutItem>(&a.want.item);
    if (c ? !needs(c->cut, i)
          : !(std::get<MeanItem>(a.want.item).attempt == begin->attempt) || is_mine(i))
        return;
    if (!a.found) return fail({a.from});
    if (a.bytes.size() != piece_bytes(i)) {
        return fail({a.from}, fmt::format("piece {} of site {} has {} bytes, here it has {}", i,
                                          a.from.value, a.bytes.size(), piece_bytes(i)));
    }
    if (c) {
        take_input(c->cut, i, std::move(a.bytes));
    } else {
        take_mean(i, a.bytes);
    }
}

void RoundExchange::Impl::take_input(const CutId& id, std::uint32_t i,
                                     std::vector<std::byte> bytes) {
    if (have[i] || !input(id, i).empty()) return;
    keep_input(id, i, std::move(bytes));
    if (--missing_inputs[i] == 0) ready.push_back(i);
}

void RoundExchange::Impl::take_mean(std::uint32_t i, std::span<const std::byte> bytes) {
    if (over || have[i]) return;
    std::copy(bytes.begin(), bytes.end(), result->piece(0, i).begin());
    const auto mean = decoded(i, bytes);
    complete_piece(i);
    if (!std::isfinite(sum_of_squares(mean))) return fail({});
    finish_if_complete();
}

void RoundExchange::Impl::look_for_silence(TimePoint now) {
    if (over || now - began <= options.peer_silence) return;
    std::vector<SiteId> missing;
    for (SiteId site : data.silent_peers(now, options.peer_silence)) {
        for (const Participant& p : begin->participants) {
            if (p.peer.site == site) missing.push_back(site);
        }
    }
    if (!missing.empty()) fail(std::move(missing));
}

Served RoundExchange::Impl::serve(const Want& want) {
    if (want.index >= num_pieces()) return NoSuchItem{};
    if (const auto* c = std::get_if<CutItem>(&want.item)) {
        if (!cut || c->cut != *cut) return NoSuchItem{};
        return own_piece(want.index);
    }
    const auto* mean = std::get_if<MeanItem>(&want.item);
    if (!mean) return NoSuchItem{};
    if (!newest || is_older(*newest, mean->attempt)) return NotYet{};
    if (!begin || begin->attempt != mean->attempt || begin->method != Method::kOwners ||
        !is_mine(want.index))
        return NoSuchItem{};
    if (!have[want.index]) return NotYet{};
    return std::as_const(*result).piece(0, want.index);
}

RoundExchange::RoundExchange(const OuterState& state, ModelPort& model, DataPlane& data,
                             const Options& options)
    : impl_(std::make_unique<Impl>(state, model, data, options)) {}
RoundExchange::~RoundExchange() = default;

void RoundExchange::offer(const CutId& cut) {
    discard();
    impl_->cut = cut;
    impl_->own.assign(impl_->num_pieces(), {});
}

bool RoundExchange::encode_ahead() {
    Impl& m = *impl_;
    if (!m.cut) return false;
    if (m.work()) return true;
    while (m.encoded_up_to < m.num_pieces() && !m.own[m.encoded_up_to].empty()) ++m.encoded_up_to;
    if (m.encoded_up_to == m.num_pieces()) return false;
    m.own_piece(m.encoded_up_to);
    return true;
}

void RoundExchange::begin(const Begin& b, SiteId self, TimePoint now) {
    impl_->start(b, self, now);
}

std::vector<DataPlane::Arrived> RoundExchange::pump(std::vector<DataPlane::Arrived> arrived,
                                                    TimePoint now) {
    std::vector<DataPlane::Arrived> others;
    for (DataPlane::Arrived& a : arrived) {
        if (is_round_item(a.want)) {
            impl_->take(a);
        } else {
            others.push_back(std::move(a));
        }
    }
    for (int n = 0; n < kPiecesAtOnce && impl_->work(); ++n) {
    }
    impl_->look_for_silence(now);
    return others;
}

std::optional<SiteEvent> RoundExchange::take_outcome() {
    return std::exchange(impl_->outcome, {});
}

std::shared_ptr<const RoundResult> RoundExchange::staged(const Attempt& attempt) const {
    const Impl& m = *impl_;
    return m.whole && m.begin->attempt == attempt ? m.result : nullptr;
}

void RoundExchange::discard() {
    Impl& m = *impl_;
    m.data.forget(is_round_item);
    m.cut.reset();
    m.own.clear();
    m.encoded_up_to = 0;
    m.inputs.clear();
    m.inputs_bytes = 0;
    m.begin.reset();
    m.result.reset();
    m.outcome.reset();
    m.ready.clear();
    m.over = true;
    m.whole = false;
    m.data.may_serve_now();
}

Served RoundExchange::serve(const Want& want) {
    return impl_->serve(want);
}

std::uint64_t RoundExchange::pieces_moved() const {
    return impl_->moved;
}

std::size_t RoundExchange::bytes_held() const {
    std::size_t bytes = impl_->inputs_bytes + (impl_->result ? impl_->result->bytes() : 0);
    for (const auto& piece : impl_->own) bytes += piece.size();
    return bytes;
}

}  // namespace isthmus::outer
