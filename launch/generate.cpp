#include "launch/generate.hpp"

#include <algorithm>
#include <charconv>

#include "base/error.hpp"

namespace isthmus::launch {

std::int64_t generate(inner::Predictor& predictor, const GenerateSettings& settings,
                      const std::function<void(std::int32_t)>& emit,
                      const std::function<bool()>& stop) {
    CHECK(!settings.prompt.empty() && settings.context > 0);
    const auto half = static_cast<std::size_t>(std::max<std::int64_t>(1, settings.context / 2));
    std::vector<std::int32_t> seen = settings.prompt;
    if (seen.size() > static_cast<std::size_t>(settings.context))
        seen.erase(seen.begin(), seen.end() - static_cast<std::ptrdiff_t>(half));

    predictor.reset();
    std::span<const float> logits;
    for (const std::int32_t token : seen) logits = predictor.feed(token);
    std::int64_t drawn = 0;
    while (drawn < settings.tokens && !stop()) {
        const std::int32_t token =
            inner::sample_token(logits, settings.sampling, static_cast<std::uint64_t>(drawn));
        emit(token);
        ++drawn;
        if (drawn == settings.tokens) break;
        seen.push_back(token);
        if (predictor.length() < settings.context) {
            logits = predictor.feed(token);
            continue;
        }
        seen.erase(seen.begin(), seen.end() - static_cast<std::ptrdiff_t>(half));
        predictor.reset();
        for (const std::int32_t again : seen) logits = predictor.feed(again);
    }
    return drawn;
}

std::vector<std::int32_t> parse_ids(std::string_view text, std::int64_t vocab,
                                    std::string_view option) {
    std::vector<std::int32_t> ids;
    std::size_t at = 0;
    while (at < text.size()) {
        const std::size_t next = text.find_first_not_of(", ", at);
        if (next == std::string_view::npos) break;
        const std::size_t end = std::min(text.find_first_of(", ", next), text.size());
        const std::string_view word = text.substr(next, end - next);
        std::int32_t id = 0;
        const auto parsed = std::from_chars(word.data(), word.data() + word.size(), id);
        if (parsed.ec != std::errc{} || parsed.ptr != word.data() + word.size()) {
            throw fatal(ExitCode::kUsage,
                        "{}: \"{}\" is no token id: give numbers, for example 1,2,3", option, word);
        }
        if (id < 0 || id >= vocab) {
            throw fatal(ExitCode::kUsage, "{}: id {} is outside the model's vocabulary (0 to {})",
                        option, id, vocab - 1);
        }
        ids.push_back(id);
        at = end;
    }
    if (ids.empty())
        throw fatal(ExitCode::kUsage, "{}: no token ids: give numbers, for example 1,2,3", option);
    return ids;
}

std::vector<std::int32_t> byte_tokens(std::string_view text) {
    std::vector<std::int32_t> tokens;
    tokens.reserve(text.size());
    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
    return tokens;
}

}  // namespace isthmus::launch
