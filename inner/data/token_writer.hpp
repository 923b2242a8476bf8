// Writes a token file as a stream: what prepare and import have in common.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/files.hpp"
#include "base/hash.hpp"
#include "inner/data/token_format.hpp"

namespace isthmus::inner {

struct TokenWriterOptions {
    Path out;  ///< folder; made if missing
    std::string tokenizer;
    std::uint64_t vocab = 0;  ///< also decides the token's width: token_bytes_for(vocab)
    bool overwrite = false;
};

/// Where training tokens end: at the document boundary nearest to `ideal` within `tolerance`
/// tokens, else at `ideal` itself.
struct TokenCut {
    std::uint64_t ideal = 0;
    std::uint64_t tolerance = 0;
};

/// Memory: one block, 512 KiB of document starts (more are spilled to a file) and 8 bytes a MiB
/// written. Until finish() everything lives in temporaries beside the result; the destructor
/// removes them, and the folders that the constructor made. ERRORS  every failure to write throws
/// Fatal(kResources), naming file and errno.
class TokenWriter {
  public:
    /// ERRORS throws Fatal(kUsage) when the folder has a token file and overwrite is false.
    TokenWriter(FileSystem&, TokenWriterOptions);
    ~TokenWriter();
    TokenWriter(const TokenWriter&) = delete;
    TokenWriter& operator=(const TokenWriter&) = delete;

    std::uint32_t token_bytes() const { return header_.info.token_bytes; }
    std::uint64_t tokens() const { return header_.info.tokens; }

    /// The next token starts a document; a document without tokens leaves no trace.
    void begin_document() { document_pending_ = true; }
    /// Whole tokens, little endian, ids below the vocabulary.
    void append(std::span<const std::byte> tokens);
    /// Splits, writes index, checksums and header, and lets the file appear by rename. REQUIRES
    /// tokens() > 0.
    TokenFileInfo finish(TokenCut);

  private:
    void write(std::span<const std::byte>);
    void pad_to_page();
    void flush_block();
    void spill_documents();
    std::uint64_t write_documents(TokenCut);
    void discard() noexcept;
    Path temporary(std::string_view ending) const;

    FileSystem& files_;
    TokenWriterOptions options_;
    std::vector<Path> made_folders_;  // outermost first
    std::unique_ptr<WritableFile> file_;
    std::unique_ptr<WritableFile> spill_;
    TokenHeader header_;
    std::vector<std::byte> block_;
    std::uint64_t payload_bytes_ = 0;
    std::vector<std::uint64_t> checksums_;
    std::vector<std::uint64_t> documents_;  // not yet spilled
    bool document_pending_ = true;
    bool finished_ = false;
};

}  // namespace isthmus::inner
