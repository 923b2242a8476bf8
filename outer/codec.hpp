// How a run of floats is written on the wire.
//
//   fp32   as it is
//   bf16   the upper half of a float, rounded at random to one of its two neighbours
//   int8   blocks of kBlockElements: a scale (fp32, largest magnitude / 127, at least the smallest
//          normal number), then a signed byte an element, rounded at random; off by less than the
//          scale
//
// Random rounding goes up with the probability that makes it unbiased: E[decode(encode(x))] = x
// (rounding to nearest of an int8 block, and truncation of bf16, have a bias that outer momentum
// adds up; FACTS 4.6). The draw is a pure function of (key, offset), so encoding depends on what is
// encoded and never on when or for whom. What is not finite stays visible: bf16 keeps NaN and Inf,
// an int8 block that holds either decodes to NaN throughout. What is finite stays finite: above the
// largest bf16 (3.39e38, .4 % below the largest float) there is nothing to round to, so the mean
// there is that.
//
// Every function here is a fixed sequence of fp32 operations an element: no contraction, no flush
// to zero, the same bits on every instruction set (tests/outer/kernels_test.cpp compares all that
// the machine has).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/ids.hpp"
#include "base/result.hpp"
#include "outer/layout.hpp"

namespace isthmus::outer {

enum class Codec : std::uint8_t { kFp32, kBf16, kInt8 };
constexpr Codec last_of(Codec) {
    return Codec::kInt8;
}
std::string_view name(Codec);
Result<Codec> codec_named(std::string_view);

/// Bytes of n elements. UNITS  int8: n + 4 ceil(n / 256).
std::size_t encoded_bytes(Codec, std::int64_t elements);

/// Key of the random rounding of one site's input, or of the mean (site = kMeanSite).
inline constexpr SiteId kMeanSite{0xffffffffu};
std::uint64_t rounding_key(std::uint64_t seed, Round, FragmentId, SiteId);

/// SHAPE  x: n elements that begin at a block; out: encoded_bytes(n). `offset`: of x[0] in the
/// fragment.
void encode(Codec, std::span<const float> x, std::uint64_t key, std::int64_t offset,
            std::span<std::byte> out);
/// SHAPE  as encode, the other way.
void decode(Codec, std::span<const std::byte> in, std::span<float> out);

}  // namespace isthmus::outer
