// Text to token file, in bounded memory: `isthmus data prepare` and `isthmus data import`.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "inner/data/token_file.hpp"

namespace isthmus::inner {

struct PrepareOptions {
    std::vector<Path> inputs;      ///< .gz/.dz, .zst, .jsonl (also .jsonl.gz/.zst), anything else: text
    Path out;                      ///< folder; tokens.isthmus appears in it by rename when complete
    std::string tokenizer = "byte";
    std::string field = "text";    ///< of each .jsonl line
    double validation = 0.02;      ///< share of the tokens at the end, moved to a document boundary if one is near
    bool overwrite = false;
    std::function<void(std::uint64_t read_bytes, std::uint64_t total_bytes)> progress;
    std::function<bool()> stop;    ///< asked between chunks; true leaves nothing behind and throws Fatal(kInterrupted)
};
/// A file is a document, or each line of a .jsonl. ERRORS throws Fatal(kInput/kResources), naming file and
/// place (line, byte offset); the unfinished output is removed.
TokenFileInfo prepare(FileSystem&, const PrepareOptions&);

struct ImportOptions {
    Path train;                    ///< llm.c .bin (256-int header, magic 20240520 gpt2 or 20240801 llama3) or nanoGPT .bin (raw u16)
    std::vector<Path> more_train;
    Path validation;               ///< may be empty
    Path out;
    std::string format = "auto";   ///< auto, llmc, nanogpt
    std::uint64_t vocab = 0;       ///< nanogpt has no header; 0 = 50257 there, the tokenizer's own for llm.c
    std::uint64_t end_of_document = 50256;  ///< starts a document in the index when seen
    bool overwrite = false;
    std::function<void(std::uint64_t, std::uint64_t)> progress;
    std::function<bool()> stop;
};
TokenFileInfo import_tokens(FileSystem&, const ImportOptions&);

}  // namespace isthmus::inner
