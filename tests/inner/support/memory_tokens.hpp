// Token files that live in memory, for tests of what trains on them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/random.hpp"
#include "inner/data/token_file.hpp"

namespace isthmus::inner::testing {

class MemoryTokens final : public TokenFile {
  public:
    MemoryTokens(std::vector<std::int32_t> tokens, std::uint64_t vocab, std::uint64_t train_tokens)
        : tokens_(std::move(tokens)) {
        info_.vocab = vocab;
        info_.tokens = tokens_.size();
        info_.documents = 1;
        info_.train_tokens = train_tokens;
    }
    const TokenFileInfo& info() const override { return info_; }
    std::uint64_t split_tokens(Split split) const override {
        return split == Split::kTrain ? info_.train_tokens : info_.tokens - info_.train_tokens;
    }
    Status read(Split split, std::uint64_t first, std::span<std::int32_t> out) override {
        const std::uint64_t at = (split == Split::kTrain ? 0 : info_.train_tokens) + first;
        CHECK(at + out.size() <= tokens_.size());
        std::copy_n(tokens_.begin() + static_cast<std::ptrdiff_t>(at), out.size(), out.begin());
        return Done{};
    }
    /// One document holds everything.
    Status read_documents(std::uint64_t first, std::span<std::uint64_t> out) override {
        CHECK(first + out.size() <= 1);
        std::fill(out.begin(), out.end(), 0);
        return Done{};
    }
    Status verify(const std::function<void(std::uint64_t, std::uint64_t)>&,
                  const std::function<bool()>&) override {
        return Done{};
    }
    std::vector<std::int32_t>& tokens() { return tokens_; }

  private:
    std::vector<std::int32_t> tokens_;
    TokenFileInfo info_;
};

/// A noisy cycle through the vocabulary: something that a small model learns in a few steps.
inline MemoryTokens cycle_tokens(std::size_t count, std::int32_t vocab, std::uint64_t seed) {
    std::vector<std::int32_t> tokens(count);
    for (std::size_t i = 0; i < count; ++i) {
        const bool noise = random_uniform(seed, i) < 0.1;
        tokens[i] = noise ? static_cast<std::int32_t>(random_bits(seed + 1, i) %
                                                      static_cast<std::uint64_t>(vocab))
                          : static_cast<std::int32_t>(i % static_cast<std::size_t>(vocab));
    }
    return {std::move(tokens), static_cast<std::uint64_t>(vocab), count * 9 / 10};
}

}  // namespace isthmus::inner::testing
