// How a copy for a joiner is cut into chunks.
#pragma once

#include <algorithm>
#include <array>

#include "base/check.hpp"
#include "outer/state_transfer.hpp"

namespace isthmus::outer {

/// Where chunk `index` of a copy lies: which of its three parts, and what of it.
struct ChunkPlace {
    std::size_t part = 0;  ///< 0 anchor, 1 momentum, 2 inner state
    std::size_t offset = 0, bytes = 0;
};

/// UNITS  of a part of so many bytes.
inline std::size_t num_chunks(std::uint64_t bytes) {
    return static_cast<std::size_t>((bytes + kCopyChunkBytes - 1) / kCopyChunkBytes);
}
/// Of anchor and momentum: these come first, so that their numbers do not depend on the rest.
inline std::size_t num_outer_chunks(const CopyInfo& info) {
    return num_chunks(info.anchor_bytes) + num_chunks(info.momentum_bytes);
}
inline std::size_t num_chunks(const CopyInfo& info) {
    return num_outer_chunks(info) + num_chunks(info.inner_bytes);
}

/// REQUIRES  index < num_chunks(info).
inline ChunkPlace place_of(const CopyInfo& info, std::size_t index) {
    const std::array<std::uint64_t, 3> sizes{info.anchor_bytes, info.momentum_bytes,
                                             info.inner_bytes};
    for (std::size_t part = 0; part < sizes.size(); ++part) {
        const std::size_t chunks = num_chunks(sizes[part]);
        if (index < chunks) {
            const std::size_t offset = index * kCopyChunkBytes;
            return {part, offset, std::min<std::size_t>(kCopyChunkBytes, sizes[part] - offset)};
        }
        index -= chunks;
    }
    CHECK(false, "no such chunk");
}

}  // namespace isthmus::outer
