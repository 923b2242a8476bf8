#include "checkpoint/safetensors.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>

#include "base/error.hpp"
#include "tests/support/temporary_folder.hpp"

namespace isthmus::checkpoint {
namespace {

class Safetensors : public testing::Test {
  protected:
    Path path(const std::string& name) const { return folder_.path() / name; }
    void put(const std::string& name, const std::string& bytes) {
        std::ofstream(path(name), std::ios::binary) << bytes;
    }
    std::string get(const std::string& name) {
        std::ifstream in(path(name), std::ios::binary);
        return {std::istreambuf_iterator<char>(in), {}};
    }
    auto open(const std::string& name) { return SafetensorsReader::open(*files_, path(name)); }
    auto create(const std::string& name, std::vector<SafetensorsWriter::Tensor> tensors) {
        return SafetensorsWriter::create(*files_, path(name), std::move(tensors));
    }

    test::TemporaryFolder folder_;
    std::unique_ptr<FileSystem> files_ = posix_files();
};

std::string with_length(std::uint64_t length, const std::string& rest) {
    const auto bytes = std::bit_cast<std::array<char, 8>>(length);
    return std::string(bytes.begin(), bytes.end()) + rest;
}
std::string file_of(const std::string& header, std::size_t data_bytes) {
    return with_length(header.size(), header + std::string(data_bytes, '\1'));
}

std::vector<float> read_all(SafetensorsReader& reader, const std::string& name) {
    const TensorEntry* entry = reader.find(name);
    EXPECT_NE(entry, nullptr) << name;
    std::vector<float> values(static_cast<std::size_t>(entry->count()));
    reader.read(*entry, 0, values);
    return values;
}

void write_pair(SafetensorsWriter& writer) {
    writer.write(std::vector<float>{1, 2, 3});  // pieces need not end where tensors do
    writer.write(std::vector<float>{4, 5, 6, 0.5f, -1.5f});
    writer.finish();
}
const std::vector<SafetensorsWriter::Tensor> kPair = {{"a", FileType::kF32, {2, 3}},
                                                      {"b", FileType::kBF16, {2}}};

TEST_F(Safetensors, WritesWhatItReads) {
    write_pair(*create("x.safetensors", kPair));
    const auto reader = open("x.safetensors");
    EXPECT_EQ(read_all(*reader, "a"), (std::vector<float>{1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(read_all(*reader, "b"), (std::vector<float>{0.5f, -1.5f}));
    EXPECT_EQ(reader->find("a")->dims, (std::vector<std::int64_t>{2, 3}));
    EXPECT_EQ(reader->find("c"), nullptr);
    std::vector<float> part(2);
    reader->read(*reader->find("a"), 3, part);
    EXPECT_EQ(part, (std::vector<float>{4, 5}));
    EXPECT_FALSE(files_->exists(path("x.safetensors.tmp")));
}

TEST_F(Safetensors, DataBeginsAtAMultipleOfEight) {
    for (const char* name : {"a", "ab", "abc", "abcdefgh"}) {
        auto writer = create("x.safetensors", {{name, FileType::kF32, {1}}});
        writer->write(std::vector<float>{1});
        writer->finish();
        std::uint64_t length = 0;
        std::memcpy(&length, get("x.safetensors").data(), 8);
        EXPECT_EQ(length % 8, 0u);
    }
}

TEST_F(Safetensors, NothingAppearsBeforeFinish) {
    {
        auto writer = create("x.safetensors", kPair);
        writer->write(std::vector<float>{1});
        EXPECT_FALSE(files_->exists(path("x.safetensors")));
    }
    EXPECT_TRUE(files_->list(folder_.path()).value().empty());
}

TEST_F(Safetensors, UnwritableFolderIsAResourceError) {
    try {
        create("missing/x.safetensors", kPair);
        FAIL();
    } catch (const Fatal& e) {
        EXPECT_EQ(e.code(), ExitCode::kResources);
        EXPECT_NE(std::string(e.what()).find("x.safetensors"), std::string::npos);
    }
}

TEST_F(Safetensors, HalvesReadExactly) {
    std::string data;
    for (int h = 0; h < 65536; ++h) data += {static_cast<char>(h & 255), static_cast<char>(h >> 8)};
    const std::string header = R"({"h":{"dtype":"F16","shape":[65536],"data_offsets":[0,131072]}})";
    put("x.safetensors", with_length(header.size(), header + data));
    const std::vector<float> values = read_all(*open("x.safetensors"), "h");
    for (int h = 0; h < 65536; ++h) {
        const int exponent = (h >> 10) & 31, fraction = h & 1023;
        const float sign = h >= 32768 ? -1.0f : 1.0f;
        const float got = values[static_cast<std::size_t>(h)];
        if (exponent == 31 && fraction != 0) {
            EXPECT_TRUE(std::isnan(got)) << h;
            continue;
        }
        const float want = exponent == 31 ? std::numeric_limits<float>::infinity()
                           : exponent == 0
                               ? std::ldexp(static_cast<float>(fraction), -24)
                               : std::ldexp(1024.0f + static_cast<float>(fraction), exponent - 25);
        EXPECT_EQ(std::bit_cast<std::uint32_t>(got), std::bit_cast<std::uint32_t>(sign * want))
            << h;
    }
}

TEST_F(Safetensors, OtherTypesAreListedButNotRead) {
    put("x.safetensors", file_of(R"({"i":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}})", 8));
    const auto reader = open("x.safetensors");
    EXPECT_EQ(reader->find("i")->type, FileType::kOther);
    std::vector<float> out(1);
    EXPECT_THROW(reader->read(*reader->find("i"), 0, out), Fatal);
}

TEST_F(Safetensors, EachLieIsRefusedByName) {
    const std::string a = R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
    struct Lie {
        std::string header;
        std::size_t data_bytes;
        const char* part;
    };
    const Lie lies[] = {
        {"[]", 0, "begin with {"},
        {"{" + a, 8, "bad JSON"},
        {"{" + a + "} x", 8, "bad JSON"},
        {"{" + a + "," + a + "}", 8, "stands twice"},
        {R"({"a":1})", 0, "a number where none belongs"},
        {R"({"a":{"dtype":"F32","shape":[2]}})", 8, "missing"},
        {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}})", 8, "unknown key \"x\""},
        {R"({"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8, "twice"},
        {R"({"a":{"dtype":"F33","shape":[2],"data_offsets":[0,8]}})", 8, "unknown type \"F33\""},
        {R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8, "negative"},
        {R"({"a":{"dtype":"F32","shape":[2.5],"data_offsets":[0,8]}})", 8, "whole"},
        {R"({"a":{"dtype":"F32","shape":[1e30],"data_offsets":[0,8]}})", 8, "whole"},
        {R"({"a":{"dtype":"F32","shape":[99999999999999999999],"data_offsets":[0,8]}})", 8,
         "whole"},
        {R"({"a":{"dtype":"F32","shape":[[2]],"data_offsets":[0,8]}})", 8, "list"},
        {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}})", 8, "two numbers"},
        {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,9]}})", 8, "two numbers"},
        {R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8, "needs 12 bytes"},
        {R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", 0,
         "overflows"},
        {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,18446744073709551615]}})", 8,
         "claims bytes"},
        {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8, "claims bytes"},
        {"{" + a + "}", 7, "claims bytes"},
        {"{" + a + "}", 9, "the tensors end at byte 8"},
        {"{" + a + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8, "overlaps"},
        {"{" + a + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[12,16]}})", 16, "gap"},
        {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", 12, "gap"},
        {R"({"__metadata__":{"x":1}})", 0, "number"},
        {R"({"__metadata__":{},"__metadata__":{}})", 0, "twice"},
        {std::string("{\"a\":{\"dtype\":\"F32\",\"shape\":[") + std::string(50, '1') + "]}}", 0,
         "whole"},
    };
    for (const Lie& lie : lies) {
        put("x.safetensors", file_of(lie.header, lie.data_bytes));
        try {
            open("x.safetensors");
            ADD_FAILURE() << "accepted: " << lie.header;
        } catch (const Fatal& e) {
            EXPECT_EQ(e.code(), ExitCode::kInput);
            EXPECT_NE(std::string(e.what()).find(lie.part), std::string::npos)
                << lie.header << "\n-> " << e.what();
            EXPECT_NE(std::string(e.what()).find("x.safetensors"), std::string::npos);
        }
    }
}

