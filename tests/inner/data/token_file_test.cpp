#include "inner/data/token_file.hpp"

#include "base/hash.hpp"
#include "inner/data/token_format.hpp"
#include "inner/data/token_writer.hpp"
#include "tests/inner/data/support/data_fixture.hpp"

namespace isthmus::inner {
namespace {

using test::FaultyFiles;
using test::FileOp;

class TokenFileTest : public DataTest {
  protected:
    // Three blocks of byte tokens (2.5 MiB), one document.
    const std::string& text() {
        if (text_.empty()) text_ = sample_text(5u << 19);
        return text_;
    }
    Path make(const std::string& out = "out") {
        prepare(*files_, options({put("in.txt", text())}, out));
        return at(out) / kTokenFileName;
    }
    std::unique_ptr<TokenFile> open(const Path& path) {
        return TokenFile::open(*files_, path, kNoWait);
    }
    std::string open_error(const Path& path) {
        return fatal_of([&] { open(path); });
    }
    // A file of u16 tokens with the given ids, below `vocab` or not.
    Path make_wide(const std::vector<std::uint16_t>& ids, std::uint64_t vocab) {
        TokenWriter writer(*files_, {at("wide"), "imported", vocab, true});
        std::vector<std::byte> bytes(2 * ids.size());
        for (std::size_t i = 0; i < ids.size(); ++i) store_little(&bytes[2 * i], ids[i]);
        writer.append(bytes);
        writer.finish({ids.size() / 2, 0});
        return at("wide") / kTokenFileName;
    }

