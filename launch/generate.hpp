// Text from a model: feed the prompt, then draw one token after another.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "inner/trainer.hpp"

namespace isthmus::launch {

struct GenerateSettings {
    std::vector<std::int32_t> prompt;  ///< at least one token
    std::int64_t tokens = 0;           ///< to draw
    std::int64_t context = 0;          ///< of the model
    inner::SamplingConfig sampling;
};

/// Calls emit for every drawn token; asks stop between them. Returns how many were drawn.
///
/// When the context is full it slides: the cache is emptied and the last half of the context is fed
/// again, at its new positions. That costs context / 2 steps every context / 2 tokens, and is exact
/// for what the model then sees. A prompt longer than the context starts with its last half
/// context.
std::int64_t generate(inner::Predictor&, const GenerateSettings&,
                      const std::function<void(std::int32_t)>& emit,
                      const std::function<bool()>& stop);

/// "1,2,3" with spaces allowed. ERRORS throws Fatal(kUsage): not a number, or not in [0, vocab).
std::vector<std::int32_t> parse_ids(std::string_view text, std::int64_t vocab,
                                    std::string_view option);

/// The bytes of a text as tokens.
std::vector<std::int32_t> byte_tokens(std::string_view text);

}  // namespace isthmus::launch
