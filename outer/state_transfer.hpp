// How a site that comes late, or comes back, gets the state: a copy from a donor in chunks, then
// the results of the rounds committed since, from anyone who holds them (PROTOCOL 19).
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "outer/data_plane.hpp"
#include "outer/outer_state.hpp"
#include "outer/round_result.hpp"
#include "outer/site.hpp"

namespace isthmus::outer {

inline constexpr std::size_t kCopyChunkBytes = 256 << 10;

/// In front of a copy's chunks.
struct CopyInfo {
    StateName state;
    std::int64_t step = 0;
    std::uint64_t anchor_bytes = 0, momentum_bytes = 0, inner_bytes = 0;
    StateHash full_digest{};  ///< of anchor and momentum
    template <class A>
    void serialize(A& a) {
        a(state, step, anchor_bytes, momentum_bytes, inner_bytes, full_digest);
    }
};

/// The donor's side: at most one copy, and the results that came after it.
class Donor {
  public:
    explicit Donor(const FragmentLayout&);
    /// Copies the outer state; `inner_state` empty: none.
    void pin(const OuterState&, std::int64_t step, std::vector<std::byte> inner_state);
    void unpin();
    bool pinned() const { return copy_.has_value(); }
    /// Every committed result passes here: the newest is kept for who missed it, all since the copy
    /// while one is pinned.
    void committed(std::shared_ptr<const RoundResult>);
    /// Serves ResultItem and CopyItem.
    Served serve(const Want&);
    std::size_t bytes_held() const;

  private:
    struct Copy {
        CopyInfo info;
        std::vector<float> anchor, momentum;
        std::vector<std::byte> inner, header;
    };
    const FragmentLayout& layout_;
    std::optional<Copy> copy_;
    std::deque<std::shared_ptr<const RoundResult>> results_;
    std::vector<std::byte> result_header_;
};

/// The joiner's side. Chunks that are here stay when a donor is lost: the next one goes on at the
/// same place. Inner state begins again with another donor.
class StateFetch {
  public:
    StateFetch(OuterState&, ModelPort&, DataPlane&, std::chrono::milliseconds peer_silence);
    ~StateFetch();
    /// Replaces what was being fetched; chunks of the same state stay.
    void fetch_copy(const Restore&, TimePoint now);
    void fetch_result(const StateName& from, std::vector<SiteId> holders, SiteId self,
                      TimePoint now);
    void stop();
    std::vector<DataPlane::Arrived> pump(std::vector<DataPlane::Arrived>, TimePoint now);
    /// Fetched (applied to state and model already) or FetchFailed, once.
    std::optional<SiteEvent> take_outcome();
    /// The result just fetched, so that this site can serve it too.
    std::shared_ptr<const RoundResult> take_result();
    std::uint64_t chunks_moved() const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace isthmus::outer
