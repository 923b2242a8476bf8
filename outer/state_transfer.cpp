#include "outer/state_transfer.hpp"

#include <algorithm>
#include <cstring>

#include "base/check.hpp"
#include "base/record.hpp"

namespace isthmus::outer {

namespace {

/// Results kept for a joiner; one that is slower than this many rounds gets another copy.
constexpr std::size_t kMaxResults = 64;
/// Where chunk `index` of a copy lies: which of its three parts, and what of it.
struct ChunkPlace {
    int part = 0;  ///< 0 anchor, 1 momentum, 2 inner state
    std::size_t offset = 0, bytes = 0;
};

std::size_t chunks_of(std::uint64_t bytes) {
    return static_cast<std::size_t>((bytes + kCopyChunkBytes - 1) / kCopyChunkBytes);
}

std::size_t num_chunks(const CopyInfo& info) {
    return chunks_of(info.anchor_bytes) + chunks_of(info.momentum_bytes) +
           chunks_of(info.inner_bytes);
}

ChunkPlace place_of(const CopyInfo& info, std::size_t index) {
    const std::uint64_t sizes[3] = {info.anchor_bytes, info.momentum_bytes, info.inner_bytes};
    for (int part = 0; part < 3; ++part) {
        const std::size_t chunks = chunks_of(sizes[part]);
        if (index < chunks) {
            const std::size_t offset = index * kCopyChunkBytes;
            return {part, offset, std::min<std::size_t>(kCopyChunkBytes, sizes[part] - offset)};
        }
        index -= chunks;
    }
    CHECK(false, "no such chunk");
}

bool is_transfer_item(const Want& want) {
    return std::holds_alternative<ResultItem>(want.item) ||
           std::holds_alternative<CopyItem>(want.item);
}

std::span<std::byte> writable_bytes(std::vector<float>& values) {
    return std::as_writable_bytes(std::span(values));
}

}  // namespace

// ---- the donor's side ----

Donor::Donor(const FragmentLayout& layout) : layout_(layout) {}

void Donor::pin(const OuterState& state, std::int64_t step, std::vector<std::byte> inner_state) {
    Copy copy;
    copy.anchor.assign(state.anchor().begin(), state.anchor().end());
    copy.momentum.assign(state.momentum().begin(), state.momentum().end());
    copy.inner = std::move(inner_state);
    copy.info = {.state = state.name(),
                 .step = step,
                 .anchor_bytes = copy.anchor.size() * sizeof(float),
                 .momentum_bytes = copy.momentum.size() * sizeof(float),
                 .inner_bytes = copy.inner.size(),
                 .full_digest = state.full_digest()};
    copy.header = pack(copy.info);
    copy_ = std::move(copy);
}

void Donor::unpin() {
    copy_.reset();
    while (results_.size() > 1) results_.pop_front();
}

void Donor::committed(std::shared_ptr<const RoundResult> result) {
    results_.push_back(std::move(result));
    const std::size_t kept = copy_ ? kMaxResults : 1;
    while (results_.size() > kept) results_.pop_front();
}

Served Donor::serve(const Want& want) {
    if (const auto* r = std::get_if<ResultItem>(&want.item)) {
        const auto found = std::find_if(results_.begin(), results_.end(), [&](const auto& result) {
            return result->info().from == r->from;
        });
        if (found == results_.end()) return NoSuchItem{};
        const RoundResult& result = **found;
        if (want.index == kHeader) {
            result_header_ = pack(result.info());
            return std::span<const std::byte>(result_header_);
        }
        const std::uint32_t pieces = layout_.num_pieces();
        if (want.index >= result.num_parts() * pieces) return NoSuchItem{};
        return result.piece(want.index / pieces, want.index % pieces);
    }
    const auto& c = std::get<CopyItem>(want.item);
    if (!copy_ || !(copy_->info.state == c.state) || (c.moments && copy_->inner.empty()))
        return NoSuchItem{};
    if (want.index == kHeader) return std::span<const std::byte>(copy_->header);
    if (want.index >= num_chunks(copy_->info)) return NoSuchItem{};
    const ChunkPlace place = place_of(copy_->info, want.index);
    const std::span<const std::byte> parts[3] = {std::as_bytes(std::span(copy_->anchor)),
                                                 std::as_bytes(std::span(copy_->momentum)),
                                                 copy_->inner};
    return parts[place.part].subspan(place.offset, place.bytes);
}

std::size_t Donor::bytes_held() const {
    std::size_t bytes = 0;
    for (const auto& result : results_) bytes += result->bytes();
    if (copy_)
        bytes += copy_->info.anchor_bytes + copy_->info.momentum_bytes + copy_->info.inner_bytes;
    return bytes;
}

// ---- the joiner's side ----

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

