#include "inner/data/token_file.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "inner/data/token_format.hpp"

namespace isthmus::inner {
namespace {

// Tokens are widened in pieces of this size, so that the scratch is small and allocated once.
constexpr std::size_t kPieceBytes = 64u << 10;

template <class T>
std::uint32_t widen(std::span<const std::byte> in, std::span<std::int32_t> out) {
    std::uint32_t largest = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
        const auto id = static_cast<std::uint32_t>(load_little<T>(&in[i * sizeof(T)]));
        largest = std::max(largest, id);
        out[i] = static_cast<std::int32_t>(id);
    }
    return largest;
}

// The largest id, unsigned, so that an id beyond 2^31 is seen as what it is.
std::uint32_t widen(std::uint32_t token_bytes, std::span<const std::byte> in,
                    std::span<std::int32_t> out) {
    if (token_bytes == 1) return widen<std::uint8_t>(in, out);
    if (token_bytes == 2) return widen<std::uint16_t>(in, out);
    return widen<std::uint32_t>(in, out);
}

class CheckedTokenFile final : public TokenFile {
  public:
    CheckedTokenFile(std::unique_ptr<ReadableFile> file, Path path, const TokenHeader& header,
                     std::vector<std::uint64_t> checksums)
        : file_(std::move(file)),
          path_(std::move(path)),
          header_(header),
          checksums_(std::move(checksums)),
          verified_(header.blocks(), false),
          block_(std::min(header.block_bytes, header.payload_bytes())),
          piece_(kPieceBytes) {}

    const TokenFileInfo& info() const override { return header_.info; }

    std::uint64_t split_tokens(Split split) const override {
        const TokenFileInfo& i = header_.info;
        return split == Split::kTrain ? i.train_tokens : i.tokens - i.train_tokens;
    }

    Status read(Split split, std::uint64_t first, std::span<std::int32_t> out) override {
        CHECK(first <= split_tokens(split) && out.size() <= split_tokens(split) - first,
              "tokens [{}, +{}) of a split of {}", first, out.size(), split_tokens(split));
        const std::uint64_t start = split == Split::kTrain ? 0 : header_.info.train_tokens;
        return read_tokens(start + first, out);
    }

    Status read_documents(std::uint64_t first, std::span<std::uint64_t> out) override {
        CHECK(first <= header_.info.documents && out.size() <= header_.info.documents - first,
              "documents [{}, +{}) of {}", first, out.size(), header_.info.documents);
        std::uint64_t offset = header_.documents_offset - kTokenHeaderBytes + 8 * first;
        while (!out.empty()) {
            const std::size_t count = std::min(out.size(), kPieceBytes / 8);
            const auto bytes = std::span(piece_).first(8 * count);
            if (Status status = read_payload(offset, bytes); !status) return status;
            for (std::size_t i = 0; i < count; ++i)
                out[i] = load_little<std::uint64_t>(&bytes[8 * i]);
            out = out.subspan(count);
            offset += 8 * count;
        }
        return Done{};
    }

    Status verify(const std::function<void(std::uint64_t, std::uint64_t)>& progress,
                  const std::function<bool()>& stop) override {
        for (std::uint64_t b = 0; b < header_.blocks(); ++b) {
            if (stop && stop())
                return Error{fmt::format("{}: stopped; {} of {} blocks were right", path_.string(),
                                         b, header_.blocks())};
            if (Status status = load_block(b); !status) return status;
            if (Status status = verify_ids(b); !status) return status;
            if (progress)
                progress(std::min((b + 1) * header_.block_bytes, header_.payload_bytes()),
                         header_.payload_bytes());
        }
        return verify_documents();
    }

  private:
    // Tokens counted over the whole file.
    Status read_tokens(std::uint64_t first, std::span<std::int32_t> out) {
        const std::uint32_t width = header_.info.token_bytes;
        while (!out.empty()) {
            const std::size_t count = std::min(out.size(), kPieceBytes / width);
            const auto bytes = std::span(piece_).first(count * width);
            if (Status status = read_payload(first * width, bytes); !status) return status;
            const auto ids = out.first(count);
            // Checked each time, not only at first touch: an id indexes the embedding, and the
            // pages below may change after they were verified.
            if (widen(width, bytes, ids) >= header_.info.vocab) return bad_id(first, ids);
            out = out.subspan(count);
            first += count;
        }
        return Done{};
    }

    Error bad_id(std::uint64_t first, std::span<const std::int32_t> ids) const {
        const auto bad = std::find_if(ids.begin(), ids.end(), [&](std::int32_t id) {
            return static_cast<std::uint32_t>(id) >= header_.info.vocab;
        });
        const std::uint64_t position = first + static_cast<std::uint64_t>(bad - ids.begin());
        return Error{fmt::format(
            "{}: token {} (byte {}) has id {}, not below the vocabulary of {}; make the file again",
            path_.string(), position, kTokenHeaderBytes + position * header_.info.token_bytes,
            static_cast<std::uint32_t>(*bad), header_.info.vocab)};
    }

