#include "outer/state_transfer.hpp"

#include <algorithm>
#include <array>

#include "base/check.hpp"
#include "base/record.hpp"
#include "outer/copy_chunks.hpp"
#include "outer/outer_step.hpp"

namespace isthmus::outer {

namespace {

/// A result of more sites than this is not believed.
constexpr std::size_t kMaxSites = 4096;
/// Of a header's answer, for the window.
constexpr std::size_t kHeaderBytes = 256;
/// No site: the results fetched here count no input of this one's. Had it contributed, what it left
/// out of its encoding would be gone with the cut (PROTOCOL 13: a discarded cut leaves e).
constexpr SiteId kNobody{0xfffffffeu};

bool is_transfer_item(const Want& want) {
    return std::holds_alternative<ResultItem>(want.item) ||
           std::holds_alternative<CopyItem>(want.item);
}

/// A copy, and what is here of it; stays when the donor is lost.
struct CopyWork {
    Restore restore;
    std::optional<CopyInfo> info;  ///< of the donor with the moments
    std::optional<SiteId> inner_from;
    std::vector<float> anchor, momentum;
    std::vector<std::byte> inner;
    std::vector<bool> have;
    std::size_t missing = 0;

    SiteId donor() const { return restore.donors.front().site; }
    bool has_donor(SiteId site) const {
        return std::any_of(restore.donors.begin(), restore.donors.end(),
                           [&](const PeerInfo& d) { return d.site == site; });
    }
    /// Room for what the description says, with what is here already and belongs to it.
    void prepare(const CopyInfo& next) {
        std::vector<bool> kept = std::move(have);
        std::size_t valid = 0;
        if (info && info->full_digest == next.full_digest) {
            const bool inner_too = inner_from == donor() && info->step == next.step &&
                                   info->inner_bytes == next.inner_bytes;
            valid = inner_too ? kept.size() : num_outer_chunks(next);
        }
        have.assign(num_chunks(next), false);
        for (std::size_t i = 0; i < std::min(valid, have.size()); ++i) have[i] = kept[i];
        anchor.resize(next.anchor_bytes / sizeof(float));
        momentum.resize(next.momentum_bytes / sizeof(float));
        inner.resize(next.inner_bytes);
        inner_from = donor();
        info = next;
    }
    void put(std::size_t chunk, const ChunkPlace& place, std::span<const std::byte> bytes) {
        const std::array<std::span<std::byte>, 3> parts{std::as_writable_bytes(std::span(anchor)),
                                                        std::as_writable_bytes(std::span(momentum)),
                                                        inner};
        std::copy(bytes.begin(), bytes.end(),
                  parts[place.part].begin() + static_cast<std::ptrdiff_t>(place.offset));
        have[chunk] = true;
        --missing;
    }
};

/// A result on its way. One holder is asked at a time.
struct ResultWork {
    StateName from;
    std::vector<SiteId> holders;  ///< the last one is asked, the others not yet
    std::shared_ptr<RoundResult> result;
    std::vector<bool> have;                ///< by part and piece
    std::vector<std::size_t> parts_here;   ///< by piece
    std::vector<StateHash> piece_digests;  ///< of pieces of which all parts are here
    std::size_t missing = 0;
};

}  // namespace

struct StateFetch::Impl {
    Impl(OuterState& s, ModelPort& m, DataPlane& d, std::chrono::milliseconds silence)
        : state(s), model(m), data(d), peer_silence(silence) {}

    OuterState& state;
    ModelPort& model;
    DataPlane& data;
    std::chrono::milliseconds peer_silence;
    std::optional<SiteEvent> outcome;
    std::shared_ptr<const RoundResult> done_result;
    std::uint64_t moved = 0;
    std::optional<CopyWork> copy;
    bool copying = false;
    std::optional<ResultWork> result;

    void stop() {
        copying = false;
        result.reset();
        outcome.reset();
        data.forget(is_transfer_item);
    }

    void fail(std::string reason) {
        stop();
        outcome = FetchFailed{std::move(reason)};
    }

    // ---- a copy ----

    void begin_copy(const Restore& restore) {
        stop();
        if (restore.donors.empty()) return fail("no donor is named");
        if (!copy || !(copy->restore.state == restore.state)) copy.emplace();
        copy->restore = restore;
        copying = true;
        ask_header();
    }

    CopyItem item(bool moments) const { return {copy->restore.state, moments}; }

    void ask_header() {
        data.ask(copy->donor(), {item(copy->restore.moments), kHeader}, kHeaderBytes);
    }

