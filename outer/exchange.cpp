#include "outer/exchange.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/check.hpp"
#include "outer/outer_step.hpp"

namespace isthmus::outer {

std::vector<std::uint32_t> deal_pieces(const std::vector<float>& shares, std::uint32_t num_pieces) {
    CHECK(!shares.empty());
    // Each piece goes to whoever is furthest behind its share of the pieces dealt so far.
    std::vector<std::uint32_t> owners(num_pieces);
    std::vector<double> dealt(shares.size(), 0.0);
    for (std::uint32_t i = 0; i < num_pieces; ++i) {
        std::size_t best = 0;
        double most = -1e300;
        for (std::size_t k = 0; k < shares.size(); ++k) {
            const double behind = static_cast<double>(shares[k]) * (i + 1.0) - dealt[k];
            if (shares[k] > 0 && behind > most + 1e-9) {
                most = behind;
                best = k;
            }
        }
        owners[i] = static_cast<std::uint32_t>(best);
        dealt[best] += 1.0;
    }
    return owners;
}

namespace {

using Pieces = std::vector<std::vector<std::byte>>;

bool is_round_item(const Want& want) {
    return std::holds_alternative<CutItem>(want.item) ||
           std::holds_alternative<MeanItem>(want.item);
}

}  // namespace

struct RoundExchange::Impl {
    Impl(const OuterState& s, ModelPort& m, DataPlane& d, const Options& o)
        : state(s), model(m), data(d), options(o), layout(s.layout()) {}

    const OuterState& state;
    ModelPort& model;
    DataPlane& data;
    Options options;
    const FragmentLayout& layout;

    std::optional<CutId> cut;
    SiteId self;
    Pieces own;  ///< encoded input; empty: not encoded yet
    std::uint32_t encoded_up_to = 0;
    std::map<CutId, Pieces> inputs;  ///< others', kept for a new attempt
    std::size_t inputs_bytes = 0;

    std::optional<Begin> begin;
    std::vector<Participant> contributors;  ///< of weight > 0
    std::vector<float> weights;
    std::vector<std::uint32_t> owner;  ///< by piece, index of participant
    std::shared_ptr<RoundResult> result;
    std::vector<bool> have;  ///< by piece of the result
    std::vector<StateHash> digests;
    std::vector<std::uint32_t> missing_inputs;  ///< by piece that this site sums
    std::vector<InputReport> reports;
    std::uint32_t complete = 0;
    std::optional<SiteEvent> outcome;
    bool over = true;  ///< the attempt has its outcome
    std::uint64_t moved = 0;
    std::vector<float> sum, scratch;

    std::size_t piece_bytes(std::uint32_t i) const {
        return encoded_bytes(state.options().codec, layout.piece(i).count);
    }

    std::span<const std::byte> own_piece(std::uint32_t i) {
        if (own[i].empty()) {
            own[i].resize(piece_bytes(i));
            state.encode_input(i, cut->site, model, own[i]);
        }
        return own[i];
    }

    // ---- an attempt begins ----

    void start(const Begin& b, SiteId me, TimePoint) {
        CHECK(cut, "an exchange without a cut");
        data.forget(is_round_item);
        begin = b;
        self = me;
        over = false;
        outcome.reset();
        complete = 0;
        contributors.clear();
        weights.clear();
        reports.clear();
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
            contributors.push_back(p);
            weights.push_back(p.weight);
            info.sites.push_back(p.peer.site);
            info.weights.push_back(p.weight);
            reports.push_back({.site = p.peer.site, .finite = true, .sum_of_squares = 0});
        }
        result = std::make_shared<RoundResult>(layout, std::move(info));
        have.assign(layout.num_pieces(), false);
        digests.assign(layout.num_pieces(), {});
        keep_only_inputs_of_participants();
        if (b.method == Method::kSolo) return solo();
        deal();
        ask();
        sum_what_is_here();
        data.may_serve_now();
        finish_if_complete();
    }

    void keep_only_inputs_of_participants() {
        std::erase_if(inputs, [&](const auto& entry) {
            return std::none_of(contributors.begin(), contributors.end(),
                                [&](const Participant& p) { return p.cut == entry.first; });
        });
        inputs_bytes = 0;
        for (const auto& [id, pieces] : inputs) {
            for (const auto& piece : pieces) inputs_bytes += piece.size();
        }
    }

