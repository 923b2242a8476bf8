#include "inner/data/token_writer.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace isthmus::inner {
namespace {

constexpr std::size_t kDocumentsInMemory = 64u << 10;

void require(const Status& status) {
    if (!status)
        throw fatal(ExitCode::kResources, "cannot write tokens: {}; nothing was kept",
                    status.error().message);
}

template <class T>
T require(Result<T> result) {
    if (!result)
        throw fatal(ExitCode::kResources, "cannot write tokens: {}; nothing was kept",
                    result.error().message);
    return std::move(*result);
}

// Follows the document starts as they are written and remembers the boundary nearest to the ideal
// cut.
class NearestBoundary {
  public:
    explicit NearestBoundary(TokenCut cut) : cut_(cut), best_(cut.ideal) {}

    void see(std::uint64_t start) {
        const std::uint64_t distance = start > cut_.ideal ? start - cut_.ideal : cut_.ideal - start;
        if (distance > cut_.tolerance || (found_ && distance >= distance_)) return;
        found_ = true;
        distance_ = distance;
        best_ = start;
    }
    std::uint64_t best() const { return best_; }

  private:
    TokenCut cut_;
    std::uint64_t best_;
    std::uint64_t distance_ = 0;
    bool found_ = false;
};

std::vector<std::byte> packed(std::span<const std::uint64_t> values) {
    std::vector<std::byte> bytes(8 * values.size());
    for (std::size_t i = 0; i < values.size(); ++i) store_little(&bytes[8 * i], values[i]);
    return bytes;
}

}  // namespace

TokenWriter::TokenWriter(FileSystem& files, TokenWriterOptions options)
    : files_(files), options_(std::move(options)) {
    const Path target = options_.out / kTokenFileName;
    if (!options_.overwrite && files_.exists(target))
        throw fatal(ExitCode::kUsage, "{} exists: give --overwrite to replace it, or another --out",
                    target.string());
    header_.info.tokenizer = options_.tokenizer;
    header_.info.vocab = options_.vocab;
    header_.info.token_bytes = token_bytes_for(options_.vocab);
    block_.reserve(header_.block_bytes);
    try {
        for (Path p = options_.out; !p.empty() && !files_.exists(p); p = p.parent_path())
            made_folders_.insert(made_folders_.begin(), p);
        require(files_.make_folders(options_.out));
        file_ = require(files_.create(temporary(".part")));
        require(
            file_->append(std::vector<std::byte>(kTokenHeaderBytes)));  // its place; written last
    } catch (...) {
        discard();
        throw;
    }
}

TokenWriter::~TokenWriter() {
    if (!finished_) discard();
}

Path TokenWriter::temporary(std::string_view ending) const {
    return options_.out / (std::string(kTokenFileName) + std::string(ending));
}

// Best effort, as the reason why the writing ended is what the user must hear.
void TokenWriter::discard() noexcept {
    file_.reset();
    spill_.reset();
    const auto remove = [&](const Path& path) {
        if (files_.exists(path)) static_cast<void>(files_.remove(path).has_value());
    };
    remove(temporary(".part"));
    remove(temporary(".documents"));
    for (auto folder = made_folders_.rbegin(); folder != made_folders_.rend(); ++folder)
        remove(*folder);
}

void TokenWriter::append(std::span<const std::byte> tokens) {
    CHECK(tokens.size() % token_bytes() == 0, "{} bytes are no whole tokens", tokens.size());
    if (tokens.empty()) return;
    if (document_pending_) {
        document_pending_ = false;
        documents_.push_back(header_.info.tokens);
        ++header_.info.documents;
        if (documents_.size() >= kDocumentsInMemory) spill_documents();
    }
    write(tokens);
    header_.info.tokens += tokens.size() / token_bytes();
}

void TokenWriter::write(std::span<const std::byte> bytes) {
    payload_bytes_ += bytes.size();
    while (!bytes.empty()) {
        const std::size_t count = std::min(bytes.size(), header_.block_bytes - block_.size());
        block_.insert(block_.end(), bytes.begin(), bytes.begin() + static_cast<long>(count));
        bytes = bytes.subspan(count);
        if (block_.size() == header_.block_bytes) flush_block();
    }
}

void TokenWriter::flush_block() {
    if (block_.empty()) return;
    checksums_.push_back(hash64(block_));
    require(file_->append(block_));
    block_.clear();
}

void TokenWriter::pad_to_page() {
    write(std::vector<std::byte>(page_aligned(payload_bytes_) - payload_bytes_));
}

void TokenWriter::spill_documents() {
    if (!spill_) spill_ = require(files_.create(temporary(".documents")));
    require(spill_->append(packed(documents_)));
    documents_.clear();
}

// Returns the cut.
std::uint64_t TokenWriter::write_documents(TokenCut cut) {
    NearestBoundary nearest(cut);
    if (spill_) {
        spill_documents();
        require(spill_->close());
        spill_.reset();
        auto spilled = require(files_.open(temporary(".documents")));
        std::vector<std::byte> piece(8 * kDocumentsInMemory);
        for (std::uint64_t done = 0; done < spilled->size();) {
            const auto bytes =
                std::span(piece).first(std::min(piece.size(), spilled->size() - done));
            require(spilled->read_at(done, bytes));
            for (std::size_t i = 0; i < bytes.size(); i += 8)
                nearest.see(load_little<std::uint64_t>(&bytes[i]));
            write(bytes);
            done += bytes.size();
        }
        spilled.reset();
        require(files_.remove(temporary(".documents")));
    } else {
        for (const std::uint64_t start : documents_) nearest.see(start);
        write(packed(documents_));
    }
    return nearest.best();
}

TokenFileInfo TokenWriter::finish(TokenCut cut) {
    CHECK(header_.info.tokens > 0 && cut.ideal <= header_.info.tokens, "cut {} of {} tokens",
          cut.ideal, header_.info.tokens);
    pad_to_page();
    header_.documents_offset = kTokenHeaderBytes + payload_bytes_;
    header_.info.train_tokens = write_documents(cut);
    pad_to_page();
    header_.checksums_offset = kTokenHeaderBytes + payload_bytes_;
    flush_block();
    require(file_->append(packed(checksums_)));
    header_.info.fingerprint = token_fingerprint(header_.info, checksums_);
    require(file_->write_at(0, encode_token_header(header_)));
    require(file_->sync());
    require(file_->close());
    file_.reset();
    require(files_.rename(temporary(".part"), options_.out / kTokenFileName));
    finished_ = true;
    if (Status status = files_.sync_folder(options_.out); !status)
        throw fatal(ExitCode::kResources,
                    "{}; the token file is complete, but may be lost if power fails now",
                    status.error().message);
    return header_.info;
}

}  // namespace isthmus::inner
