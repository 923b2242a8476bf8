// Token files of llm.c and nanoGPT. Both are little-endian ids without any checksum, so sizes and
// ids are all that can be checked here.
//   llm.c (dev/data/data_common.py, write_datafile): 256 int32 (magic, version, number of tokens,
//   zeros), then
//     tokens: magic 20240520 version 1, u16 (gpt2); magic 20240801 version 7, u32 (llama3).
//   nanoGPT (data/*/prepare.py): u16 tokens, no header.
#include <algorithm>

#include "base/error.hpp"
#include "inner/data/byte_source.hpp"
#include "inner/data/prepare.hpp"
#include "inner/data/token_writer.hpp"
#include "inner/data/watched_source.hpp"

namespace isthmus::inner {
namespace {

constexpr std::uint64_t kLlmcHeaderBytes = 256 * 4;
constexpr std::uint64_t kGpt2Vocab = 50257;
constexpr std::uint64_t kLlama3Vocab = 128256;

struct LlmcKind {
    std::uint32_t magic;
    std::uint32_t version;
    std::uint32_t token_bytes;
    std::uint64_t vocab;
};
constexpr LlmcKind kLlmcKinds[] = {{20240520, 1, 2, kGpt2Vocab}, {20240801, 7, 4, kLlama3Vocab}};

/// What one file turned out to be.
struct BinFile {
    Path path;
    bool llmc = false;
    std::uint32_t token_bytes = 2;
    std::uint64_t vocab = kGpt2Vocab;
    std::uint64_t tokens = 0;
};

BinFile inspect_llmc(const Path& path, const LlmcKind& kind, std::span<const std::byte> head,
                     std::uint64_t file_bytes) {
    const auto version = load_little<std::uint32_t>(&head[4]);
    if (version != kind.version)
        throw fatal(ExitCode::kInput, "{}: llm.c file of version {}, and only {} is known",
                    path.string(), version, kind.version);
    const std::uint64_t tokens = load_little<std::uint32_t>(&head[8]);
    if (tokens > 0x7fffffffu || file_bytes != kLlmcHeaderBytes + tokens * kind.token_bytes)
        throw fatal(ExitCode::kInput,
                    "{}: its header says {} tokens of {} bytes, and the file has {} bytes: "
                    "truncated or damaged",
                    path.string(), tokens, kind.token_bytes, file_bytes);
    return {path, true, kind.token_bytes, kind.vocab, tokens};
}

BinFile inspect(FileSystem& files, const Path& path, const ImportOptions& options) {
    auto opened = files.open(path);
    if (!opened) throw fatal(ExitCode::kInput, "{}", opened.error().message);
    const std::uint64_t bytes = (*opened)->size();
    const auto file = with_retries(std::move(*opened), options.retry);
    if (options.format != "nanogpt" && bytes >= kLlmcHeaderBytes) {
        std::vector<std::byte> head(kLlmcHeaderBytes);
        if (Status status = file->read_at(0, head); !status)
            throw fatal(ExitCode::kInput, "{}", status.error().message);
        // As a nanoGPT file, either magic would begin with an id beyond GPT-2's vocabulary.
        for (const LlmcKind& kind : kLlmcKinds)
            if (load_little<std::uint32_t>(head.data()) == kind.magic)
                return inspect_llmc(path, kind, head, bytes);
    }
    if (options.format == "llmc")
        throw fatal(ExitCode::kInput, "{}: not an llm.c token file (its magic differs)",
                    path.string());
    if (bytes % 2 != 0)
        throw fatal(ExitCode::kInput, "{}: {} bytes, no whole number of nanoGPT's 2-byte tokens",
                    path.string(), bytes);
    return {path, false, 2, options.vocab != 0 ? options.vocab : kGpt2Vocab, bytes / 2};
}

void check(const ImportOptions& options) {
    if (options.train.empty()) throw fatal(ExitCode::kUsage, "no input: name a training file");
    if (options.out.empty()) throw fatal(ExitCode::kUsage, "no output: name a folder with --out");
    if (options.format != "auto" && options.format != "llmc" && options.format != "nanogpt")
        throw fatal(ExitCode::kUsage, "unknown format \"{}\": known are auto, llmc, nanogpt",
                    options.format);
    if (options.vocab > 1ull << 31)
        throw fatal(ExitCode::kUsage, "vocabulary {}: at most 2^31", options.vocab);
    if (options.vocab != 0 && options.end_of_document && *options.end_of_document >= options.vocab)
        throw fatal(ExitCode::kUsage, "end-of-document id {} is not below the vocabulary of {}",
                    *options.end_of_document, options.vocab);
}

std::optional<std::uint64_t> usual_end_of_document(std::uint64_t vocab) {
    if (vocab == kGpt2Vocab) return 50256;
    if (vocab == kLlama3Vocab) return 128000;
    return {};
}

std::string tokenizer_name(std::uint64_t vocab) {
    return vocab == kGpt2Vocab ? "gpt2" : vocab == kLlama3Vocab ? "llama3" : "imported";
}

/// Fills `out` but at the end; sources may return less than they are asked for.
std::size_t read_full(ByteSource& source, std::span<std::byte> out) {
    std::size_t got = 0;
    while (got < out.size()) {
        const std::size_t count = source.read(out.subspan(got));
        if (count == 0) break;
        got += count;
    }
    return got;
}

/// Copies one file's tokens, narrowed or widened to the writer's width.
class Copier {
  public:
    Copier(TokenWriter& writer, std::uint64_t vocab, std::optional<std::uint64_t> end_of_document)
        : writer_(writer), vocab_(vocab), end_of_document_(end_of_document) {}