    // `offset` counts from the first token's byte. A block that was not touched before is read
    // whole and verified.
    Status read_payload(std::uint64_t offset, std::span<std::byte> out) {
        while (!out.empty()) {
            const std::uint64_t block = offset / header_.block_bytes;
            const std::uint64_t within = offset % header_.block_bytes;
            const std::size_t count = std::min(out.size(), header_.block_bytes - within);
            if (verified_[block]) {
                Status status = file_->read_at(kTokenHeaderBytes + offset, out.first(count));
                if (!status) return status;
            } else {
                if (Status status = load_block(block); !status) return status;
                std::memcpy(out.data(), &block_[within], count);
            }
            out = out.subspan(count);
            offset += count;
        }
        return Done{};
    }

    Status load_block(std::uint64_t block) {
        const std::uint64_t offset = block * header_.block_bytes;
        const std::size_t bytes = std::min(header_.block_bytes, header_.payload_bytes() - offset);
        const auto data = std::span(block_).first(bytes);
        if (Status status = file_->read_at(kTokenHeaderBytes + offset, data); !status)
            return status;
        if (hash64(data) != checksums_[block])
            return Error{
                fmt::format("{}: block {} (bytes {} to {}) is damaged: its checksum differs; make "
                            "the file again",
                            path_.string(), block, kTokenHeaderBytes + offset,
                            kTokenHeaderBytes + offset + bytes)};
        verified_[block] = true;
        return Done{};
    }

    Status verify_ids(std::uint64_t block) {
        const std::uint32_t width = header_.info.token_bytes;
        // Where every value of the token's width is in the vocabulary there is nothing to check.
        if (header_.info.vocab >= std::uint64_t{1} << (8 * width)) return Done{};
        const std::uint64_t end =
            std::min((block + 1) * header_.block_bytes / width, header_.info.tokens);
        std::vector<std::int32_t> ids(kPieceBytes / width);
        for (std::uint64_t first = block * header_.block_bytes / width; first < end;
             first += ids.size()) {
            const std::size_t count = std::min<std::uint64_t>(ids.size(), end - first);
            if (Status status = read_tokens(first, std::span(ids).first(count)); !status)
                return status;
        }
        return Done{};
    }

    Status verify_documents() {
        std::vector<std::uint64_t> starts(kPieceBytes / 8);
        std::uint64_t next = 0;  // the least that the next document may start at
        for (std::uint64_t first = 0; first < header_.info.documents; first += starts.size()) {
            const auto some =
                std::span(starts).first(std::min(starts.size(), header_.info.documents - first));
            if (Status status = read_documents(first, some); !status) return status;
            for (std::size_t i = 0; i < some.size(); ++i) {
                const bool begins = first + i > 0 || some[i] == 0;
                if (!begins || some[i] < next || some[i] >= header_.info.tokens)
                    return Error{fmt::format("{}: document {} starts at token {}, out of order",
                                             path_.string(), first + i, some[i])};
                next = some[i] + 1;
            }
        }
        return Done{};
    }

    std::unique_ptr<ReadableFile> file_;
    Path path_;
    TokenHeader header_;
    std::vector<std::uint64_t> checksums_;
    std::vector<bool> verified_;    // by block
    std::vector<std::byte> block_;  // scratch of load_block
    std::vector<std::byte> piece_;  // scratch of read_tokens and read_documents
};

std::vector<std::uint64_t> read_checksums(ReadableFile& file, const TokenHeader& header,
                                          const Path& path) {
    std::vector<std::byte> bytes(8 * header.blocks());
    if (Status status = file.read_at(header.checksums_offset, bytes); !status)
        throw fatal(ExitCode::kInput, "{}", status.error().message);
    std::vector<std::uint64_t> checksums(header.blocks());
    for (std::size_t i = 0; i < checksums.size(); ++i)
        checksums[i] = load_little<std::uint64_t>(&bytes[8 * i]);
    if (token_fingerprint(header.info, checksums) != header.info.fingerprint)
        throw fatal(ExitCode::kInput,
                    "{}: damaged table of checksums at byte {}; make the file again", path.string(),
                    header.checksums_offset);
    return checksums;
}

}  // namespace

std::unique_ptr<TokenFile> TokenFile::open(FileSystem& files, const Path& where,
                                           RetryPolicy retry) {
    const Path inside = where / kTokenFileName;
    const Path path = files.exists(inside) ? inside : where;
    if (!files.exists(path))
        throw fatal(ExitCode::kInput, "{}: no such data; make it with `isthmus data prepare`",
                    path.string());
    auto opened = files.open(path);
    if (!opened)
        throw fatal(ExitCode::kInput, "{}; give a token file, or a folder with {}",
                    opened.error().message, kTokenFileName);
    auto file = with_retries(std::move(*opened), retry);
    std::vector<std::byte> head(std::min(kTokenHeaderBytes, file->size()));
    if (Status status = file->read_at(0, head); !status)
        throw fatal(ExitCode::kInput, "{}", status.error().message);
    const TokenHeader header = decode_token_header(head, file->size(), path);
    auto checksums = read_checksums(*file, header, path);
    return std::make_unique<CheckedTokenFile>(std::move(file), path, header, std::move(checksums));
}

}  // namespace isthmus::inner
