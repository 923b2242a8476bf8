#include "inner/data/prepare.hpp"

#include <cmath>

#include "inner/data/token_format.hpp"
#include "tests/inner/data/support/data_fixture.hpp"

namespace isthmus::inner {
namespace {

using test::FaultyFiles;
using test::FileOp;

class PrepareTest : public DataTest {
  protected:
    std::unique_ptr<TokenFile> prepared(const PrepareOptions& o) {
        prepare(*files_, o);
        return TokenFile::open(*files_, o.out, kNoWait);
    }
    std::string error_of(const PrepareOptions& o) {
        return fatal_of([&] { prepare(*files_, o); });
    }
    static std::string jsonl(const std::vector<std::string>& texts) {
        std::string lines;
        for (const auto& text : texts) {
            std::string escaped;
            for (const char c : text) escaped += c == '\n' ? std::string("\\n") : std::string(1, c);
            lines += "{\"text\":\"" + escaped + "\"}\n";
        }
        return lines;
    }
    static void expect_nothing_but(const Path& folder, const std::vector<std::string>& names) {
        std::vector<std::string> found;
        for (const auto& entry : std::filesystem::directory_iterator(folder))
            found.push_back(entry.path().filename().string());
        std::sort(found.begin(), found.end());
        EXPECT_EQ(found, names);
    }
};

TEST_F(PrepareTest, AllInputKindsGiveEqualTokens) {
    const std::string text = sample_text(300000);
    const std::string lines = jsonl({text});
    const std::vector<Path> inputs{put("a.txt", text),
                                   put("b.gz", gzip(text)),
                                   put("c.dz", gzip(text)),
                                   put("d.zst", zstd(text)),
                                   put("e.jsonl", lines),
                                   put("f.jsonl.gz", gzip(lines)),
                                   put("g.jsonl.zst", zstd(lines))};
    std::vector<std::uint64_t> fingerprints;
    for (const Path& input : inputs) {
        const auto file = prepared(options({input}, "out-" + input.filename().string()));
        EXPECT_TRUE(all_text(*file) == text) << input;
        EXPECT_TRUE(file->verify({}));
        fingerprints.push_back(file->info().fingerprint);
    }
    EXPECT_EQ(fingerprints, std::vector<std::uint64_t>(inputs.size(), fingerprints[0]));
}

TEST_F(PrepareTest, InputsFollowEachOtherAndDocumentsAreIndexed) {
    const auto file =
        prepared(options({put("a", "first"), put("none", ""),
                          put("b.jsonl", jsonl({"xy", "", "z"})), put("c", "last one")}));
    EXPECT_EQ(all_text(*file), "firstxyzlast one");
    EXPECT_EQ(documents_of(*file), (std::vector<std::uint64_t>{0, 5, 7, 8}));
    EXPECT_TRUE(file->verify({}));
}

TEST_F(PrepareTest, EveryByteValueIsAToken) {
    std::string text;
    for (int i = 0; i < 256; ++i) text += static_cast<char>(i);
    const auto file = prepared(options({put("all", text)}, "out", 0));
    std::vector<std::int32_t> ids(256);
    ASSERT_TRUE(file->read(Split::kTrain, 0, ids));
    for (int i = 0; i < 256; ++i) EXPECT_EQ(ids[static_cast<std::size_t>(i)], i);
}

TEST_F(PrepareTest, ManyDocumentsAreSpilledAndComeBackInOrder) {
    // More than twice the 65536 document starts that are kept in memory.
    std::string lines;
    constexpr std::uint64_t kDocuments = 150001;
    for (std::uint64_t i = 0; i < kDocuments; ++i)
        lines += std::string("{\"text\":\"") + (i % 2 == 0 ? "ab" : "c") + "\"}\n";
    const auto file = prepared(options({put("many.jsonl", lines)}));
    EXPECT_EQ(file->info().documents, kDocuments);
    const auto starts = documents_of(*file);
    for (std::uint64_t i = 0; i < kDocuments; ++i) ASSERT_EQ(starts[i], i / 2 * 3 + i % 2 * 2);
    std::vector<std::uint64_t> some(3);
    ASSERT_TRUE(file->read_documents(140000, some));
    EXPECT_EQ(some, (std::vector<std::uint64_t>{210000, 210002, 210003}));
    EXPECT_TRUE(file->verify({}));
    expect_nothing_but(at("out"), {kTokenFileName});
}

TEST_F(PrepareTest, ValidationIsTheEndAndMovesToANearDocumentBoundary) {
    const auto cut = [&](const std::vector<std::size_t>& sizes, double validation) {
        std::vector<std::string> texts;
        for (const std::size_t size : sizes) texts.push_back(std::string(size, 'x'));
        PrepareOptions o = options({put("docs.jsonl", jsonl(texts))}, "cut", validation);
        o.overwrite = true;
        return prepare(*files_, o).train_tokens;
    };
    EXPECT_EQ(cut({10000}, 0.1), 9000u);          // no boundary near
    EXPECT_EQ(cut({9050, 950}, 0.1), 9050u);      // one within 1 %
    EXPECT_EQ(cut({8900, 1100}, 0.1), 8900u);     // at exactly 1 %
    EXPECT_EQ(cut({8899, 1101}, 0.1), 9000u);     // just too far
    EXPECT_EQ(cut({8950, 80, 970}, 0.1), 9030u);  // the nearer of two
    EXPECT_EQ(cut({8960, 80, 960}, 0.1), 8960u);  // of two equally near, the first
    EXPECT_EQ(cut({9900, 100}, 0.02), 9900u);     // leaves half the share: still taken
    EXPECT_EQ(cut({9980, 20}, 0.01), 9900u);      // would leave a fifth of it
    EXPECT_EQ(cut({5000, 5000}, 0), 10000u);      // no validation
}

TEST_F(PrepareTest, ProgressRisesToTheTotalOfThePackedFiles) {
    const std::string text = sample_text(900000);
    PrepareOptions o = options({put("a.gz", gzip(text)), put("b.txt", text)});
    std::vector<std::uint64_t> seen;
    std::uint64_t total = 0;
    o.progress = [&](std::uint64_t done, std::uint64_t all) {
        seen.push_back(done);
        total = all;
    };
    prepare(*files_, o);
    EXPECT_EQ(total, std::filesystem::file_size(at("a.gz")) + text.size());
    EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
    EXPECT_GT(seen.size(), 6u);
    EXPECT_EQ(seen.back(), total);
}

TEST_F(PrepareTest, StopLeavesNothing) {
    PrepareOptions o = options({put("a.txt", sample_text(3000000))}, "deep/er/out");
    int asked = 0;
    o.stop = [&] { return ++asked > 5; };
    EXPECT_TRUE(has(error_of(o), "130: stopped"));
    EXPECT_EQ(asked, 6);
    expect_nothing_but(folder_.path(), {"a.txt"});
}

TEST_F(PrepareTest, AnExistingFileIsKeptUntilTheNewOneIsComplete) {
    const Path input = put("a.txt", sample_text(5000));
    prepare(*files_, options({input}));
    const std::string before = get(at("out") / kTokenFileName);
    EXPECT_TRUE(
        has(error_of(options({input})), "2: " + (at("out") / kTokenFileName).string() + " exists"));
    PrepareOptions o =
        options({put("b.txt", sample_text(6000, 2)), put("bad.gz", gzip("x").substr(0, 12))});
    o.overwrite = true;
    EXPECT_TRUE(has(error_of(o), "truncated gzip"));
    EXPECT_EQ(get(at("out") / kTokenFileName), before);
    expect_nothing_but(at("out"), {kTokenFileName});
    o.inputs.pop_back();
    EXPECT_EQ(prepare(*files_, o).tokens, 6000u);
}

TEST_F(PrepareTest, BadInputIsNamedAndLeavesNothing) {
    const Path good = put("a.txt", "some text that is long enough");
    EXPECT_TRUE(has(error_of(options({good, at("missing")})), "3: " + at("missing").string()));
    EXPECT_TRUE(has(error_of(options({good, put("b.jsonl", "{\"text\":\"x\"}\n{}\n")})),
                    "b.jsonl: line 2: no field"));
    EXPECT_TRUE(has(error_of(options({put("empty", "")})), "0 tokens"));
    EXPECT_TRUE(has(error_of(options({put("one", "x")}, "out", 0)), "1 tokens"));
    EXPECT_TRUE(has(error_of(options({put("ten", "0123456789")})), "too few to hold out"));
    EXPECT_FALSE(std::filesystem::exists(at("out")));
}

TEST_F(PrepareTest, ContradictoryOptionsAreRefused) {
    const Path good = put("a.txt", "some text that is long enough");
    EXPECT_TRUE(has(error_of(options({})), "2: no input"));
    for (const double share : {-0.1, 1.0, 2.0, std::nan("")})
        EXPECT_TRUE(has(error_of(options({good}, "out", share)), "2: validation share"));
    PrepareOptions o = options({good});
    o.tokenizer = "bpe";
    EXPECT_TRUE(has(error_of(o), "2: unknown tokenizer \"bpe\""));
    EXPECT_FALSE(std::filesystem::exists(at("out")));
}

TEST_F(PrepareTest, AFullDiskAtAnyCallLeavesNothing) {
    std::string lines;
    for (int i = 0; i < 66000; ++i) lines += "{\"text\":\"some words of text\"}\n";  // spills too
    const Path input = put("a.jsonl", lines);
    int failures = 0;
    for (const FileOp op : {FileOp::kMakeFolders, FileOp::kCreate, FileOp::kAppend,
                            FileOp::kWriteAt, FileOp::kSync, FileOp::kClose, FileOp::kRename}) {
        for (std::uint64_t nth = 1;; ++nth) {
            FaultyFiles faulty(*files_);
            faulty.fail({.op = op, .nth = nth, .error = ENOSPC});
            PrepareOptions o = options({input}, "full/out");
            const std::string error = fatal_of([&] { prepare(faulty, o); });
            if (error == "nothing was thrown") {
                std::filesystem::remove_all(at("full"));
                break;
            }
            ++failures;
            EXPECT_TRUE(has(error, "4: cannot write tokens: "));
            EXPECT_TRUE(has(error, "No space left on device"));
            expect_nothing_but(folder_.path(), {"a.jsonl"});
        }
    }
    EXPECT_GE(failures, 14);
}

TEST_F(PrepareTest, ReadErrorsAreRetriedThenNamed) {
    const std::string text = sample_text(900000);
    const Path input = put("a.txt", text);
    {
        FaultyFiles faulty(*files_);
        faulty.fail({.op = FileOp::kRead, .nth = 3, .error = EIO, .only = "a.txt"});
        prepare(faulty, options({input}));
        EXPECT_TRUE(all_text(*TokenFile::open(*files_, at("out"), kNoWait)) == text);
    }
    FaultyFiles faulty(*files_);
    faulty.fail({.op = FileOp::kRead,
                 .nth = 3,
                 .error = EIO,
                 .times = FaultyFiles::kForever,
                 .only = "a.txt"});
    const std::string error = fatal_of([&] { prepare(faulty, options({input}, "other")); });
    EXPECT_TRUE(has(error, "3: " + input.string() + ": at byte 262144: "));
    EXPECT_TRUE(has(error, "tried 4 times"));
    EXPECT_FALSE(std::filesystem::exists(at("other")));
}

}  // namespace
}  // namespace isthmus::inner