    void solo() {
        for (std::uint32_t i = 0; i < layout.num_pieces(); ++i) {
            const Piece& p = layout.piece(i);
            scratch.resize(static_cast<std::size_t>(p.count));
            model.read(FragmentId(0), p.offset, scratch);
            note_input(0, scratch);
            const auto bytes = std::as_bytes(std::span(scratch));
            std::copy(bytes.begin(), bytes.end(), result->piece(0, i).begin());
            complete_piece(i);
        }
        fail_if_not_finite();
        finish_if_complete();
    }

    /// Whose job it is to sum a piece: everyone's own in an all-gather, its owner's otherwise.
    void deal() {
        std::vector<float> shares;
        for (const Participant& p : begin->participants) shares.push_back(p.share);
        if (begin->method == Method::kOwners) owner = deal_pieces(shares, layout.num_pieces());
        missing_inputs.assign(layout.num_pieces(), 0);
        for (std::uint32_t i = 0; i < layout.num_pieces(); ++i) {
            if (!is_mine(i)) continue;
            for (const Participant& p : contributors) {
                if (p.peer.site != self && input(p.cut, i).empty()) ++missing_inputs[i];
            }
        }
    }

    bool is_mine(std::uint32_t i) const {
        return begin->method == Method::kAllGather ||
               begin->participants[owner[i]].peer.site == self;
    }

    std::span<const std::byte> input(const CutId& id, std::uint32_t i) const {
        const auto found = inputs.find(id);
        if (found == inputs.end()) return {};
        return found->second[i];
    }

    void ask() {
        for (std::uint32_t i = 0; i < layout.num_pieces(); ++i) {
            if (!is_mine(i)) continue;
            for (const Participant& p : contributors) {
                if (p.peer.site == self || !input(p.cut, i).empty()) continue;
                data.ask(p.peer.site, {CutItem{p.cut}, i}, piece_bytes(i));
            }
        }
        if (begin->method != Method::kOwners) return;
        for (std::uint32_t i = 0; i < layout.num_pieces(); ++i) {
            if (!is_mine(i))
                data.ask(begin->participants[owner[i]].peer.site, {MeanItem{begin->attempt}, i},
                         piece_bytes(i));
        }
    }

    void sum_what_is_here() {
        for (std::uint32_t i = 0; i < layout.num_pieces() && !over; ++i) {
            if (is_mine(i) && missing_inputs[i] == 0) sum_piece(i);
        }
    }

    // ---- pieces come ----

    void note_input(std::size_t contributor, std::span<const float> values) {
        const double squares = sum_of_squares(values);
        reports[contributor].sum_of_squares += squares;
        if (!std::isfinite(squares)) reports[contributor].finite = false;
    }

    void sum_piece(std::uint32_t i) {
        const Piece& p = layout.piece(i);
        const auto n = static_cast<std::size_t>(p.count);
        const bool owners = begin->method == Method::kOwners;
        scratch.resize(n);
        if (owners) sum.assign(n, 0.0f);
        for (std::size_t k = 0; k < contributors.size(); ++k) {
            const bool mine = contributors[k].peer.site == self;
            const auto bytes = mine ? own_piece(i) : input(contributors[k].cut, i);
            decode(begin->codec, bytes, scratch);
            note_input(k, scratch);
            if (owners) {
                accumulate(sum, weights[k], scratch);
            } else {
                std::copy(bytes.begin(), bytes.end(), result->piece(k, i).begin());
            }
        }
        if (fail_if_not_finite()) return;
        if (owners) {
            divide(sum, total_weight(weights));
            encode(begin->codec, sum,
                   rounding_key(begin->seed, begin->from.round, FragmentId(0), kMeanSite), p.offset,
                   result->piece(0, i));
            data.may_serve_now();
            forget_inputs_beyond_the_limit(i);
        }
        complete_piece(i);
    }

    /// Beyond the cache's size inputs are asked for again if there is another attempt.
    void forget_inputs_beyond_the_limit(std::uint32_t i) {
        if (inputs_bytes <= options.cache_bytes) return;
        for (auto& [id, pieces] : inputs) {
            inputs_bytes -= pieces[i].size();
            pieces[i] = {};
        }
    }

