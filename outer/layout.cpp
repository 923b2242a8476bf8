#include "outer/layout.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace isthmus::outer {

FragmentLayout::FragmentLayout(std::vector<std::int64_t> unit_elements, std::int64_t piece_elements)
    : unit_elements_(std::move(unit_elements)) {
    CHECK(piece_elements > 0 && piece_elements % kBlockElements == 0);
    for (const std::int64_t unit : unit_elements_) {
        CHECK(unit >= 0);
        for (std::int64_t at = 0; at < unit; at += piece_elements) {
            pieces_.push_back(
                {.offset = num_elements_ + at, .count = std::min(piece_elements, unit - at)});
        }
        num_elements_ += unit;
    }
}

}  // namespace isthmus::outer