TEST_F(Safetensors, HugeHeaderLengthsAreRefusedBeforeAllocating) {
    for (const std::uint64_t length : {~0ull, 1ull << 40, 100'000'001ull, 9ull}) {
        put("x.safetensors", with_length(length, "{}      "));
        EXPECT_THROW(open("x.safetensors"), Fatal) << length;
    }
    put("x.safetensors", "short");
    EXPECT_THROW(open("x.safetensors"), Fatal);
    put("x.safetensors", "");
    EXPECT_THROW(open("x.safetensors"), Fatal);
}

TEST_F(Safetensors, DamagedHeadersNeverReadAsOtherContent) {
    write_pair(*create("whole.safetensors", kPair));
    const std::string whole = get("whole.safetensors");
    std::uint64_t length = 0;
    std::memcpy(&length, whole.data(), 8);
    const std::size_t header_end = 8 + length;
    int opened = 0;
    for (std::size_t byte = 0; byte < header_end; ++byte) {
        for (int bit = 0; bit < 8; ++bit) {
            std::string damaged = whole;
            damaged[byte] = static_cast<char>(damaged[byte] ^ (1 << bit));
            put("x.safetensors", damaged);
            try {
                const auto reader = open("x.safetensors");
                ++opened;  // another name, type or shape of the same size: legal, and still in
                           // bounds
                for (const TensorEntry& e : reader->tensors()) {
                    if (e.type != FileType::kOther) read_all(*reader, e.name);
                }
            } catch (const Fatal& e) {
                EXPECT_EQ(e.code(), ExitCode::kInput);
            }
        }
    }
    EXPECT_LT(opened, 100);
    for (std::size_t size = 0; size < whole.size(); ++size) {
        put("x.safetensors", whole.substr(0, size));
        EXPECT_THROW(open("x.safetensors"), Fatal) << size;
    }
}

