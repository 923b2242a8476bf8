#include "outer/codec.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "base/check.hpp"
#include "base/random.hpp"
#include "outer/kernels/kernels.hpp"

namespace isthmus::outer {
namespace {

constexpr auto kBlock = static_cast<std::size_t>(kBlockElements);
static_assert(kBlockElements == 256, "kernels.inc unrolls for blocks of 256");

/// Blocks begin at a unit's start, so a block's offset names it, however pieces were cut.
BlockDraw block_draw(std::uint64_t key, std::uint64_t offset) {
    const std::uint64_t bits = random_bits(key, offset);
    return {static_cast<std::uint32_t>(bits), static_cast<std::uint32_t>(bits >> 32)};
}

/// Calls encode_block(x, n, draw, out) for every block.
template <class EncodeBlock>
void for_blocks(std::span<const float> x, std::uint64_t key, std::int64_t offset,
                const EncodeBlock& encode_block) {
    for (std::size_t i = 0; i < x.size(); i += kBlock) {
        encode_block(i, std::min(kBlock, x.size() - i),
                     block_draw(key, static_cast<std::uint64_t>(offset) + i));
    }
}

/// Where the block that begins with element i is written by int8.
std::size_t int8_offset(std::size_t i) {
    return i + i / kBlock * sizeof(float);
}

}  // namespace

std::string_view name(Codec codec) {
    switch (codec) {
        case Codec::kFp32:
            return "fp32";
        case Codec::kBf16:
            return "bf16";
        case Codec::kInt8:
            return "int8";
    }
    CHECK(false, "codec {}", static_cast<int>(codec));
}

Result<Codec> codec_named(std::string_view text) {
    for (const Codec codec : {Codec::kFp32, Codec::kBf16, Codec::kInt8}) {
        if (text == name(codec)) return codec;
    }
    return Error{fmt::format("codec \"{}\" is none of fp32, bf16, int8", text)};
}

std::size_t encoded_bytes(Codec codec, std::int64_t elements) {
    CHECK(elements >= 0);
    const auto n = static_cast<std::size_t>(elements);
    switch (codec) {
        case Codec::kFp32:
            return n * sizeof(float);
        case Codec::kBf16:
            return n * 2;
        case Codec::kInt8:
            return n + (n + kBlock - 1) / kBlock * sizeof(float);
    }
    CHECK(false, "codec {}", static_cast<int>(codec));
}

std::uint64_t rounding_key(std::uint64_t seed, Round round, FragmentId fragment, SiteId site) {
    const std::uint64_t who = static_cast<std::uint64_t>(fragment.value) << 32 | site.value;
    return random_bits(random_bits(seed, round.value), who);
}

void encode(Codec codec, std::span<const float> x, std::uint64_t key, std::int64_t offset,
            std::span<std::byte> out) {
    CHECK(out.size() == encoded_bytes(codec, static_cast<std::int64_t>(x.size())),
          "{} elements in {} bytes of {}", x.size(), out.size(), name(codec));
    const Kernels& k = kernels();
    switch (codec) {
        case Codec::kFp32:
            if (!x.empty()) std::memcpy(out.data(), x.data(), x.size_bytes());
            return;
        case Codec::kBf16:
            for_blocks(x, key, offset, [&](std::size_t i, std::size_t n, BlockDraw draw) {
                k.encode_bf16(x.data() + i, n, draw, out.data() + 2 * i);
            });
            return;
        case Codec::kInt8:
            for_blocks(x, key, offset, [&](std::size_t i, std::size_t n, BlockDraw draw) {
                k.encode_int8(x.data() + i, n, draw, out.data() + int8_offset(i));
            });
            return;
    }
    CHECK(false, "codec {}", static_cast<int>(codec));
}

void decode(Codec codec, std::span<const std::byte> in, std::span<float> out) {
    CHECK(in.size() == encoded_bytes(codec, static_cast<std::int64_t>(out.size())),
          "{} elements in {} bytes of {}", out.size(), in.size(), name(codec));
    const Kernels& k = kernels();
    switch (codec) {
        case Codec::kFp32:
            if (!out.empty()) std::memcpy(out.data(), in.data(), in.size());
            return;
        case Codec::kBf16:
            k.decode_bf16(in.data(), out.size(), out.data());
            return;
        case Codec::kInt8:
            for (std::size_t i = 0; i < out.size(); i += kBlock) {
                k.decode_int8(in.data() + int8_offset(i), std::min(kBlock, out.size() - i),
                              out.data() + i);
            }
            return;
    }
    CHECK(false, "codec {}", static_cast<int>(codec));
}

}  // namespace isthmus::outer
