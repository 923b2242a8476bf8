// Inside of exchange.hpp: one attempt's bookkeeping (exchange.cpp) and its arithmetic
// (exchange_sum.cpp).
#pragma once

#include <deque>
#include <map>

#include "outer/exchange.hpp"

namespace isthmus::outer {

using Pieces = std::vector<std::vector<std::byte>>;

struct RoundExchange::Impl {
    Impl(const OuterState& s, ModelPort& m, DataPlane& d, const Options& o)
        : state(s), model(m), data(d), options(o), layout(s.layout()) {}

    const OuterState& state;
    ModelPort& model;
    DataPlane& data;
    Options options;
    const FragmentLayout& layout;

    std::optional<CutId> cut;
    Pieces own;  ///< encoded input; empty: not encoded yet
    std::uint32_t encoded_up_to = 0;
    std::map<CutId, Pieces> inputs;  ///< others', for pieces that this site sums
    std::size_t inputs_bytes = 0;

    std::optional<Begin> begin;
    std::optional<Attempt> newest;  ///< begun here
    SiteId self;
    TimePoint began{};
    std::vector<Participant> contributors;  ///< of weight > 0
    std::vector<std::uint32_t> owner;       ///< by piece, index of participant; kOwners only
    std::shared_ptr<RoundResult> result;
    std::vector<bool> have;  ///< by piece of the result
    std::vector<StateHash> digests;
    std::vector<std::uint32_t> missing_inputs;  ///< by piece that this site sums
    std::deque<std::uint32_t> ready;            ///< pieces that can be summed now
    std::vector<double> squares;                ///< by contributor and piece
    std::uint32_t complete = 0;
    bool over = true;    ///< the attempt has its outcome
    bool whole = false;  ///< ... and it is a result
    std::optional<SiteEvent> outcome;
    std::uint64_t moved = 0;
    std::vector<float> sum, scratch;

    std::uint32_t num_pieces() const { return layout.num_pieces(); }
    std::size_t piece_bytes(std::uint32_t i) const {
        return encoded_bytes(state.options().codec, layout.piece(i).count);
    }

    // ---- an attempt ----

    std::span<const std::byte> own_piece(std::uint32_t i);
    void start(const Begin& b, SiteId me, TimePoint now);
    /// Whose job it is to sum a piece: everyone's own in an all-gather, its owner's otherwise.
    void deal();
    bool is_mine(std::uint32_t i) const;
    /// Whether the attempt needs a piece of this cut here.
    bool needs(const CutId& id, std::uint32_t i) const;
    /// The result of an all-gather holds the inputs: what came for the attempt before is taken out
    /// of it.
    void keep_gathered_inputs(const Begin& next);
    void keep_input(const CutId& id, std::uint32_t i, std::vector<std::byte> bytes);
    void forget_input(Pieces& pieces, std::uint32_t i);
    /// Wants and inputs of an attempt before that this one has no use for. Those that it has stay,
    /// so that nothing travels twice.
    void drop_what_is_not_needed();
    std::span<const std::byte> input(const CutId& id, std::uint32_t i) const;
    void look_for_ready_pieces();
    /// Inputs first, then means, in the order of pieces: while means are awaited inputs travel.
    void ask();
    void take(DataPlane::Arrived& a);
    /// Also after the attempt failed: the next one needs it too.
    void take_input(const CutId& id, std::uint32_t i, std::vector<std::byte> bytes);
    void take_mean(std::uint32_t i, std::span<const std::byte> bytes);
    /// A new attempt gives everyone its time, whatever went before.
    void look_for_silence(TimePoint now);
    Served serve(const Want& want);

    // ---- arithmetic ----

    std::span<const float> decoded(std::uint32_t i, std::span<const std::byte> bytes);
    /// One piece whose inputs are all here. False: there is none.
    bool work();
    /// False: not finite, and the attempt has failed.
    bool note_input(std::size_t contributor, std::uint32_t i, std::span<const float> values);
    bool copy_local(std::uint32_t i);
    bool gather(std::uint32_t i);
    /// The mean is formed when it is applied; here only if its sum could overflow, which `bound`
    /// rules out for anything that is like training.
    bool mean_is_finite(std::uint32_t i, double bound);
    bool sum_inputs(std::uint32_t i);
    void complete_piece(std::uint32_t i);
    std::vector<InputReport> reports() const;
    void fail(std::vector<SiteId> missing, std::string why = {});
    void finish_if_complete();
};

}  // namespace isthmus::outer