    void complete_piece(std::uint32_t i) {
        CHECK(!have[i]);
        have[i] = true;
        digests[i] = result->piece_digest(i);
        ++complete;
    }

    bool fail_if_not_finite() {
        if (over) return true;
        if (std::all_of(reports.begin(), reports.end(),
                        [](const InputReport& r) { return r.finite; }))
            return false;
        fail({});
        return true;
    }

    void fail(std::vector<SiteId> missing) {
        over = true;
        outcome = ExchangeFailed{
            .attempt = begin->attempt, .missing = std::move(missing), .inputs = reports};
    }

    void finish_if_complete() {
        if (over || complete < layout.num_pieces()) return;
        over = true;
        ResultInfo& info = result->info();
        info.to.hash = chained_hash(begin->from.hash, result->digest(digests), begin->optimizer);
        outcome = Exchanged{.attempt = begin->attempt, .result = info.to.hash, .inputs = reports};
    }

    void take(DataPlane::Arrived& a) {
        if (over) return;
        ++moved;
        if (!a.found) return fail({a.from});
        const std::uint32_t i = a.want.index;
        if (i >= layout.num_pieces() || a.bytes.size() != piece_bytes(i)) return fail({a.from});
        if (const auto* c = std::get_if<CutItem>(&a.want.item)) {
            auto& pieces = inputs[c->cut];
            pieces.resize(layout.num_pieces());
            if (!pieces[i].empty() || !is_mine(i)) return;
            inputs_bytes += a.bytes.size();
            pieces[i] = std::move(a.bytes);
            if (--missing_inputs[i] == 0) sum_piece(i);
        } else if (std::get<MeanItem>(a.want.item).attempt == begin->attempt && !have[i]) {
            std::copy(a.bytes.begin(), a.bytes.end(), result->piece(0, i).begin());
            complete_piece(i);
        }
        finish_if_complete();
    }

    Served serve(const Want& want) {
        if (want.index >= layout.num_pieces()) return NoSuchItem{};
        if (const auto* c = std::get_if<CutItem>(&want.item)) {
            if (!cut || c->cut != *cut) return NoSuchItem{};
            return own_piece(want.index);
        }
        const Attempt& attempt = std::get<MeanItem>(want.item).attempt;
        if (!begin || begin->attempt < attempt) return NotYet{};
        if (begin->attempt != attempt || begin->method != Method::kOwners || !is_mine(want.index))
            return NoSuchItem{};
        if (!have[want.index]) return NotYet{};
        return std::as_const(*result).piece(0, want.index);
    }
};

RoundExchange::RoundExchange(const OuterState& state, ModelPort& model, DataPlane& data,
                             const Options& options)
    : impl_(std::make_unique<Impl>(state, model, data, options)) {}
RoundExchange::~RoundExchange() = default;

void RoundExchange::offer(const CutId& cut) {
    discard();
    impl_->cut = cut;
    impl_->own.assign(impl_->layout.num_pieces(), {});
}

bool RoundExchange::encode_ahead() {
    Impl& m = *impl_;
    if (!m.cut) return false;
    while (m.encoded_up_to < m.layout.num_pieces() && !m.own[m.encoded_up_to].empty())
        ++m.encoded_up_to;
    if (m.encoded_up_to == m.layout.num_pieces()) return false;
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
    if (!impl_->over) {
        std::vector<SiteId> missing;
        for (SiteId site : impl_->data.silent_peers(now, impl_->options.peer_silence)) {
            for (const Participant& p : impl_->begin->participants) {
                if (p.peer.site == site) missing.push_back(site);
            }
        }
        if (!missing.empty()) impl_->fail(std::move(missing));
    }
    return others;
}

std::optional<SiteEvent> RoundExchange::take_outcome() {
    return std::exchange(impl_->outcome, {});
}

std::shared_ptr<const RoundResult> RoundExchange::staged(const Attempt& attempt) const {
    const Impl& m = *impl_;
    const bool whole =
        m.begin && m.begin->attempt == attempt && m.complete == m.layout.num_pieces();
    return whole ? m.result : nullptr;
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
    m.over = true;
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