    void take_header(const DataPlane::Arrived& a) {
        if (a.from != copy->donor()) return;
        auto info = unpack<CopyInfo>(a.bytes);
        if (!info) return lose_donor(a.from, info.error().message);
        const auto elements = static_cast<std::uint64_t>(state.layout().num_elements());
        const std::uint64_t anchor_bytes = elements * sizeof(float);
        const std::uint64_t momentum_bytes =
            state.options().optimizer.has_momentum() ? anchor_bytes : 0;
        std::uint64_t inner_bytes = 0;
        if (copy->restore.moments) {
            inner_bytes = static_cast<std::uint64_t>(model.inner_state_bytes());
        } else {
            info->inner_bytes = 0;  // there may be some; they are not asked for
        }
        if (info->state != copy->restore.state)
            return lose_donor(a.from, "its copy is of another state");
        if (info->anchor_bytes != anchor_bytes || info->momentum_bytes != momentum_bytes ||
            info->inner_bytes != inner_bytes) {
            return fail(
                fmt::format("the copy of donor {} has {} + {} + {} bytes, this site needs "
                            "{} + {} + {}",
                            a.from.value, info->anchor_bytes, info->momentum_bytes,
                            info->inner_bytes, anchor_bytes, momentum_bytes, inner_bytes));
        }
        copy->prepare(*info);
        ask_chunks();
    }

    /// Outer state from all donors, inner state from the first.
    void ask_chunks() {
        copy->missing = 0;
        const auto& donors = copy->restore.donors;
        for (std::size_t i = 0; i < copy->have.size(); ++i) {
            if (copy->have[i]) continue;
            ++copy->missing;
            const bool inner = i >= num_outer_chunks(*copy->info);
            data.ask(inner ? copy->donor() : donors[i % donors.size()].site,
                     {item(inner), static_cast<std::uint32_t>(i)}, place_of(*copy->info, i).bytes);
        }
        finish_copy();
    }

    void take_chunk(const DataPlane::Arrived& a) {
        const std::size_t i = a.want.index;
        if (i >= copy->have.size() || copy->have[i]) return;
        const ChunkPlace place = place_of(*copy->info, i);
        if (a.bytes.size() != place.bytes) return lose_donor(a.from, "a chunk of another size");
        copy->put(i, place, a.bytes);
        finish_copy();
    }

    void finish_copy() {
        if (copy->missing > 0) return;
        if (full_digest(state.layout(), copy->anchor, copy->momentum) != copy->info->full_digest) {
            copy.reset();
            return fail("the copy's digest is not what the donor said");
        }
        CopyWork whole = std::move(*copy);
        copy.reset();
        stop();
        if (whole.restore.moments) model.write_inner_state(whole.inner);
        state.replace(whole.restore.state, std::move(whole.anchor), std::move(whole.momentum),
                      model);
        outcome = Fetched{.state = state.name(), .moments = whole.restore.moments};
    }

    /// Goes on with the others, at the same place. The moments are the first one's alone: without
    /// it the coordinator names another.
    void lose_donor(SiteId site, const std::string& why) {
        if (!copy->has_donor(site)) return;
        const bool first = copy->donor() == site;
        auto& donors = copy->restore.donors;
        std::erase_if(donors, [&](const PeerInfo& d) { return d.site == site; });
        if (donors.empty() || (first && copy->restore.moments))
            return fail(fmt::format("donor {} is lost: {}", site.value, why));
        data.forget(is_transfer_item);
        if (first || !copy->info) return ask_header();
        ask_chunks();
    }

    // ---- one result ----

    void begin_result(const StateName& from, std::vector<SiteId> holders) {
        stop();
        result.emplace();
        result->from = from;
        result->holders = std::move(holders);
        if (!(from == state.name())) return fail("the result does not follow on this site's state");
        ask_result_header();
    }

    void ask_result_header() {
        if (result->holders.empty()) return fail("nobody holds the result that is needed");
        data.ask(result->holders.back(), {ResultItem{result->from}, kHeader}, kHeaderBytes);
    }

    void leave_holder(SiteId site) {
        if (result->holders.empty() || result->holders.back() != site) return;
        data.forget(is_transfer_item);
        result->holders.pop_back();
        result->result.reset();
        ask_result_header();
    }

    /// Nothing is allocated from a description that apply() could not take.
    bool fits(const ResultInfo& info) const {
        return check(info) && info.from == result->from && info.sites.size() <= kMaxSites &&
               info.to.lineage == info.from.lineage &&
               info.to.round.value == info.from.round.value + 1 &&
               info.optimizer == state.options().optimizer;
    }

