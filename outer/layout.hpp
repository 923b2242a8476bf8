// How a fragment is cut: into units (what a model gathers together), units into pieces (what
// travels as one message), pieces into blocks (what a codec writes with one scale; DESIGN.md's
// grain).
//
// All cuts follow from the units' sizes and one constant, never from the number of ranks or sites,
// so no result depends on how the work was divided. Blocks begin at a unit's start; no piece
// crosses a unit.
#pragma once

#include <cstdint>
#include <vector>

namespace isthmus::outer {

/// Elements of a codec block; the last of a unit may be shorter.
inline constexpr std::int64_t kBlockElements = 256;
/// Elements of a piece; the last of a unit may be shorter. A multiple of kBlockElements.
inline constexpr std::int64_t kPieceElements = 64 << 10;

struct Piece {
    std::int64_t offset = 0;  ///< in the fragment, elements
    std::int64_t count = 0;   ///< elements
};

class FragmentLayout {
  public:
    /// REQUIRES  piece_elements > 0, a multiple of kBlockElements; units may be empty.
    explicit FragmentLayout(std::vector<std::int64_t> unit_elements,
                            std::int64_t piece_elements = kPieceElements);
    std::int64_t num_elements() const { return num_elements_; }
    std::uint32_t num_pieces() const { return static_cast<std::uint32_t>(pieces_.size()); }
    const Piece& piece(std::uint32_t index) const { return pieces_[index]; }
    const std::vector<std::int64_t>& unit_elements() const { return unit_elements_; }

  private:
    std::vector<std::int64_t> unit_elements_;
    std::vector<Piece> pieces_;
    std::int64_t num_elements_ = 0;
};

}  // namespace isthmus::outer
