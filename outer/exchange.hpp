// One round's exchange at one site (PROTOCOL 9): from BEGIN to a complete, digested result, over
// any number of attempts.
//
//   kSolo        nothing travels
//   kAllGather   everyone asks everyone for its whole encoded input; two sites thereby swap
//   kOwners      pieces are divided among owners by share; an owner asks all others for their input
//   to its pieces, sums what it decoded
//                in ascending site id, encodes the mean once, and everyone asks the owners for
//                means
// Encoding, decoding, summing and digests go piece by piece while other pieces travel. Encoded
// inputs are kept by cut for as long as the cut lives: a new attempt asks only for what a lost
// owner had. The result does not depend on arrival order, streams, piece size or shares.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "outer/data_plane.hpp"
#include "outer/outer_state.hpp"
#include "outer/round_result.hpp"
#include "outer/site.hpp"

namespace isthmus::outer {

/// Which participant owns a piece: pieces are dealt out in runs that interleave, so that every
/// owner works from the start. A pure function of shares (each >= 0, sum 1) and the number of
/// pieces; a larger share gets proportionally more, within one piece.
std::vector<std::uint32_t> deal_pieces(const std::vector<float>& shares, std::uint32_t num_pieces);

/// THREAD  one.
class RoundExchange {
  public:
    struct Options {
        std::chrono::milliseconds peer_silence{5000};  ///< nothing of a peer for so long: missing
        std::size_t cache_bytes =
            256 << 20;  ///< inputs kept for a retry; beyond it they are asked for again
    };
    RoundExchange(const OuterState&, ModelPort&, DataPlane&, const Options&);
    ~RoundExchange();

    /// This site's input for the coming rounds, until discard() or committed(): the model's
    /// parameters as they are now. They must not change meanwhile. Encodes nothing yet.
    void offer(const CutId&);
    /// Encodes some more pieces of the cut while there is nothing else to do; true while some are
    /// left.
    bool encode_ahead();
    /// REQUIRES  offer() of the cut that `begin` names for this site. Replaces an attempt that is
    /// under way.
    void begin(const Begin&, SiteId self, TimePoint now);
    /// Moves on; takes what the data plane brought (answers that are none of its own are left to
    /// others and returned).
    std::vector<DataPlane::Arrived> pump(std::vector<DataPlane::Arrived>, TimePoint now);
    /// Exchanged or ExchangeFailed, once an attempt.
    std::optional<SiteEvent> take_outcome();
    /// The complete result of an attempt.
    std::shared_ptr<const RoundResult> staged(const Attempt&) const;
    /// The cut and everything staged are over (applied, or void). Own encoded pieces are dropped.
    void discard();
    /// Serves CutItem and MeanItem.
    Served serve(const Want&);
    std::uint64_t pieces_moved() const;
    /// Bytes held: own encoded cut, others' inputs, staged result.
    std::size_t bytes_held() const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace isthmus::outer
