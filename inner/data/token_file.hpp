// The token file: one data set, tokenised, with a header, checksums by block and a document index.
//
// Layout, little endian, every part at a multiple of 4096 bytes so that it can be mapped:
//   header (4096 bytes): magic "ISTHTOK\0", version u32 = 1, token_bytes u32 (1, 2 or 4), vocab
//   u64,
//     tokens u64, train_tokens u64 (the rest is validation), documents u64, block_bytes u64 (1
//     MiB), offsets of tokens, document index and block checksums u64, tokenizer name (32 bytes),
//     fingerprint u64 (XXH3 of the checksum table, then token_bytes, vocab, tokens and
//     train_tokens: names the data set and its split), header checksum u64 (XXH3 of the header
//     without these 8 bytes).
//   tokens; document index (u64 first token of each document); block checksums (u64 XXH3 per block;
//   blocks cut everything between header and checksums, padding too, so every byte of the file is
//   under a checksum).
// A block is verified when it is first touched; `verify` reads all. README.md says why reads are
// not mapped.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/files.hpp"
#include "inner/data/retry.hpp"

namespace isthmus::inner {

struct TokenFileInfo {
    std::uint32_t token_bytes = 1;
    std::uint64_t vocab = 0;  ///< ids are < vocab
    std::uint64_t tokens = 0;
    std::uint64_t train_tokens = 0;  ///< [0, train_tokens) train, the rest validates
    std::uint64_t documents = 0;
    std::string tokenizer;          ///< "byte", or what an import was told
    std::uint64_t fingerprint = 0;  ///< equal fingerprints: equal tokens
};

enum class Split { kTrain, kValidation };

class TokenFile {
  public:
    /// `path` may be the file or the folder that holds tokens.isthmus.
    /// ERRORS throws Fatal(kInput): missing, foreign, newer, truncated, or a damaged header or
    /// checksum table.
    static std::unique_ptr<TokenFile> open(FileSystem&, const Path&, RetryPolicy = {});
    virtual ~TokenFile() = default;
    virtual const TokenFileInfo& info() const = 0;
    virtual std::uint64_t split_tokens(Split) const = 0;
    /// Tokens [first, first + out.size()) of a split, widened. Allocates nothing.
    /// THREAD   one thread at a time. REQUIRES the range to lie in the split.
    /// ERRORS a read error is retried 3 times, then named with file and byte offset; a block whose
    /// checksum differs, and an id >= vocab (with its position), are errors at first touch.
    virtual Status read(Split, std::uint64_t first, std::span<std::int32_t> out) = 0;
    /// The first token of documents [first, first + out.size()), counted over both splits.
    /// THREAD, REQUIRES, ERRORS  as read.
    virtual Status read_documents(std::uint64_t first, std::span<std::uint64_t> out) = 0;
    /// Reads every byte: checksums, ids, and that the document index ascends from 0. After each
    /// block calls progress(done_bytes, total_bytes) and asks stop(); both may be empty. ERRORS
    /// names the first block that is damaged, or says that it was stopped.
    virtual Status verify(const std::function<void(std::uint64_t, std::uint64_t)>& progress,
                          const std::function<bool()>& stop = {}) = 0;
};

inline constexpr const char* kTokenFileName = "tokens.isthmus";

}  // namespace isthmus::inner
