#include "inner/data/token_format.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.hpp"
#include "base/hash.hpp"

namespace isthmus::inner {
namespace {

constexpr char kMagic[8] = {'I', 'S', 'T', 'H', 'T', 'O', 'K', '\0'};
constexpr std::uint64_t kMaxBlockBytes = 64u << 20;

// Byte offsets of the header's fields.
enum At : std::size_t {
    kVersionAt = 8,
    kTokenBytesAt = 12,
    kVocabAt = 16,
    kTokensAt = 24,
    kTrainTokensAt = 32,
    kDocumentsAt = 40,
    kBlockBytesAt = 48,
    kTokensOffsetAt = 56,
    kDocumentsOffsetAt = 64,
    kChecksumsOffsetAt = 72,
    kTokenizerAt = 80,
    kFingerprintAt = 112,
    kChecksumAt = 120
};
constexpr std::size_t kTokenizerBytes = kFingerprintAt - kTokenizerAt;

// Over all the header's bytes but the checksum's own eight.
std::uint64_t header_checksum(std::span<const std::byte> header) {
    Hasher hasher;
    hasher.update(header.first(kChecksumAt));
    hasher.update(header.subspan(kChecksumAt + 8));
    return hasher.digest();
}

[[noreturn]] void refuse(const Path& path, std::string_view reason) {
    throw fatal(ExitCode::kInput, "{}: {}; make it again with `isthmus data prepare`",
                path.string(), reason);
}

// A checksum tells damage, not lies: sizes are checked against the file itself before they are
// used.
void check_layout(const TokenHeader& h, std::uint64_t tokens_offset, std::uint64_t file_bytes,
                  const Path& path) {
    const TokenFileInfo& info = h.info;
    const bool width = info.token_bytes == 1 || info.token_bytes == 2 || info.token_bytes == 4;
    const bool block = std::has_single_bit(h.block_bytes) && h.block_bytes >= kTokenPageBytes &&
                       h.block_bytes <= kMaxBlockBytes;
    if (!width || !block) refuse(path, "impossible token or block width in the header");
    if (info.vocab == 0 || info.vocab > 1ull << 31 || info.vocab > 1ull << (8 * info.token_bytes))
        refuse(path, fmt::format("impossible vocabulary of {} in the header", info.vocab));
    if (info.train_tokens > info.tokens)
        refuse(path, "the header says more training tokens than tokens");
    const std::uint64_t limit = std::uint64_t{1} << 56;  // far from overflow in the sums below
    if (info.tokens > limit || info.documents > limit)
        refuse(path, "impossible sizes in the header");
    const std::uint64_t documents =
        page_aligned(kTokenHeaderBytes + info.tokens * info.token_bytes);
    const std::uint64_t checksums = page_aligned(documents + 8 * info.documents);
    if (tokens_offset != kTokenHeaderBytes || h.documents_offset != documents ||
        h.checksums_offset != checksums)
        refuse(path, "the header's offsets do not follow from its sizes");
    if (file_bytes != h.file_bytes())
        refuse(path, fmt::format("{}: {} bytes where its header says {}",
                                 file_bytes < h.file_bytes() ? "truncated" : "too long", file_bytes,
                                 h.file_bytes()));
}

}  // namespace

std::uint64_t token_fingerprint(const TokenFileInfo& info,
                                std::span<const std::uint64_t> checksums) {
    Hasher hasher;
    std::byte bytes[8];
    const auto add = [&](std::uint64_t value) {
        store_little(bytes, value);
        hasher.update(bytes);
    };
    for (const std::uint64_t checksum : checksums) add(checksum);
    for (const std::uint64_t value :
         {std::uint64_t{info.token_bytes}, info.vocab, info.tokens, info.train_tokens})
        add(value);
    return hasher.digest();
}

std::array<std::byte, kTokenHeaderBytes> encode_token_header(const TokenHeader& h) {
    CHECK(h.info.tokenizer.size() < kTokenizerBytes, "tokenizer name {}", h.info.tokenizer);
    std::array<std::byte, kTokenHeaderBytes> bytes{};
    std::memcpy(bytes.data(), kMagic, sizeof kMagic);
    store_little(&bytes[kVersionAt], kTokenVersion);
    store_little(&bytes[kTokenBytesAt], h.info.token_bytes);
    store_little(&bytes[kVocabAt], h.info.vocab);
    store_little(&bytes[kTokensAt], h.info.tokens);
    store_little(&bytes[kTrainTokensAt], h.info.train_tokens);
    store_little(&bytes[kDocumentsAt], h.info.documents);
    store_little(&bytes[kBlockBytesAt], h.block_bytes);
    store_little(&bytes[kTokensOffsetAt], kTokenHeaderBytes);
    store_little(&bytes[kDocumentsOffsetAt], h.documents_offset);
    store_little(&bytes[kChecksumsOffsetAt], h.checksums_offset);
    std::memcpy(&bytes[kTokenizerAt], h.info.tokenizer.data(), h.info.tokenizer.size());
    store_little(&bytes[kFingerprintAt], h.info.fingerprint);
    store_little(&bytes[kChecksumAt], header_checksum(bytes));
    return bytes;
}

TokenHeader decode_token_header(std::span<const std::byte> bytes, std::uint64_t file_bytes,
                                const Path& path) {
    if (bytes.size() < sizeof kMagic || std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0)
        refuse(path, "not a token file of isthmus (its first bytes differ)");
    if (bytes.size() < kTokenHeaderBytes)
        refuse(path, fmt::format("truncated: {} bytes, less than the header's 4096", bytes.size()));
    const auto version = load_little<std::uint32_t>(&bytes[kVersionAt]);
    if (version != kTokenVersion)
        throw fatal(ExitCode::kInput,
                    "{}: token file version {}, and this program knows version {}: use the newer "
                    "isthmus that wrote it, or make it again if it is damaged",
                    path.string(), version, kTokenVersion);
    if (load_little<std::uint64_t>(&bytes[kChecksumAt]) != header_checksum(bytes))
        refuse(path, "damaged header (its checksum differs)");

    TokenHeader h;
    h.info.token_bytes = load_little<std::uint32_t>(&bytes[kTokenBytesAt]);
    h.info.vocab = load_little<std::uint64_t>(&bytes[kVocabAt]);
    h.info.tokens = load_little<std::uint64_t>(&bytes[kTokensAt]);
    h.info.train_tokens = load_little<std::uint64_t>(&bytes[kTrainTokensAt]);
    h.info.documents = load_little<std::uint64_t>(&bytes[kDocumentsAt]);
    h.block_bytes = load_little<std::uint64_t>(&bytes[kBlockBytesAt]);
    h.documents_offset = load_little<std::uint64_t>(&bytes[kDocumentsOffsetAt]);
    h.checksums_offset = load_little<std::uint64_t>(&bytes[kChecksumsOffsetAt]);
    h.info.fingerprint = load_little<std::uint64_t>(&bytes[kFingerprintAt]);
    const auto* name = reinterpret_cast<const char*>(&bytes[kTokenizerAt]);
    h.info.tokenizer.assign(name, std::find(name, name + kTokenizerBytes, '\0'));
    check_layout(h, load_little<std::uint64_t>(&bytes[kTokensOffsetAt]), file_bytes, path);
    return h;
}

}  // namespace isthmus::inner