    std::string text_;
};

TEST_F(TokenFileTest, FileOrFolderOpensAndKeepsEveryToken) {
    const Path path = make();
    for (const Path& where : {path, at("out")}) {
        const auto file = open(where);
        EXPECT_EQ(file->info().tokens, text().size());
        EXPECT_EQ(file->info().tokenizer, "byte");
        EXPECT_EQ(file->info().vocab, 256u);
        EXPECT_EQ(file->info().token_bytes, 1u);
        EXPECT_EQ(file->info().documents, 1u);
        EXPECT_EQ(file->split_tokens(Split::kTrain) + file->split_tokens(Split::kValidation),
                  text().size());
        EXPECT_EQ(all_text(*file), text());
        EXPECT_TRUE(file->verify({}));
    }
}

TEST_F(TokenFileTest, AnyWindowIsRightAcrossBlocksAndPieces) {
    const auto file = open(make());
    const std::uint64_t train = file->split_tokens(Split::kTrain);
    for (const std::uint64_t first :
         {std::uint64_t{0}, kTokenBlockBytes - 3, 2 * kTokenBlockBytes - 1, train - 70000}) {
        for (const std::size_t count :
             {std::size_t{0}, std::size_t{1}, std::size_t{5}, std::size_t{70000}}) {
            std::vector<std::int32_t> ids(count);
            ASSERT_TRUE(file->read(Split::kTrain, first, ids));
            EXPECT_EQ(std::string(ids.begin(), ids.end()), text().substr(first, count));
        }
    }
    std::vector<std::int32_t> ids(9);
    ASSERT_TRUE(file->read(Split::kValidation, 4, ids));
    EXPECT_EQ(std::string(ids.begin(), ids.end()), text().substr(train + 4, 9));
}

TEST_F(TokenFileTest, WideTokensKeepTheirValues) {
    const std::vector<std::uint16_t> ids{0, 1, 255, 256, 50256, 7, 40000, 3};
    const auto file = open(make_wide(ids, 50257));
    EXPECT_EQ(file->info().token_bytes, 2u);
    std::vector<std::int32_t> read(4);
    ASSERT_TRUE(file->read(Split::kTrain, 0, read));
    EXPECT_EQ(read, (std::vector<std::int32_t>{0, 1, 255, 256}));
    ASSERT_TRUE(file->read(Split::kValidation, 0, read));
    EXPECT_EQ(read, (std::vector<std::int32_t>{50256, 7, 40000, 3}));
}

TEST_F(TokenFileTest, IdBeyondVocabularyIsNamedWithItsPosition) {
    const auto file = open(make_wide({1, 2, 3, 4, 5, 999, 7, 8}, 300));
    std::vector<std::int32_t> ids(4);
    EXPECT_TRUE(file->read(Split::kTrain, 0, ids));
    const Status status = file->read(Split::kValidation, 0, ids);
    ASSERT_FALSE(status);
    EXPECT_TRUE(has(status.error().message, "token 5 (byte 4106) has id 999"));
    EXPECT_TRUE(has(status.error().message, "vocabulary of 300"));
    EXPECT_TRUE(has(file->verify({}).error().message, "token 5 (byte 4106) has id 999"));
}

TEST_F(TokenFileTest, MissingForeignAndNewerAreRefused) {
    EXPECT_TRUE(has(open_error(at("nowhere")), "3: " + at("nowhere").string() + ": no such data"));
    std::filesystem::create_directories(at("empty"));
    EXPECT_TRUE(has(open_error(at("empty")), "empty"));
    EXPECT_TRUE(has(open_error(put("foreign", sample_text(10000))), "not a token file"));
    EXPECT_TRUE(has(open_error(put("none", "")), "not a token file"));
    std::string bytes = get(make());
    bytes[8] = 2;
    EXPECT_TRUE(
        has(open_error(put("newer", bytes)), "version 2, and this program knows version 1"));
}

TEST_F(TokenFileTest, EveryLengthButItsOwnIsRefused) {
    const std::string bytes = get(make());
    const std::size_t documents = page_aligned(kTokenHeaderBytes + text().size());
    for (const std::size_t size :
         {std::size_t{1}, std::size_t{7}, std::size_t{8}, std::size_t{100}, std::size_t{4095},
          std::size_t{4096}, std::size_t{5000}, documents - 1, documents, documents + 8,
          documents + 4096, bytes.size() - 8, bytes.size() - 1}) {
        const std::string error = open_error(put("cut", bytes.substr(0, size)));
        EXPECT_TRUE(has(error, size < 8 ? "not a token file" : "truncated")) << size << " bytes";
        EXPECT_TRUE(has(error, at("cut").string()));
    }
    EXPECT_TRUE(has(open_error(put("long", bytes + "x")), "too long"));
}

TEST_F(TokenFileTest, EachFlippedHeaderByteIsRefused) {
    text_ = sample_text(3000);
    std::string bytes = get(make());
    for (std::size_t i = 0; i < kTokenHeaderBytes; i = i < 160 ? i + 1 : i + 97) {
        bytes[i] = static_cast<char>(bytes[i] ^ 0x10);
        EXPECT_TRUE(has(open_error(put("flipped", bytes)), "3: ")) << "byte " << i;
        bytes[i] = static_cast<char>(bytes[i] ^ 0x10);
    }
}

// A header that lies with a right checksum must not lead to allocations or reads beyond the file.
TEST_F(TokenFileTest, LyingHeadersAreRefused) {
    text_ = sample_text(3000);
    const std::string bytes = get(make());
    const struct {
        std::size_t at;
        std::uint64_t value;
    } lies[] = {{16, 0},          {16, 257},   {16, 1ull << 40}, {24, 1ull << 62}, {24, 5},
                {24, ~0ull},      {32, ~0ull}, {40, 1ull << 60}, {40, ~0ull},      {40, 2000},
                {48, 0},          {48, 1},     {48, 3u << 20},   {48, 1ull << 40}, {56, 0},
                {64, 1ull << 63}, {72, 0},     {72, ~0ull}};
    for (const auto& lie : lies) {
        std::string lying = bytes;
        store_little(reinterpret_cast<std::byte*>(&lying[lie.at]), lie.value);
        Hasher hasher;
        const auto head = std::as_bytes(std::span(lying)).first(kTokenHeaderBytes);
        hasher.update(head.first(120));
        hasher.update(head.subspan(128));
        store_little(reinterpret_cast<std::byte*>(&lying[120]), hasher.digest());
        EXPECT_TRUE(has(open_error(put("lying", lying)), "3: ")) << lie.at << " " << lie.value;
    }
}

TEST_F(TokenFileTest, FlippedTokenIsFoundWhenItsBlockIsFirstTouched) {
    const Path path = make();
    const std::string bytes = get(path);
    for (const std::size_t flipped :
         {std::size_t{0}, kTokenBlockBytes - 1, kTokenBlockBytes, kTokenBlockBytes + 500}) {
        std::string damaged = bytes;
        char& byte = damaged[kTokenHeaderBytes + flipped];
        byte = static_cast<char>(byte ^ 1);
        const auto file = open(put("damaged", damaged));
        const std::size_t block = flipped / kTokenBlockBytes;
        std::vector<std::int32_t> ids(10);
        EXPECT_TRUE(file->read(Split::kTrain, (1 - block) * kTokenBlockBytes, ids));
        const Status status = file->read(Split::kTrain, block * kTokenBlockBytes + 1000, ids);
        ASSERT_FALSE(status) << "byte " << flipped;
        EXPECT_TRUE(has(status.error().message,
                        at("damaged").string() + ": block " + std::to_string(block)));
        EXPECT_TRUE(has(file->verify({}).error().message, "block " + std::to_string(block)));
    }
}

TEST_F(TokenFileTest, EveryByteBehindTheTokensIsUnderAChecksum) {
    const std::string bytes = get(make());
    const std::size_t documents = page_aligned(kTokenHeaderBytes + text().size());
    const std::size_t checksums = documents + 4096;
    for (const std::size_t flipped : {documents - 1, documents, documents + 7, checksums - 1}) {
        std::string damaged = bytes;
        damaged[flipped] = static_cast<char>(damaged[flipped] ^ 0x80);
        const Status status = open(put("damaged", damaged))->verify({});
        ASSERT_FALSE(status) << flipped;
        EXPECT_TRUE(has(status.error().message, "block 2"));
    }
    for (std::size_t flipped = checksums; flipped < bytes.size(); ++flipped) {
        std::string damaged = bytes;
        damaged[flipped] = static_cast<char>(damaged[flipped] ^ 0x80);
        EXPECT_TRUE(has(open_error(put("damaged", damaged)), "damaged table of checksums"));
    }
}

TEST_F(TokenFileTest, VerifyReportsProgressToTheEnd) {
    const auto file = open(make());
    std::vector<std::uint64_t> done;
    std::uint64_t total = 0;
    EXPECT_TRUE(file->verify([&](std::uint64_t d, std::uint64_t t) {
        done.push_back(d);
        total = t;
    }));
    ASSERT_EQ(done.size(), 3u);
    EXPECT_EQ(done.front(), kTokenBlockBytes);
    EXPECT_EQ(done.back(), total);
}

TEST_F(TokenFileTest, ABlockIsReadWholeOnceAndThenOnlyWhatIsAskedFor) {
    make();
    FaultyFiles counted(*files_);
    const auto file = TokenFile::open(counted, at("out"), kNoWait);
    const auto before = counted.calls(FileOp::kRead);
    std::vector<std::int32_t> ids(100);
    for (std::uint64_t i = 0; i < 50; ++i) ASSERT_TRUE(file->read(Split::kTrain, i * 1000, ids));
    EXPECT_EQ(counted.calls(FileOp::kRead) - before, 50u);  // the first of them read the block
}

TEST_F(TokenFileTest, OneReadErrorIsRetriedAndForgotten) {
    make();
    FaultyFiles faulty(*files_);
    const auto file = TokenFile::open(faulty, at("out"), kNoWait);
    faulty.fail({.op = FileOp::kRead, .nth = 1, .error = EIO, .times = 3});
    std::vector<std::int32_t> ids(100);
    const Status status = file->read(Split::kTrain, 0, ids);
    EXPECT_TRUE(status) << status.error().message;
    EXPECT_EQ(std::string(ids.begin(), ids.end()), text().substr(0, 100));
}

TEST_F(TokenFileTest, LastingReadErrorNamesFileAndOffset) {
    const Path path = make();
    FaultyFiles faulty(*files_);
    const auto file = TokenFile::open(faulty, at("out"), kNoWait);
    std::vector<std::int32_t> ids(100);
    ASSERT_TRUE(file->read(Split::kTrain, 0, ids));  // block 0 is verified: later reads are exact
    faulty.fail({.op = FileOp::kRead, .error = EIO, .times = FaultyFiles::kForever});
    const auto before = faulty.calls(FileOp::kRead);
    const Status status = file->read(Split::kTrain, 1234, ids);
    ASSERT_FALSE(status);
    EXPECT_EQ(faulty.calls(FileOp::kRead) - before, 4u);
    EXPECT_TRUE(has(status.error().message, path.string()));
    EXPECT_TRUE(has(status.error().message, "byte " + std::to_string(4096 + 1234)));
    EXPECT_TRUE(has(status.error().message, "tried 4 times"));
    EXPECT_TRUE(has(fatal_of([&] { TokenFile::open(faulty, at("out"), kNoWait); }), path.string()));
}

TEST_F(TokenFileTest, FingerprintNamesTokensAndSplit) {
    const Path one = put("one", sample_text(5000)), two = put("two", sample_text(5000, 2));
    const auto fingerprint = [&](const Path& in, double validation) {
        PrepareOptions o = options({in}, "f", validation);
        o.overwrite = true;
        return prepare(*files_, o).fingerprint;
    };
    EXPECT_EQ(fingerprint(one, 0.1), fingerprint(one, 0.1));
    EXPECT_NE(fingerprint(one, 0.1), fingerprint(two, 0.1));
    EXPECT_NE(fingerprint(one, 0.1), fingerprint(one, 0.2));
}

}  // namespace
}  // namespace isthmus::inner
