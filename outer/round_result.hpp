// The encoded result of one round: what is staged before COMMIT, applied after it, and kept for
// those who come later. Immutable once complete, so that threads may share it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "outer/codec.hpp"
#include "outer/layout.hpp"
#include "outer/messages.hpp"

namespace isthmus::outer {

/// What is needed to decode a result; travels in front of its pieces.
struct ResultInfo {
    StateName from, to;
    Attempt attempt;
    Method method = Method::kAllGather;
    Codec codec = Codec::kFp32;  ///< of the parts; kSolo: fp32
    OuterOptimizer optimizer;
    /// Whose input is in the mean (weight > 0), ascending. One part each; kOwners: one part, their
    /// mean.
    std::vector<SiteId> sites;
    std::vector<float> weights;  ///< of the sites
    template <class A>
    void serialize(A& a) {
        a(from, to, attempt, method, codec, optimizer, sites, weights);
    }
};

/// Whether a description that came over the network can be a result's. ERRORS  one line: no sites,
/// sites that do not ascend, as many weights, weights that are not positive and finite, kSolo with
/// another codec, several sites or an optimizer that does not average.
Status check(const ResultInfo&);

/// kSolo: one part, the fp32 local parameters themselves. kAllGather: one part a contributor of
/// weight > 0, its encoded pseudo-gradient. kOwners: one part, the encoded mean. The layout must
/// outlive it.
class RoundResult {
  public:
    /// REQUIRES  check(info).
    RoundResult(const FragmentLayout&, ResultInfo);
    const ResultInfo& info() const { return info_; }
    ResultInfo& info() { return info_; }
    std::size_t num_parts() const { return parts_.size(); }
    std::size_t bytes() const;  ///< held

    /// Where to put, and to find, one encoded piece of one part.
    std::span<std::byte> piece(std::size_t part, std::uint32_t index);
    std::span<const std::byte> piece(std::size_t part, std::uint32_t index) const;

    /// The weighted mean of the pseudo-gradients of one piece (kSolo: the parameters themselves),
    /// summed over parts in ascending site id in fp32. SHAPE  out: the piece's elements; scratch:
    /// as many, or more.
    void mean(std::uint32_t index, std::span<float> out, std::span<float> scratch) const;

    /// Digest of what apply depends on: method, codec, sites, weights, and every encoded byte. By
    /// piece, so that pieces may be digested as they become complete, in any order.
    StateHash piece_digest(std::uint32_t index) const;
    StateHash digest(std::span<const StateHash> piece_digests) const;

  private:
    const FragmentLayout& layout_;
    ResultInfo info_;
    std::vector<std::size_t> offsets_;  ///< of encoded pieces in a part
    std::vector<std::vector<std::byte>> parts_;
};

/// The chain: hash of the state that applying a result to `from` gives (PROTOCOL 3).
StateHash chained_hash(const StateHash& from, const StateHash& result_digest,
                       const OuterOptimizer&);

}  // namespace isthmus::outer
