// Codecs against fp64 references, and the promise that rounding has no bias.
#include "outer/codec.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "base/bf16.hpp"
#include "base/random.hpp"

namespace isthmus::outer {
namespace {

using Floats = std::vector<float>;
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kLargest = std::numeric_limits<float>::max();
constexpr std::array kCodecs = {Codec::kFp32, Codec::kBf16, Codec::kInt8};

std::vector<std::byte> encoded(Codec codec, const Floats& x, std::uint64_t key = 1,
                               std::int64_t offset = 0) {
    std::vector<std::byte> out(encoded_bytes(codec, static_cast<std::int64_t>(x.size())));
    encode(codec, x, key, offset, out);
    return out;
}
Floats decoded(Codec codec, const std::vector<std::byte>& bytes, std::size_t n) {
    Floats out(n, kNan);
    decode(codec, bytes, out);
    return out;
}
Floats round_trip(Codec codec, const Floats& x, std::uint64_t key = 1, std::int64_t offset = 0) {
    return decoded(codec, encoded(codec, x, key, offset), x.size());
}
Floats normals(std::size_t n, float size, std::uint64_t seed = 5) {
    Floats x(n);
    for (std::size_t i = 0; i < n; ++i) x[i] = size * static_cast<float>(random_normal(seed, i));
    return x;
}

/// The step between the two values that x can decode to, in fp64: the codec's definition.
double step_of(Codec codec, const Floats& x, std::size_t i) {
    if (codec == Codec::kFp32) return 0;
    if (codec == Codec::kBf16) {
        const auto up = std::bit_cast<std::uint32_t>(std::fabs(x[i])) & 0xffff0000u;
        return static_cast<double>(std::bit_cast<float>(up + 0x10000u)) - std::bit_cast<float>(up);
    }
    double largest = 0;
    const std::size_t block = i / 256 * 256;
    for (std::size_t k = block; k < std::min(block + 256, x.size()); ++k)
        largest = std::max(largest, std::fabs(static_cast<double>(x[k])));
    return std::max(largest / 127, 0x1p-126);
}

TEST(Codec, Names) {
    for (const Codec codec : kCodecs) EXPECT_EQ(codec_named(name(codec)).value(), codec);
    EXPECT_EQ(codec_named("int7").error().message, "codec \"int7\" is none of fp32, bf16, int8");
}

TEST(Codec, Sizes) {
    for (const auto& [n, bytes] : {std::pair{0, 0}, {1, 5}, {256, 260}, {257, 265}, {512, 520}})
        EXPECT_EQ(encoded_bytes(Codec::kInt8, n), static_cast<std::size_t>(bytes));
    EXPECT_EQ(encoded_bytes(Codec::kBf16, 3), 6u);
    EXPECT_EQ(encoded_bytes(Codec::kFp32, 3), 12u);
}

// SCENARIOS 22: empty, one element, odd sizes, sizes around blocks; every size of numbers.
TEST(Codec, ErrorIsBelowOneStepOfTheReference) {
    for (const Codec codec : kCodecs) {
        for (const std::size_t n : {0, 1, 2, 3, 17, 255, 256, 257, 511, 513, 4099}) {
            for (const float size : {1e-44f, 1e-40f, 1e-36f, 1e-3f, 1.0f, 1e30f}) {
                const Floats x = normals(n, size);
                const Floats y = round_trip(codec, x);
                for (std::size_t i = 0; i < n; ++i) {
                    const double step = step_of(codec, x, i);
                    ASSERT_LE(std::fabs(static_cast<double>(y[i]) - x[i]), step * (1 + 1e-5))
                        << name(codec) << " n " << n << " size " << size << " i " << i;
                    ASSERT_TRUE(x[i] == 0 || y[i] == 0 || std::signbit(x[i]) == std::signbit(y[i]));
                }
            }
        }
    }
}

TEST(Codec, Fp32KeepsEveryBit) {
    const Floats x{0.0f, -0.0f, 0x1p-149f, kLargest, -kInf, 1.0f / 3};
    const Floats y = round_trip(Codec::kFp32, x);
    for (std::size_t i = 0; i < x.size(); ++i)
        EXPECT_EQ(std::bit_cast<std::uint32_t>(y[i]), std::bit_cast<std::uint32_t>(x[i]));
}

TEST(Codec, WhatIsOnTheGridStays) {
    Floats grid;
    for (int q = -127; q <= 127; ++q) grid.push_back(static_cast<float>(q) * 0.25f);
    Floats halves = normals(1000, 1);
    for (float& h : halves) h = to_float(to_bf16(h));
    for (std::uint64_t key = 0; key < 50; ++key) {
        EXPECT_EQ(round_trip(Codec::kInt8, grid, key), grid);
        EXPECT_EQ(round_trip(Codec::kBf16, halves, key), halves);
    }
}

TEST(Codec, Int8BlockOfZeros) {
    Floats x(512, 0.0f);
    x[3] = -0.0f;
    x[256] = 1.0f;
    const auto bytes = encoded(Codec::kInt8, x);
    for (std::size_t i = 0; i < 260; ++i) EXPECT_EQ(bytes[i], std::byte{0});
    EXPECT_EQ(decoded(Codec::kInt8, bytes, 512)[256], 1.0f);
}

// largest / 127 would be one unit in the last place where 1.42 are wanted, and 180 units were cut
// to 127.
TEST(Codec, Int8ScaleIsNeverSubnormal) {
    for (const float largest : {0x1p-149f, 180 * 0x1p-149f, 1e-40f, 1e-37f}) {
        const auto bytes = encoded(Codec::kInt8, {largest, 0.0f});
        float scale = 0;
        std::memcpy(&scale, bytes.data(), sizeof scale);
        EXPECT_EQ(scale, 0x1p-126f);
    }
}

TEST(Codec, Int8BlockThatIsNotFiniteIsNanAndNoOther) {
    for (const float bad : {kInf, -kInf, kNan, -kNan}) {
        Floats x = normals(700, 1);
        x[300] = bad;
        const Floats y = round_trip(Codec::kInt8, x);
        for (std::size_t i = 0; i < x.size(); ++i)
            EXPECT_EQ(std::isnan(y[i]), i >= 256 && i < 512) << i;
    }
}

TEST(Codec, LargestNumbersStayFinite) {
    for (const Codec codec : kCodecs) {
        Floats x(512, kLargest);
        for (std::size_t i = 0; i < x.size(); i += 2) x[i] = -kLargest;
        for (std::uint64_t key = 0; key < 20; ++key) {
            const Floats y = round_trip(codec, x, key);
            for (std::size_t i = 0; i < x.size(); ++i) {
                ASSERT_TRUE(std::isfinite(y[i])) << name(codec);
                ASSERT_NEAR(y[i] / x[i], 1.0f, 0.008f);
            }
        }
    }
}

TEST(Codec, Bf16KeepsInfAndNan) {
    const std::uint32_t sneaky = 0x7f800001u;  // a NaN whose upper half is that of Inf
    const Floats x{kInf, -kInf, kNan, -kNan, std::bit_cast<float>(sneaky)};
    for (std::uint64_t key = 0; key < 50; ++key) {
        const Floats y = round_trip(Codec::kBf16, x, key);
        EXPECT_EQ(y[0], kInf);
        EXPECT_EQ(y[1], -kInf);
        for (std::size_t i = 2; i < x.size(); ++i) EXPECT_TRUE(std::isnan(y[i]));
    }
}

// Mean over keys against the reference, each element within 5 sigma; a step between neighbours that
// is hit with probability p has sigma = step sqrt(p (1 - p) / keys).
TEST(Codec, RoundingHasNoBias) {
    constexpr int kKeys = 4000;
    for (const Codec codec : {Codec::kBf16, Codec::kInt8}) {
        // In the last two the largest / 127 is subnormal.
        for (const float size : {1.0f, 3e-5f, 1e-37f, 1e-43f}) {
            const Floats x = normals(300, size);
            std::vector<double> sum(x.size(), 0.0);
            for (int key = 0; key < kKeys; ++key) {
                const Floats y = round_trip(codec, x,
                                            rounding_key(9, Round(3), FragmentId(0),
                                                         SiteId(static_cast<std::uint32_t>(key))));
                for (std::size_t i = 0; i < x.size(); ++i) sum[i] += y[i];
            }
            double z_squares = 0;
            for (std::size_t i = 0; i < x.size(); ++i) {
                const double step = step_of(codec, x, i);
                const double p = std::fabs(x[i]) / step - std::floor(std::fabs(x[i]) / step);
                const double sigma = step * std::sqrt((p * (1 - p) + 1e-4) / kKeys);
                const double z = (sum[i] / kKeys - static_cast<double>(x[i])) / sigma;
                ASSERT_LT(std::fabs(z), 5) << name(codec) << " size " << size << " i " << i;
                z_squares += z * z;
            }
            // 300 squares of about unit normals: 300 +- 24.5.
            EXPECT_LT(z_squares, 300 + 5 * 24.5) << name(codec) << " size " << size;
        }
    }
}

// Errors of different elements, offsets, keys and sites do not go together: the correlation of n
// pairs has sigma 1 / sqrt(n).
TEST(Codec, RoundingIsIndependent) {
    constexpr std::size_t kElements = 1 << 17;
    // Halfway between two values, so that every error is + or - half a step.
    Floats x(kElements, 0.5f);
    for (std::size_t i = 0; i < kElements; i += 256) x[i] = 127.0f;
    const auto errors = [&](std::uint64_t key, std::int64_t offset) {
        Floats y = round_trip(Codec::kInt8, x, key, offset);
        for (std::size_t i = 0; i < kElements; ++i) y[i] = (y[i] - x[i]) * 2;
        return y;
    };
    const auto correlation = [&](const Floats& a, const Floats& b, std::size_t lag) {
        double sum = 0;
        for (std::size_t i = 0; i + lag < kElements; ++i)
            sum += static_cast<double>(a[i]) * b[i + lag];
        return std::fabs(sum) / std::sqrt(static_cast<double>(kElements));
    };
    const auto key = [](std::uint64_t seed, std::uint64_t round, std::uint32_t site) {
        return rounding_key(seed, Round(round), FragmentId(0), SiteId(site));
    };
    const Floats base = errors(key(1, 1, 1), 0);
    for (const std::size_t lag : {1, 2, 3, 4, 7, 8, 16, 31, 64, 128, 255, 256, 257, 512, 65536})
        EXPECT_LT(correlation(base, base, lag), 5) << lag;
    EXPECT_LT(correlation(base, errors(key(1, 1, 2), 0), 0), 5);
    EXPECT_LT(correlation(base, errors(key(1, 2, 1), 0), 0), 5);
    EXPECT_LT(correlation(base, errors(key(2, 1, 1), 0), 0), 5);
    EXPECT_LT(correlation(base, errors(key(1, 1, 1), kElements), 0), 5);
    EXPECT_LT(correlation(base, errors(rounding_key(1, Round(1), FragmentId(1), SiteId(1)), 0), 0),
              5);
}

TEST(Codec, KeysDiffer) {
    std::set<std::uint64_t> keys;
    for (std::uint64_t seed : {0, 1})
        for (std::uint64_t round = 0; round < 10; ++round)
            for (std::uint32_t fragment = 0; fragment < 3; ++fragment)
                for (std::uint32_t site : {0u, 1u, 2u, kMeanSite.value})
                    keys.insert(
                        rounding_key(seed, Round(round), FragmentId(fragment), SiteId(site)));
    EXPECT_EQ(keys.size(), 2u * 10 * 3 * 4);
}

// However a unit is cut at blocks, the bytes are the same.
TEST(Codec, BytesDoNotDependOnPieces) {
    const Floats x = normals(3000, 1);
    for (const Codec codec : kCodecs) {
        const auto whole = encoded(codec, x, 77, 1001);
        for (const std::size_t piece : {256, 512, 2048}) {
            std::vector<std::byte> parts;
            for (std::size_t i = 0; i < x.size(); i += piece) {
                const auto from = x.begin() + static_cast<std::ptrdiff_t>(i);
                const Floats run(from,
                                 from + static_cast<std::ptrdiff_t>(std::min(piece, x.size() - i)));
                const auto bytes = encoded(codec, run, 77, 1001 + static_cast<std::int64_t>(i));
                parts.insert(parts.end(), bytes.begin(), bytes.end());
            }
            EXPECT_EQ(parts, whole) << name(codec) << " " << piece;
        }
    }
}

TEST(CodecDeathTest, NamesTheSizesThatDiffer) {
    Floats x(10);
    std::vector<std::byte> bytes(13);
    EXPECT_DEATH(encode(Codec::kInt8, x, 0, 0, bytes), "10 elements in 13 bytes of int8");
    EXPECT_DEATH(decode(Codec::kInt8, bytes, x), "10 elements in 13 bytes of int8");
}

}  // namespace
}  // namespace isthmus::outer
