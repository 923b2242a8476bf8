#include "inner/data/prepare.hpp"

#include <cmath>

#include "base/error.hpp"
#include "inner/data/byte_source.hpp"
#include "inner/data/jsonl.hpp"
#include "inner/data/token_writer.hpp"
#include "inner/data/watched_source.hpp"

namespace isthmus::inner {
namespace {

constexpr std::size_t kChunkBytes = 256u << 10;
constexpr std::uint64_t kByteVocab = 256;

void check(const PrepareOptions& options) {
    if (options.inputs.empty()) throw fatal(ExitCode::kUsage, "no input: name at least one file");
    if (options.out.empty()) throw fatal(ExitCode::kUsage, "no output: name a folder with --out");
    if (options.tokenizer != "byte")
        throw fatal(ExitCode::kUsage, "unknown tokenizer \"{}\": known is byte", options.tokenizer);
    if (!(options.validation >= 0 && options.validation < 1))
        throw fatal(ExitCode::kUsage, "validation share {}: give 0 or more, and less than 1",
                    options.validation);
}

void add_text(ByteSource& source, TokenWriter& writer) {
    std::vector<std::byte> chunk(kChunkBytes);
    writer.begin_document();
    while (const std::size_t count = source.read(chunk))
        writer.append(std::span(chunk).first(count));
}

void add_jsonl(ByteSource& source, const Path& path, const std::string& field,
               TokenWriter& writer) {
    JsonlReader lines(source, path, field);
    std::string text;
    while (lines.next(text)) {
        writer.begin_document();
        writer.append(std::as_bytes(std::span(text)));
    }
}

// Both sides must hold a token and its successor; a share that leaves less cannot be met.
TokenCut cut_for(std::uint64_t tokens, double validation) {
    if (tokens < 2)
        throw fatal(ExitCode::kInput,
                    "the input has {} tokens, and training needs 2 at least: give more text",
                    tokens);
    if (validation == 0) return {tokens, 0};
    const double share = validation * static_cast<double>(tokens);
    const double smaller = std::min(share, static_cast<double>(tokens) - share);
    const auto held_out = static_cast<std::uint64_t>(std::llround(share));
    if (held_out < 2 || tokens - held_out < 2)
        throw fatal(ExitCode::kInput,
                    "{} tokens are too few to hold out a validation share of {}: give more text, "
                    "or --validation 0",
                    tokens, validation);
    const double tolerance = std::min(0.01 * static_cast<double>(tokens), 0.5 * smaller);
    return {tokens - held_out, static_cast<std::uint64_t>(tolerance)};
}

}  // namespace

TokenFileInfo prepare(FileSystem& files, const PrepareOptions& options) {
    check(options);
    const std::uint64_t total = total_bytes(files, options.inputs);
    TokenWriter writer(files, {options.out, options.tokenizer, kByteVocab, options.overwrite});
    std::uint64_t done = 0;
    for (const Path& path : options.inputs) {
        const auto source = watched(open_source(files, path, options.retry),
                                    {options.progress, options.stop, done, total});
        if (input_kind(path).jsonl)
            add_jsonl(*source, path, options.field, writer);
        else
            add_text(*source, writer);
        done += source->consumed_bytes();
    }
    return writer.finish(cut_for(writer.tokens(), options.validation));
}

}  // namespace isthmus::inner
