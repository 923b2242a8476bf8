#include "outer/layout.hpp"

#include <algorithm>
#include <limits>

#include "base/check.hpp"

namespace isthmus::outer {

FragmentLayout::FragmentLayout(std::vector<std::int64_t> unit_elements, std::int64_t piece_elements)
    : unit_elements_(std::move(unit_elements)) {
    CHECK(piece_elements > 0 && piece_elements % kBlockElements == 0, "pieces of {} elements",
          piece_elements);
    for (const std::int64_t elements : unit_elements_) {
        CHECK(elements >= 0);
        for (std::int64_t done = 0; done < elements; done += piece_elements) {
            pieces_.push_back({.offset = num_elements_ + done,
                               .count = std::min(piece_elements, elements - done)});
        }
        num_elements_ += elements;
    }
    CHECK(pieces_.size() < std::numeric_limits<std::uint32_t>::max(), "{} pieces", pieces_.size());
}

}  // namespace isthmus::outer
