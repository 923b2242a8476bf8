// Reads that are tried again: a network mount or a tired disk often answers the second time.
#pragma once

#include <chrono>
#include <memory>

#include "base/files.hpp"

namespace isthmus::inner {

struct RetryPolicy {
    int retries = 3;  ///< after the first attempt
    std::chrono::milliseconds first_wait{
        20};  ///< before the first retry; five times longer before each next
};

/// The same file; a failed read_at is tried again by the policy. The last error is returned, naming
/// file and byte offset, and says how often it was tried. THREAD  as ReadableFile.
std::unique_ptr<ReadableFile> with_retries(std::unique_ptr<ReadableFile>, RetryPolicy);

}  // namespace isthmus::inner
