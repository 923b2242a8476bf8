#include <algorithm>
#include <array>

#include "base/record.hpp"
#include "outer/copy_chunks.hpp"
#include "outer/state_transfer.hpp"

namespace isthmus::outer {

namespace {

/// Results kept for a joiner; one that is slower than this many rounds gets another copy.
constexpr std::size_t kMaxResults = 64;

}  // namespace

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
    if (!copy_ || !(copy_->info.state == c.state)) return NoSuchItem{};
    if (want.index == kHeader) return std::span<const std::byte>(copy_->header);
    if (want.index >= num_chunks(copy_->info)) return NoSuchItem{};
    const ChunkPlace place = place_of(copy_->info, want.index);
    const std::array<std::span<const std::byte>, 3> parts{std::as_bytes(std::span(copy_->anchor)),
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

}  // namespace isthmus::outer
