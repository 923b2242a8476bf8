#include "inner/data/windows.hpp"

#include <algorithm>

namespace isthmus::inner {

std::uint64_t num_windows(const TokenFile& file, Split split, std::int64_t sequence) {
    const std::uint64_t tokens = file.split_tokens(split);
    return tokens == 0 ? 0 : (tokens - 1) / static_cast<std::uint64_t>(sequence);
}

WindowReader::WindowReader(TokenFile& file, std::int64_t sequence)
    : file_(file), sequence_(sequence), row_(static_cast<std::size_t>(sequence) + 1) {}

Status WindowReader::read(Split split, std::span<const std::uint64_t> windows, std::int32_t* tokens,
                          std::int32_t* targets) {
    for (const std::uint64_t window : windows) {
        Status status = file_.read(split, window * static_cast<std::uint64_t>(sequence_), row_);
        if (!status) return status;
        std::copy_n(row_.begin(), sequence_, tokens);
        std::copy_n(row_.begin() + 1, sequence_, targets);
        tokens += sequence_;
        targets += sequence_;
    }
    return Done{};
}

}  // namespace isthmus::inner
