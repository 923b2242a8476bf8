// A source that reports progress and can be stopped, one of several that are read in turn.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "inner/data/byte_source.hpp"

namespace isthmus::inner {

struct Watch {
    std::function<void(std::uint64_t read_bytes, std::uint64_t total_bytes)>
        progress;                  ///< may be empty
    std::function<bool()> stop;    ///< may be empty
    std::uint64_t done_bytes = 0;  ///< of the inputs before this one
    std::uint64_t total_bytes = 0;
};

/// Calls both after each read. ERRORS throws Fatal(kInterrupted) once stop() is true.
std::unique_ptr<ByteSource> watched(std::unique_ptr<ByteSource>, Watch);

/// Sum of the files' sizes. ERRORS throws Fatal(kInput) for the first that is missing or
/// unreadable: before anything is written.
std::uint64_t total_bytes(FileSystem&, const std::vector<Path>&);

}  // namespace isthmus::inner
