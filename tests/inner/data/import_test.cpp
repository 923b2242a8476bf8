#include "inner/data/token_format.hpp"
#include "tests/inner/data/support/data_fixture.hpp"

namespace isthmus::inner {
namespace {

class ImportTest : public DataTest {
  protected:
    using Ids = std::vector<std::uint32_t>;

    template <class T>
    static std::string packed(const Ids& ids) {
        std::string bytes(ids.size() * sizeof(T), '\0');
        for (std::size_t i = 0; i < ids.size(); ++i)
            store_little(reinterpret_cast<std::byte*>(&bytes[i * sizeof(T)]),
                         static_cast<T>(ids[i]));
        return bytes;
    }
    static std::string llmc(std::uint32_t magic, std::uint32_t version, std::uint32_t tokens) {
        Ids header(256);
        header[0] = magic;
        header[1] = version;
        header[2] = tokens;
        return packed<std::uint32_t>(header);
    }
    static std::string gpt2(const Ids& ids) {
        return llmc(20240520, 1, static_cast<std::uint32_t>(ids.size())) +
               packed<std::uint16_t>(ids);
    }
    static std::string llama3(const Ids& ids) {
        return llmc(20240801, 7, static_cast<std::uint32_t>(ids.size())) +
               packed<std::uint32_t>(ids);
    }
    ImportOptions from(const Path& train, const Path& validation = {}) const {
        ImportOptions o;
        o.train = train;
        o.validation = validation;
        o.out = at("out");
        o.overwrite = true;
        o.retry = kNoWait;
        return o;
    }
    std::unique_ptr<TokenFile> imported(const ImportOptions& o) {
        import_tokens(*files_, o);
        auto file = TokenFile::open(*files_, o.out, kNoWait);
        EXPECT_TRUE(file->verify({}));
        return file;
    }
    static Ids ids_of(TokenFile& file, Split split) {
        std::vector<std::int32_t> ids(file.split_tokens(split));
        EXPECT_TRUE(file.read(split, 0, ids));
        return {ids.begin(), ids.end()};
    }
    std::string error_of(const ImportOptions& o) {
        const std::string error = fatal_of([&] { import_tokens(*files_, o); });
        EXPECT_FALSE(std::filesystem::exists(at("out"))) << error;
        return error;
    }
    using Starts = std::vector<std::uint64_t>;
};

TEST_F(ImportTest, LlmcGpt2) {
    const Ids train{50256, 1, 2, 50256, 3, 65, 50256, 9}, more{50256, 7, 8}, validation{50256, 5};
    ImportOptions o = from(put("train.bin", gpt2(train)), put("val.bin", gpt2(validation)));
    o.more_train = {put("more.bin", gpt2(more))};
    const auto file = imported(o);
    Ids both = train;
    both.insert(both.end(), more.begin(), more.end());
    EXPECT_EQ(ids_of(*file, Split::kTrain), both);
    EXPECT_EQ(ids_of(*file, Split::kValidation), validation);
    EXPECT_EQ(documents_of(*file), (Starts{0, 3, 6, 8, 11}));
    EXPECT_EQ(file->info().vocab, 50257u);
    EXPECT_EQ(file->info().tokenizer, "gpt2");
    EXPECT_EQ(file->info().token_bytes, 2u);
}

TEST_F(ImportTest, LlmcLlama3) {
    const Ids train{128000, 1, 128255, 128000, 4};
    const auto file = imported(from(put("train.bin", llama3(train))));
    EXPECT_EQ(ids_of(*file, Split::kTrain), train);
    EXPECT_EQ(file->split_tokens(Split::kValidation), 0u);
    EXPECT_EQ(documents_of(*file), (Starts{0, 3}));
    EXPECT_EQ(file->info().vocab, 128256u);
    EXPECT_EQ(file->info().token_bytes, 4u);
    EXPECT_EQ(file->info().tokenizer, "llama3");
}

TEST_F(ImportTest, NanoGptEndsItsDocumentsWithTheToken) {
    const Ids train{1, 2, 50256, 3, 4, 50256};
    const auto file = imported(from(put("train.bin", packed<std::uint16_t>(train))));
    EXPECT_EQ(ids_of(*file, Split::kTrain), train);
    EXPECT_EQ(documents_of(*file), (Starts{0, 3}));
}

TEST_F(ImportTest, SmallVocabularyIsNarrowedAndLargeFilesStream) {
    Ids train;
    for (std::uint32_t i = 0; i < 400000; ++i) train.push_back(i * 7 % 65);
    ImportOptions o = from(put("train.bin", packed<std::uint16_t>(train)));
    o.vocab = 65;
    std::uint64_t done = 0, total = 0;
    o.progress = [&](std::uint64_t d, std::uint64_t t) { done = d, total = t; };
    const auto file = imported(o);
    EXPECT_EQ(file->info().token_bytes, 1u);
    EXPECT_EQ(file->info().vocab, 65u);
    EXPECT_EQ(file->info().tokenizer, "imported");
    EXPECT_TRUE(ids_of(*file, Split::kTrain) == train);
    EXPECT_EQ(documents_of(*file), Starts{0});
    EXPECT_EQ(done, 800000u);
    EXPECT_EQ(total, 800000u);
}

TEST_F(ImportTest, VocabularyAndDocumentTokenCanBeGiven) {
    ImportOptions o = from(put("train.bin", gpt2({50300, 7, 1, 7, 2})));
    o.vocab = 50304;
    o.end_of_document = 7;
    EXPECT_EQ(documents_of(*imported(o)), (Starts{0, 1, 3}));
    o.end_of_document = 50304;
    std::filesystem::remove_all(at("out"));
    EXPECT_TRUE(has(error_of(o), "2: end-of-document id 50304"));
}

TEST_F(ImportTest, IdsBeyondTheVocabularyAreNamed) {
    EXPECT_TRUE(has(error_of(from(put("a.bin", gpt2({1, 2, 50257, 3})))),
                    "3: " + at("a.bin").string() + ": token 2 (byte 1028) has id 50257"));
    EXPECT_TRUE(has(error_of(from(put("b.bin", packed<std::uint16_t>({1, 60000})))),
                    "token 1 (byte 2) has id 60000"));
    EXPECT_TRUE(has(error_of(from(put("c.bin", llama3({1, 2, 3, 4000000000u})))),
                    "token 3 (byte 1036) has id 4000000000"));
}

TEST_F(ImportTest, WrongSizesVersionsAndFormatsAreRefused) {
    const std::string good = gpt2({1, 2, 3, 4});
    EXPECT_TRUE(
        has(error_of(from(put("a.bin", good.substr(0, good.size() - 2)))), "truncated or damaged"));
    EXPECT_TRUE(has(error_of(from(put("b.bin", good + "xx"))), "truncated or damaged"));
    EXPECT_TRUE(
        has(error_of(from(put("c.bin", llmc(20240520, 1, 0xffffffffu)))), "truncated or damaged"));
    EXPECT_TRUE(
        has(error_of(from(put("d.bin", llmc(20240520, 2, 0)))), "version 2, and only 1 is known"));
    EXPECT_TRUE(has(error_of(from(put("e.bin", "odd"))), "no whole number"));
    EXPECT_TRUE(has(error_of(from(at("missing.bin"))), "missing.bin"));
    EXPECT_TRUE(has(error_of(from(put("f.bin", ""))), "0 training"));
    EXPECT_TRUE(has(error_of(from(put("g.bin", good), put("h.bin", "ab"))), "different formats"));
    EXPECT_TRUE(
        has(error_of(from(put("g.bin", good), put("i.bin", llama3({1, 2})))), "different formats"));
    ImportOptions o = from(put("j.bin", "abcd"));
    o.format = "llmc";
    EXPECT_TRUE(has(error_of(o), "not an llm.c token file"));
    o.format = "parquet";
    EXPECT_TRUE(has(error_of(o), "2: unknown format"));
}

TEST_F(ImportTest, StopLeavesNothing) {
    ImportOptions o = from(put("train.bin", gpt2({1, 2, 3})));
    o.stop = [] { return true; };
    EXPECT_TRUE(has(error_of(o), "130: stopped"));
}

}  // namespace
}  // namespace isthmus::inner
