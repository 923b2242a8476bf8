// Every instruction set that this machine has against the baseline, bit for bit.
#include "outer/kernels/kernels.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/random.hpp"
#include "outer/codec.hpp"

namespace isthmus::outer {
namespace {

using Floats = std::vector<float>;
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Numbers of all magnitudes, subnormal ones and signed zeros too, or all near one.
Floats numbers(std::size_t n, std::uint64_t seed, bool wild) {
    Floats x(n);
    for (std::size_t i = 0; i < n; ++i) {
        const std::uint64_t bits = random_bits(seed, i);
        x[i] = static_cast<float>(random_normal(seed, i));
        if (wild) x[i] = std::ldexp(x[i], static_cast<int>(bits % 240) - 150);
        if (wild && bits % 31 == 0) x[i] = bits % 2 != 0 ? 0.0f : -0.0f;
    }
    return x;
}

void expect_same_bits(const Floats& got, const Floats& expected, std::string_view what) {
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
        if (std::isnan(got[i]) && std::isnan(expected[i])) continue;
        ASSERT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(expected[i]))
            << what << ", element " << i << " of " << got.size();
    }
}

/// Guard words behind the output show that nothing writes beyond it.
struct Outputs {
    std::vector<Floats> floats;
    std::vector<std::vector<std::byte>> bytes;
    double squares = 0;
};

Outputs run_all(const Kernels& k, const Floats& a, const Floats& b) {
    const std::size_t n = a.size();
    Outputs out;
    Floats x(n), anchor, m;
    k.pseudo_gradient(a.data(), b.data(), x.data(), n);
    out.floats.push_back(x);
    k.subtract(x.data(), a.data(), x.data(), n);
    out.floats.push_back(x);
    k.add(x.data(), b.data(), n);
    k.accumulate(x.data(), 0.3f, b.data(), n);
    out.floats.push_back(x);
    k.divide(x.data(), 3.0f, n);
    out.floats.push_back(x);
    k.sgd(anchor.data(), b.data(), 0.7f, 0);
    for (const auto step : {k.momentum, k.nesterov}) {
        anchor = a;
        m = x;
        step(anchor.data(), m.data(), b.data(), 0.7f, 0.9f, n);
        out.floats.push_back(anchor);
        out.floats.push_back(m);
    }
    k.sgd(anchor.data(), b.data(), 0.7f, n);
    out.floats.push_back(anchor);
    out.squares = k.sum_of_squares(a.data(), n);
    for (std::size_t i = 0; i < n; i += 256) {
        const std::size_t count = std::min<std::size_t>(256, n - i);
        std::vector<std::byte> int8(count + 4 + 8, std::byte{0x5a});
        // At an odd address, as on the wire.
        std::vector<std::byte> bf16(2 * count + 1 + 8, std::byte{0x5a});
        const BlockDraw draw{static_cast<std::uint32_t>(i) * 77, 5};
        k.encode_int8(a.data() + i, count, draw, int8.data());
        k.encode_bf16(a.data() + i, count, draw, bf16.data() + 1);
        Floats decoded(count);
        k.decode_int8(int8.data(), count, decoded.data());
        out.floats.push_back(decoded);
        k.decode_bf16(bf16.data() + 1, count, decoded.data());
        out.floats.push_back(decoded);
        for (const auto& bytes : {int8, bf16})
            for (std::size_t g = 1; g <= 8; ++g)
                EXPECT_EQ(bytes[bytes.size() - g], std::byte{0x5a});
        out.bytes.push_back(int8);
        out.bytes.push_back(bf16);
    }
    return out;
}

TEST(Kernels, SameBitsOnEveryInstructionSet) {
    const auto sets = available_instruction_sets();
    for (const InstructionSet set : sets) fmt::print("instruction set {}\n", name(set));
    for (const std::size_t n : {0, 1, 7, 8, 9, 31, 255, 256, 257, 511, 4096, 5003}) {
        for (const int kind : {0, 1, 2}) {
            Floats a = numbers(n, 11, kind > 0), b = numbers(n, 12, kind > 0);
            for (std::size_t i = 0; kind == 2 && i < n; i += 300) {
                a[i] = i % 2 == 0 ? kInf : kNan;
                b[i] = -kInf;
            }
            const Outputs expected = run_all(kKernelsBaseline, a, b);
            for (const InstructionSet set : sets) {
                const Outputs got = run_all(kernels_of(set), a, b);
                for (std::size_t i = 0; i < got.floats.size(); ++i)
                    expect_same_bits(got.floats[i], expected.floats[i], name(set));
                EXPECT_EQ(got.bytes, expected.bytes) << name(set) << " n " << n;
                if (!std::isnan(expected.squares))
                    EXPECT_EQ(got.squares, expected.squares);
                else
                    EXPECT_TRUE(std::isnan(got.squares));
            }
        }
    }
}

// In the order that the contract names, element by element.
TEST(Kernels, SumOfSquaresIsEightInterleavedSums) {
    for (const std::size_t n : {0, 3, 8, 21, 1000}) {
        const Floats x = numbers(n, 3, true);
        double sums[8] = {}, total = 0;
        for (std::size_t i = 0; i < n; ++i)
            sums[i % 8] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
        for (const double sum : sums) total += sum;
        EXPECT_EQ(kernels().sum_of_squares(x.data(), n), total);
    }
    for (const float bad : {kInf, kNan}) {
        const Floats x{1, 2, bad, 3};
        EXPECT_FALSE(std::isfinite(kernels().sum_of_squares(x.data(), 4)));
    }
    const Floats large(1000, std::numeric_limits<float>::max());
    EXPECT_TRUE(std::isfinite(kernels().sum_of_squares(large.data(), large.size())));
}

// 1 + 2^-12 squared, less its rounded square, is 0 with two roundings and 2^-24 with one; and
// numbers below the smallest normal one are numbers.
TEST(Kernels, NeitherContractNorFlushToZero) {
    const float a = 1.0f + 0x1p-12f;
    const float small = 0x1p-130f;
    for (const InstructionSet set : available_instruction_sets()) {
        Floats sum(40, -(a * a)), x(40, a);
        kernels_of(set).accumulate(sum.data(), a, x.data(), sum.size());
        EXPECT_EQ(sum, Floats(40, 0.0f)) << name(set);
        Floats tiny(40, small);
        kernels_of(set).divide(tiny.data(), 2.0f, tiny.size());
        EXPECT_EQ(tiny, Floats(40, 0x1p-131f)) << name(set);
        kernels_of(set).add(tiny.data(), tiny.data(), tiny.size());
        EXPECT_EQ(tiny, Floats(40, small)) << name(set);
    }
}

}  // namespace
}  // namespace isthmus::outer
