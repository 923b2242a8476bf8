#include "inner/data/byte_source.hpp"

#include "tests/inner/data/support/data_fixture.hpp"

namespace isthmus::inner {
namespace {

class ByteSourceTest : public DataTest {
  protected:
    std::string read_all(const Path& path, std::size_t step = 100000) {
        const auto source = open_source(*files_, path, kNoWait);
        std::vector<std::byte> piece(step);
        std::string text;
        while (const std::size_t count = source->read(piece))
            text.append(reinterpret_cast<const char*>(piece.data()), count);
        EXPECT_EQ(source->read(piece), 0u);  // the end stays the end
        EXPECT_EQ(source->consumed_bytes(), std::filesystem::file_size(path));
        return text;
    }
    std::string error_of(const Path& path) {
        return fatal_of([&] { read_all(path); });
    }

    // Longer than zlib's and zstd's windows and our input buffer.
    const std::string text_ = sample_text(1500000);
};

TEST_F(ByteSourceTest, NamesDecideTheKind) {
    using P = InputKind::Packing;
    const struct {
        const char* name;
        P packing;
        bool jsonl;
    } cases[] = {{"a.txt", P::kNone, false},     {"a.gz", P::kGzip, false},
                 {"a.dict.dz", P::kGzip, false}, {"A.GZ", P::kGzip, false},
                 {"a.zst", P::kZstd, false},     {"a.jsonl", P::kNone, true},
                 {"a.jsonl.gz", P::kGzip, true}, {"a.jsonl.zst", P::kZstd, true},
                 {"a.gz.jsonl", P::kNone, true}, {"jsonl", P::kNone, false}};
    for (const auto& c : cases) {
        EXPECT_EQ(input_kind(c.name).packing, c.packing) << c.name;
        EXPECT_EQ(input_kind(c.name).jsonl, c.jsonl) << c.name;
    }
}

TEST_F(ByteSourceTest, EveryPackingGivesTheSameBytesWhateverTheStep) {
    const std::vector<Path> paths{put("a.txt", text_), put("a.gz", gzip(text_)),
                                  put("a.dz", gzip(text_)), put("a.zst", zstd(text_))};
    for (const Path& path : paths) {
        for (const std::size_t step : {std::size_t{17}, std::size_t{4096}, std::size_t{1} << 21})
            EXPECT_TRUE(read_all(path, step) == text_) << path << " in steps of " << step;
    }
}

TEST_F(ByteSourceTest, SeveralMembersAndFramesAreOneText) {
    std::string gz, zst;
    for (std::size_t at = 0; at < text_.size(); at += 400000) {
        gz += gzip(text_.substr(at, 400000));
        zst += zstd(text_.substr(at, 400000));
    }
    EXPECT_TRUE(read_all(put("many.gz", gz + gzip(""))) == text_);
    EXPECT_TRUE(read_all(put("many.zst", zst + zstd(""))) == text_);
    EXPECT_TRUE(read_all(put("padded.gz", gz + std::string(1000, '\0'))) == text_);
    EXPECT_EQ(read_all(put("empty.gz", gzip(""))), "");
    EXPECT_EQ(read_all(put("empty.zst", zstd(""))), "");
    EXPECT_EQ(read_all(put("empty.txt", "")), "");
}

TEST_F(ByteSourceTest, TruncationIsAnErrorAtEachLength) {
    const std::string small = sample_text(3000);
    const std::string gz = gzip(small), zst = zstd(small);
    for (std::size_t size = 2; size < gz.size();
         size += size < 20 || size + 20 > gz.size() ? 1 : 50) {
        const std::string error = error_of(put("cut.gz", gz.substr(0, size)));
        EXPECT_TRUE(has(error, "3: " + at("cut.gz").string() +
                                   ": truncated gzip: it ends at byte " + std::to_string(size)));
    }
    for (std::size_t size = 1; size < zst.size();
         size += size < 20 || size + 20 > zst.size() ? 1 : 50) {
        const std::string error = error_of(put("cut.zst", zst.substr(0, size)));
        EXPECT_TRUE(has(error, "truncated zstd: it ends at byte " + std::to_string(size)));
    }
    EXPECT_TRUE(has(error_of(put("cut2.gz", gz + gz.substr(0, 30))), "truncated gzip"));
}

TEST_F(ByteSourceTest, DamageIsNamedWithItsPlace) {
    std::string gz = gzip(text_);
    gz[gz.size() - 6] = static_cast<char>(gz[gz.size() - 6] ^ 1);  // the CRC
    EXPECT_TRUE(has(error_of(put("crc.gz", gz)), "damaged gzip near byte"));
    EXPECT_TRUE(has(error_of(put("crc.gz", gz)), "incorrect data check"));
    EXPECT_TRUE(has(error_of(put("tail.gz", gzip("ab") + "junk")), "damaged gzip near byte"));
    EXPECT_TRUE(has(error_of(put("pad.gz", gzip("ab") + std::string(3, '\0') + "junk")),
                    "data after the gzip's padding"));
    std::string zst = zstd(text_);
    for (std::size_t i = 1000; i < 1050; ++i) zst[i] = static_cast<char>(zst[i] ^ 0x5a);
    EXPECT_TRUE(has(error_of(put("bad.zst", zst)), "damaged zstd near byte"));
    EXPECT_TRUE(has(error_of(put("tail.zst", zstd("ab") + "junk junk")), "damaged zstd near byte"));
}

TEST_F(ByteSourceTest, PackedBytesNeverPassAsText) {
    EXPECT_TRUE(has(error_of(put("a.txt", gzip("hello"))), "this is gzip"));
    EXPECT_TRUE(has(error_of(put("b.jsonl", zstd("hello"))), "give it the ending .zst"));
    EXPECT_TRUE(has(error_of(put("c.txt", std::string("\xfd"
                                                      "7zXZ\0more",
                                                      10))),
                    "this is xz"));
    EXPECT_TRUE(has(error_of(put("d.bz2", "BZh91AY&SY...")), "this is bzip2"));
    EXPECT_TRUE(has(error_of(put("e.zip", "PK\x03\x04...")), "this is zip"));
    EXPECT_TRUE(has(error_of(put("f.parquet", "PAR1...")), "this is parquet"));
    EXPECT_TRUE(has(error_of(put("g.gz", "plain text")), "not gzip"));
    EXPECT_TRUE(has(error_of(put("h.zst", "plain text")), "damaged zstd near byte"));
}

TEST_F(ByteSourceTest, MissingFilesAndFoldersAreRefused) {
    EXPECT_TRUE(has(error_of(at("no.txt")), "No such file"));
    EXPECT_TRUE(has(error_of(folder_.path()), "Is a directory"));
}

}  // namespace
}  // namespace isthmus::inner