    void copy(ByteSource& source, const BinFile& file) {
        std::vector<std::byte> chunk(256u << 10);
        if (file.llmc) read_full(source, std::span(chunk).first(kLlmcHeaderBytes));
        writer_.begin_document();
        std::uint64_t position = 0;
        while (const std::size_t bytes = read_full(source, chunk)) {
            for (std::size_t at = 0; at < bytes; at += file.token_bytes, ++position)
                add(file.token_bytes == 2 ? load_little<std::uint16_t>(&chunk[at])
                                          : load_little<std::uint32_t>(&chunk[at]),
                    position, file);
            flush();
        }
    }

  private:
    void add(std::uint32_t id, std::uint64_t position, const BinFile& file) {
        if (id >= vocab_)
            throw fatal(ExitCode::kInput,
                        "{}: token {} (byte {}) has id {}, not below the vocabulary of {}: another "
                        "--vocab or --format?",
                        file.path.string(), position,
                        (file.llmc ? kLlmcHeaderBytes : 0) + position * file.token_bytes, id,
                        vocab_);
        const bool ends = end_of_document_ && id == *end_of_document_;
        if (ends && file.llmc) begin_document();  // there it opens a document
        std::byte bytes[4];
        store_little(bytes, id);
        packed_.insert(packed_.end(), bytes, bytes + writer_.token_bytes());
        if (ends && !file.llmc) begin_document();  // nanoGPT closes one with it
    }
    void begin_document() {
        flush();
        writer_.begin_document();
    }
    void flush() {
        writer_.append(packed_);
        packed_.clear();
    }

    TokenWriter& writer_;
    std::uint64_t vocab_;
    std::optional<std::uint64_t> end_of_document_;
    std::vector<std::byte> packed_;
};

std::vector<BinFile> inspect_all(FileSystem& files, const std::vector<Path>& paths,
                                 const ImportOptions& options) {
    std::vector<BinFile> found;
    for (const Path& path : paths) {
        found.push_back(inspect(files, path, options));
        const BinFile& first = found.front();
        const BinFile& last = found.back();
        if (first.llmc != last.llmc || first.token_bytes != last.token_bytes)
            throw fatal(ExitCode::kInput, "{} and {} are of different formats: import them apart",
                        first.path.string(), last.path.string());
    }
    return found;
}

}  // namespace

TokenFileInfo import_tokens(FileSystem& files, const ImportOptions& options) {
    check(options);
    std::vector<Path> paths{options.train};
    paths.insert(paths.end(), options.more_train.begin(), options.more_train.end());
    const std::size_t train_files = paths.size();
    if (!options.validation.empty()) paths.push_back(options.validation);

    const std::vector<BinFile> inputs = inspect_all(files, paths, options);
    const std::uint64_t vocab = options.vocab != 0 ? options.vocab : inputs.front().vocab;
    const auto end_of_document =
        options.end_of_document ? options.end_of_document : usual_end_of_document(vocab);
    const std::uint64_t total = total_bytes(files, paths);

    TokenWriter writer(files, {options.out, tokenizer_name(vocab), vocab, options.overwrite});
    Copier copier(writer, vocab, end_of_document);
    std::uint64_t done = 0;
    std::uint64_t train_tokens = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        const auto source = watched(plain_source(files, inputs[i].path, options.retry),
                                    {options.progress, options.stop, done, total});
        copier.copy(*source, inputs[i]);
        done += source->consumed_bytes();
        if (i + 1 == train_files) train_tokens = writer.tokens();
    }
    const std::uint64_t validation_tokens = writer.tokens() - train_tokens;
    if (train_tokens < 2 || (!options.validation.empty() && validation_tokens < 2))
        throw fatal(ExitCode::kInput,
                    "{} training and {} validation tokens: each that is given needs 2 at least",
                    train_tokens, validation_tokens);
    return writer.finish({train_tokens, 0});
}

}  // namespace isthmus::inner