class Sharded : public Safetensors {
  protected:
    void shard(const std::string& name, const std::string& tensor, float value) {
        auto writer = create(name, {{tensor, FileType::kF32, {1}}});
        writer->write(std::vector<float>{value});
        writer->finish();
    }
    void index(const std::string& map) {
        put("model.safetensors.index.json", R"({"metadata":{},"weight_map":)" + map + "}");
    }
    std::string refusal() {
        try {
            open("");
        } catch (const Fatal& e) {
            return e.what();
        }
        return "accepted";
    }
};

TEST_F(Sharded, ReadsAsOne) {
    shard("one.safetensors", "a", 1);
    shard("two.safetensors", "b", 2);
    index(R"({"a":"one.safetensors","b":"two.safetensors"})");
    const auto reader = open("");
    EXPECT_EQ(reader->tensors().size(), 2u);
    EXPECT_EQ(read_all(*reader, "a"), std::vector<float>{1});
    EXPECT_EQ(read_all(*reader, "b"), std::vector<float>{2});
}

TEST_F(Sharded, LyingIndexIsRefused) {
    shard("one.safetensors", "a", 1);
    index(R"({"a":"one.safetensors","b":"three.safetensors"})");
    EXPECT_NE(refusal().find("three.safetensors: the index names this shard"), std::string::npos);
    index(R"({"a":"one.safetensors","b":"one.safetensors"})");
    EXPECT_NE(refusal().find("puts tensor \"b\" here"), std::string::npos);
    for (const char* name : {"../one.safetensors", "/etc/one.safetensors", "..", "", "a\\u0000b",
                             "sub/one.safetensors"}) {
        index(std::string(R"({"a":")") + name + "\"}");
        EXPECT_NE(refusal().find("not a plain file name"), std::string::npos) << name;
    }
    index(R"({"a":1})");
    EXPECT_NE(refusal().find("not text"), std::string::npos);
    index("{}");
    EXPECT_NE(refusal().find("0 shards"), std::string::npos);
    index("[");
    EXPECT_NE(refusal().find("not an index"), std::string::npos);
}

TEST_F(Sharded, ATensorInTwoShardsIsRefused) {
    auto writer =
        create("two.safetensors", {{"a", FileType::kF32, {1}}, {"b", FileType::kF32, {1}}});
    writer->write(std::vector<float>{1, 2});
    writer->finish();
    shard("one.safetensors", "a", 1);
    index(R"({"a":"one.safetensors","b":"two.safetensors"})");
    EXPECT_NE(refusal().find("another shard"), std::string::npos);
}

TEST_F(Sharded, AFolderWithoutTensorsSaysWhatItLacks) {
    EXPECT_NE(refusal().find("model.safetensors"), std::string::npos);
}

}  // namespace
}  // namespace isthmus::checkpoint
