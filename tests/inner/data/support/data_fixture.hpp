// Files, packing and token files for the tests of inner/data.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <fstream>
#include <iterator>
#include <string>

#include "base/check.hpp"
#include "base/error.hpp"
#include "inner/data/prepare.hpp"
#include "tests/support/faulty_files.hpp"
#include "tests/support/temporary_folder.hpp"

namespace isthmus::inner {

inline constexpr RetryPolicy kNoWait{.retries = 3, .first_wait = std::chrono::milliseconds(0)};

inline std::string gzip(const std::string& text) {
    z_stream stream{};
    CHECK(deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
    std::string out(deflateBound(&stream, text.size()) + 64, '\0');
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    stream.avail_in = static_cast<uInt>(text.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END);
    out.resize(stream.total_out);
    deflateEnd(&stream);
    return out;
}

/// With a checksum, as the zstd program writes.
inline std::string zstd(const std::string& text) {
    std::string out(ZSTD_compressBound(text.size()), '\0');
    const std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context(ZSTD_createCCtx(),
                                                                       &ZSTD_freeCCtx);
    ZSTD_CCtx_setParameter(context.get(), ZSTD_c_checksumFlag, 1);
    out.resize(ZSTD_compress2(context.get(), out.data(), out.size(), text.data(), text.size()));
    return out;
}

/// Text that packs, but not to nothing; its bytes differ from place to place.
inline std::string sample_text(std::size_t bytes, unsigned seed = 1) {
    std::string text;
    while (text.size() < bytes) {
        seed = seed * 1664525u + 1013904223u;
        text += "word" + std::to_string(seed >> 20) + (seed % 7 == 0 ? "\n" : " ");
    }
    text.resize(bytes);
    return text;
}

class DataTest : public testing::Test {
  protected:
    Path at(const std::string& name) const { return folder_.path() / name; }

    Path put(const std::string& name, const std::string& bytes) const {
        std::ofstream(at(name), std::ios::binary) << bytes;
        return at(name);
    }
    static std::string get(const Path& path) {
        std::ifstream in(path, std::ios::binary);
        return {std::istreambuf_iterator<char>(in), {}};
    }

    PrepareOptions options(std::vector<Path> inputs, const std::string& out = "out",
                           double validation = 0.1) const {
        PrepareOptions o;
        o.inputs = std::move(inputs);
        o.out = at(out);
        o.validation = validation;
        o.retry = kNoWait;
        return o;
    }

    /// All tokens of a split as bytes.
    static std::string text_of(TokenFile& file, Split split) {
        std::vector<std::int32_t> ids(file.split_tokens(split));
        const Status status = file.read(split, 0, ids);
        EXPECT_TRUE(status) << (status ? "" : status.error().message);
        return {ids.begin(), ids.end()};
    }
    static std::string all_text(TokenFile& file) {
        return text_of(file, Split::kTrain) + text_of(file, Split::kValidation);
    }
    static std::vector<std::uint64_t> documents_of(TokenFile& file) {
        std::vector<std::uint64_t> starts(file.info().documents);
        EXPECT_TRUE(file.read_documents(0, starts));
        return starts;
    }

    /// The message of the Fatal that `action` throws, with its exit code in front.
    template <class Action>
    static std::string fatal_of(Action action) {
        try {
            action();
        } catch (const Fatal& e) {
            return std::to_string(static_cast<int>(e.code())) + ": " + e.what();
        }
        return "nothing was thrown";
    }

    test::TemporaryFolder folder_;
    std::unique_ptr<FileSystem> files_ = posix_files();
};

inline testing::AssertionResult has(const std::string& text, const std::string& part) {
    if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "\"" << part << "\" is not in: " << text;
}

}  // namespace isthmus::inner