    /// A copy, and what is here of it; stays when the donor is lost.
    struct CopyWork {
        Restore restore;
        std::optional<CopyInfo> info;
        std::vector<float> anchor, momentum;
        std::vector<std::byte> inner;
        std::vector<bool> have;
        std::size_t missing = 0;
    };
    std::optional<CopyWork> copy;
    bool copying = false;

    struct ResultWork {
        StateName from;
        std::vector<SiteId> holders;  ///< not asked yet, or asked now (the last)
        std::shared_ptr<RoundResult> result;
        std::vector<bool> have;
        std::size_t missing = 0;
    };
    std::optional<ResultWork> result;

    void fail(std::string reason) {
        copying = false;
        result.reset();
        data.forget(is_transfer_item);
        outcome = FetchFailed{std::move(reason)};
    }

    // ---- a copy ----

    void begin_copy(const Restore& restore) {
        data.forget(is_transfer_item);
        result.reset();
        const bool same = copy && copy->restore.state == restore.state;
        if (!same) copy.emplace();
        // Inner state is of one donor and one step: from another donor it is begun again.
        const bool other_donor =
            same && copy->info && restore.moments &&
            !(copy->restore.donors.front() == restore.donors.front() && copy->restore.moments);
        copy->restore = restore;
        copying = true;
        if (copy->info && !other_donor) return ask_chunks();
        ask_header();
    }

    SiteId donor() const { return copy->restore.donors.front().site; }
    CopyItem item(bool moments) const { return {copy->restore.state, moments}; }

    void ask_header() { data.ask(donor(), {item(copy->restore.moments), kHeader}, 256); }

    void take_header(const DataPlane::Arrived& a) {
        const auto info = unpack<CopyInfo>(a.bytes);
        const std::uint64_t anchor_bytes =
            static_cast<std::uint64_t>(state.layout().num_elements()) * sizeof(float);
        const std::uint64_t momentum_bytes =
            state.options().optimizer.has_momentum() ? anchor_bytes : 0;
        const auto inner_bytes =
            copy->restore.moments ? static_cast<std::uint64_t>(model.inner_state_bytes()) : 0;
        if (!info) return fail(info.error().message);
        if (info->anchor_bytes != anchor_bytes || info->momentum_bytes != momentum_bytes ||
            (copy->restore.moments && info->inner_bytes != inner_bytes)) {
            return fail(
                fmt::format("the donor's copy has {} + {} + {} bytes, this site needs {} + {} + {}",
                            info->anchor_bytes, info->momentum_bytes, info->inner_bytes,
                            anchor_bytes, momentum_bytes, inner_bytes));
        }
        CopyInfo wanted = *info;
        wanted.inner_bytes = inner_bytes;
        std::vector<bool> kept = std::move(copy->have);
        copy->anchor.resize(anchor_bytes / sizeof(float));
        copy->momentum.resize(momentum_bytes / sizeof(float));
        copy->inner.resize(inner_bytes);
        copy->info = wanted;
        copy->have.assign(num_chunks(wanted), false);
        const std::size_t outer_chunks = chunks_of(anchor_bytes) + chunks_of(momentum_bytes);
        for (std::size_t i = 0; i < std::min(kept.size(), outer_chunks); ++i)
            copy->have[i] = kept[i];
        ask_chunks();
    }

    void ask_chunks() {
        copy->missing = 0;
        for (std::size_t i = 0; i < copy->have.size(); ++i) {
            if (copy->have[i]) continue;
            ++copy->missing;
            const ChunkPlace place = place_of(*copy->info, i);
            const bool inner = place.part == 2;
            const auto& donors = copy->restore.donors;
            const SiteId from = inner ? donor() : donors[i % donors.size()].site;
            data.ask(from, {item(inner), static_cast<std::uint32_t>(i)}, place.bytes);
        }
        finish_copy();
    }

    void take_chunk(const DataPlane::Arrived& a) {
        const std::size_t i = a.want.index;
        if (i >= copy->have.size() || copy->have[i]) return;
        const ChunkPlace place = place_of(*copy->info, i);
        if (a.bytes.size() != place.bytes) return lose_donor(a.from, "a chunk of another size");
        const std::span<std::byte> parts[3] = {writable_bytes(copy->anchor),
                                               writable_bytes(copy->momentum), copy->inner};
        std::copy(a.bytes.begin(), a.bytes.end(),
                  parts[place.part].begin() + static_cast<std::ptrdiff_t>(place.offset));
        copy->have[i] = true;
        --copy->missing;
        finish_copy();
    }

