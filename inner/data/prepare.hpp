// Text to token file, in bounded memory: `isthmus data prepare` and `isthmus data import`.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "inner/data/token_file.hpp"

namespace isthmus::inner {

struct PrepareOptions {
    std::vector<Path> inputs;  ///< .gz/.dz, .zst, .jsonl (also .jsonl.gz/.zst), anything else: text
    Path out;                  ///< folder; tokens.isthmus appears in it by rename when complete
    std::string tokenizer = "byte";
    std::string field = "text";  ///< of each .jsonl line
    /// Share of the tokens, at the end; 0 for none. The cut moves to a document boundary within 1 %
    /// of the tokens (at most half the share), if there is one.
    double validation = 0.02;
    bool overwrite = false;
    std::function<void(std::uint64_t read_bytes, std::uint64_t total_bytes)> progress;
    std::function<bool()>
        stop;  ///< asked between chunks; true leaves nothing behind and throws Fatal(kInterrupted)
    RetryPolicy retry = {};  ///< of reads
};
/// A file is a document, or each line of a .jsonl; documents without text are left out. Memory: a
/// few MiB, plus the longest line of a .jsonl, a .zst's window, and 8 bytes for each MiB written.
/// ERRORS throws Fatal(kUsage) for contradictory options or output that exists,
/// Fatal(kInput/kResources) naming file and place (line, byte offset); the unfinished output is
/// removed.
TokenFileInfo prepare(FileSystem&, const PrepareOptions&);

struct ImportOptions {
    Path train;  ///< llm.c .bin (256-int header, magic 20240520 gpt2 or 20240801 llama3) or nanoGPT
                 ///< .bin (raw u16)
    std::vector<Path> more_train;
    Path validation;  ///< may be empty
    Path out;
    std::string format = "auto";  ///< auto, llmc, nanogpt
    std::uint64_t vocab =
        0;  ///< nanogpt has no header; 0 = 50257 there, the tokenizer's own for llm.c
    /// The token between documents. llm.c writes it before each, nanoGPT after. Unset: the
    /// tokenizer's own, that is 50256 in vocabulary 50257, 128000 in 128256, none in others.
    std::optional<std::uint64_t> end_of_document = {};
    bool overwrite = false;
    std::function<void(std::uint64_t read_bytes, std::uint64_t total_bytes)> progress;
    std::function<bool()> stop;  ///< as in PrepareOptions
    RetryPolicy retry = {};      ///< of reads
};
/// The train files one after the other, then the validation file, unchanged but for the width of a
/// token. ERRORS as prepare; an id that is not below the vocabulary is named with its position.
TokenFileInfo import_tokens(FileSystem&, const ImportOptions&);

}  // namespace isthmus::inner