    void take_result_header(const DataPlane::Arrived& a) {
        auto info = unpack<ResultInfo>(a.bytes);
        if (!info || !fits(*info)) return leave_holder(a.from);
        ResultWork& r = *result;
        r.result = std::make_shared<RoundResult>(state.layout(), std::move(*info));
        const std::uint32_t pieces = state.layout().num_pieces();
        r.have.assign(r.result->num_parts() * pieces, false);
        r.parts_here.assign(pieces, 0);
        r.piece_digests.assign(pieces, {});
        r.missing = r.have.size();
        for (std::uint32_t piece = 0; piece < pieces; ++piece) {
            for (std::uint32_t part = 0; part < r.result->num_parts(); ++part) {
                data.ask(a.from, {ResultItem{r.from}, part * pieces + piece},
                         r.result->piece(part, piece).size());
            }
        }
        finish_result(a.from);
    }

    void take_result_piece(const DataPlane::Arrived& a) {
        ResultWork& r = *result;
        const std::uint32_t i = a.want.index;
        const std::uint32_t pieces = state.layout().num_pieces();
        if (!r.result || i >= r.have.size() || r.have[i]) return;
        const auto to = r.result->piece(i / pieces, i % pieces);
        if (a.bytes.size() != to.size()) return leave_holder(a.from);
        std::copy(a.bytes.begin(), a.bytes.end(), to.begin());
        r.have[i] = true;
        --r.missing;
        if (++r.parts_here[i % pieces] == r.result->num_parts())
            r.piece_digests[i % pieces] = r.result->piece_digest(i % pieces);
        finish_result(a.from);
    }

    void finish_result(SiteId holder) {
        if (result->missing > 0) return;
        const RoundResult& whole = *result->result;
        const ResultInfo& info = whole.info();
        const StateHash digest = whole.digest(result->piece_digests);
        if (chained_hash(info.from.hash, digest, info.optimizer) != info.to.hash)
            return leave_holder(holder);
        state.apply(whole, kNobody, model);
        auto here = std::move(result->result);
        stop();
        done_result = std::move(here);
        outcome = Fetched{.state = state.name(), .moments = false};
    }

    // ---- what comes, and what does not ----

    void take(const DataPlane::Arrived& a) {
        ++moved;
        if (const auto* c = std::get_if<CopyItem>(&a.want.item)) {
            if (!copying || !(c->state == copy->restore.state)) return;
            if (!a.found) return lose_donor(a.from, "it does not have this copy");
            return a.want.index == kHeader ? take_header(a) : take_chunk(a);
        }
        if (!result || !(std::get<ResultItem>(a.want.item).from == result->from) ||
            result->holders.empty() || result->holders.back() != a.from)
            return;
        if (!a.found) return leave_holder(a.from);
        a.want.index == kHeader ? take_result_header(a) : take_result_piece(a);
    }

    void look_for_silence(TimePoint now) {
        if (!copying && !result) return;
        for (SiteId site : data.silent_peers(now, peer_silence)) {
            if (copying) {
                lose_donor(site, "nothing comes from it");
            } else if (result) {
                leave_holder(site);
            }
        }
    }
};

StateFetch::StateFetch(OuterState& state, ModelPort& model, DataPlane& data,
                       std::chrono::milliseconds peer_silence)
    : impl_(std::make_unique<Impl>(state, model, data, peer_silence)) {}
StateFetch::~StateFetch() = default;

void StateFetch::fetch_copy(const Restore& restore, TimePoint) {
    impl_->begin_copy(restore);
}

void StateFetch::fetch_result(const StateName& from, std::vector<SiteId> holders, SiteId self,
                              TimePoint) {
    std::erase(holders, self);
    impl_->begin_result(from, std::move(holders));
}

void StateFetch::stop() {
    impl_->stop();
}

std::vector<DataPlane::Arrived> StateFetch::pump(std::vector<DataPlane::Arrived> arrived,
                                                 TimePoint now) {
    std::vector<DataPlane::Arrived> others;
    for (DataPlane::Arrived& a : arrived) {
        if (is_transfer_item(a.want)) {
            impl_->take(a);
        } else {
            others.push_back(std::move(a));
        }
    }
    impl_->look_for_silence(now);
    return others;
}

std::optional<SiteEvent> StateFetch::take_outcome() {
    return std::exchange(impl_->outcome, {});
}

std::shared_ptr<const RoundResult> StateFetch::take_result() {
    return std::exchange(impl_->done_result, {});
}

std::uint64_t StateFetch::chunks_moved() const {
    return impl_->moved;
}

}  // namespace isthmus::outer
