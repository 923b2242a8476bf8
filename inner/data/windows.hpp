// Windows of the token file as model inputs: window w of a split covers tokens [wT, wT + T], its
// targets shifted by one. Window and sample numbers are order.hpp's.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "inner/data/token_file.hpp"

namespace isthmus::inner {

/// Windows of `sequence` tokens (and one target beyond) that a split holds.
std::uint64_t num_windows(const TokenFile&, Split, std::int64_t sequence);

/// Reads windows into rows of tokens and targets.
class WindowReader {
  public:
    WindowReader(TokenFile& file, std::int64_t sequence);
    /// SHAPE  tokens, targets: [windows.size(), sequence].
    Status read(Split, std::span<const std::uint64_t> windows, std::int32_t* tokens,
                std::int32_t* targets);

  private:
    TokenFile& file_;
    std::int64_t sequence_;
    std::vector<std::int32_t> row_;
};

}  // namespace isthmus::inner