    void finish_copy() {
        if (!copying || copy->missing > 0) return;
        if (full_digest(state.layout(), copy->anchor, copy->momentum) != copy->info->full_digest) {
            copy.reset();
            return fail("the copy's digest is not what the donor said");
        }
        state.replace(copy->restore.state, std::move(copy->anchor), std::move(copy->momentum),
                      model);
        if (copy->restore.moments) model.write_inner_state(copy->inner);
        outcome = Fetched{.state = state.name(), .moments = copy->restore.moments};
        copying = false;
        copy.reset();
    }

    /// Goes on with another donor, at the same place.
    void lose_donor(SiteId site, const std::string& why) {
        auto& donors = copy->restore.donors;
        const bool first = donor() == site;
        std::erase_if(donors, [&](const PeerInfo& d) { return d.site == site; });
        if (donors.empty() || (first && copy->restore.moments)) {
            return fail(fmt::format("donor {} is lost ({})", site.value, why));
        }
        data.forget(is_transfer_item);
        if (copy->info) return ask_chunks();
        ask_header();
    }

    // ---- one result ----

    void begin_result(const StateName& from, std::vector<SiteId> holders) {
        data.forget(is_transfer_item);
        copying = false;
        result.emplace();
        result->from = from;
        result->holders = std::move(holders);
        ask_result_header();
    }

    void ask_result_header() {
        if (result->holders.empty()) return fail("nobody holds the result that is needed");
        data.ask(result->holders.back(), {ResultItem{result->from}, kHeader}, 256);
    }

    void next_holder() {
        data.forget(is_transfer_item);
        if (!result->holders.empty()) result->holders.pop_back();
        result->result.reset();
        ask_result_header();
    }

    void take_result_header(const DataPlane::Arrived& a) {
        auto info = unpack<ResultInfo>(a.bytes);
        const bool fits = info && check(*info) && info->from == result->from &&
                          info->to.round.value == result->from.round.value + 1 &&
                          info->optimizer == state.options().optimizer &&
                          (info->method == Method::kSolo || info->codec == state.options().codec);
        if (!fits) return next_holder();
        result->result = std::make_shared<RoundResult>(state.layout(), std::move(*info));
        const std::uint32_t pieces = state.layout().num_pieces();
        result->have.assign(result->result->num_parts() * pieces, false);
        result->missing = result->have.size();
        for (std::uint32_t i = 0; i < result->have.size(); ++i) {
            data.ask(a.from, {ResultItem{result->from}, i},
                     result->result->piece(i / pieces, i % pieces).size());
        }
        finish_result();
    }

    void take_result_piece(const DataPlane::Arrived& a) {
        const std::uint32_t i = a.want.index;
        const std::uint32_t pieces = state.layout().num_pieces();
        if (!result->result || i >= result->have.size() || result->have[i]) return;
        const auto to = result->result->piece(i / pieces, i % pieces);
        if (a.bytes.size() != to.size()) return next_holder();
        std::copy(a.bytes.begin(), a.bytes.end(), to.begin());
        result->have[i] = true;
        --result->missing;
        finish_result();
    }

    void finish_result() {
        if (result->missing > 0) return;
        std::vector<StateHash> digests;
        for (std::uint32_t i = 0; i < state.layout().num_pieces(); ++i) {
            digests.push_back(result->result->piece_digest(i));
        }
        const ResultInfo& info = result->result->info();
        const StateHash hash =
            chained_hash(info.from.hash, result->result->digest(digests), info.optimizer);
        if (hash != info.to.hash) return next_holder();
        // Not one of the contributors: what this site left out of its own encoding is not in it.
        state.apply(*result->result, SiteId(0xfffffffeu), model);
        done_result = result->result;
        result.reset();
        outcome = Fetched{.state = state.name(), .moments = false};
    }

    void take(const DataPlane::Arrived& a) {
        ++moved;
        if (const auto* c = std::get_if<CopyItem>(&a.want.item)) {
            if (!copying || !(c->state == copy->restore.state)) return;
            if (!a.found) return lose_donor(a.from, "it has the copy no more");
            return a.want.index == kHeader ? take_header(a) : take_chunk(a);
        }
        if (!result || !(std::get<ResultItem>(a.want.item).from == result->from)) return;
        if (!a.found) return next_holder();
        a.want.index == kHeader ? take_result_header(a) : take_result_piece(a);
    }

    void look_for_silence(TimePoint now) {
        if (!copying && !result) return;
        for (SiteId site : data.silent_peers(now, peer_silence)) {
            if (copying && std::any_of(copy->restore.donors.begin(), copy->restore.donors.end(),
                                       [&](const PeerInfo& d) { return d.site == site; })) {
                lose_donor(site, "nothing comes from it");
            } else if (result && !result->holders.empty() && result->holders.back() == site) {
                next_holder();
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
    impl_->copying = false;
    impl_->result.reset();
    impl_->data.forget(is_transfer_item);
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
