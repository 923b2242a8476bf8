#include "outer/codec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.hpp"
#include "base/random.hpp"
#include "outer/kernels.hpp"

namespace isthmus::outer {

namespace {

struct Named {
    Codec codec;
    std::string_view name;
};
constexpr Named kNames[] = {{Codec::kFp32, "fp32"}, {Codec::kBf16, "bf16"}, {Codec::kInt8, "int8"}};

}  // namespace

std::string_view name(Codec codec) {
    for (const Named& n : kNames) {
        if (n.codec == codec) return n.name;
    }
    CHECK(false, "no codec has number {}", static_cast<int>(codec));
}

Result<Codec> codec_named(std::string_view text) {
    for (const Named& n : kNames) {
        if (n.name == text) return n.codec;
    }
    return Error{fmt::format("no codec is called {}; there are fp32, bf16, int8", text)};
}

std::size_t encoded_bytes(Codec codec, std::int64_t elements) {
    CHECK(elements >= 0);
    const auto n = static_cast<std::size_t>(elements);
    if (codec == Codec::kFp32) return 4 * n;
    if (codec == Codec::kBf16) return 2 * n;
    return n + 4 * ((n + kBlockElements - 1) / kBlockElements);
}

std::uint64_t rounding_key(std::uint64_t seed, Round round, FragmentId fragment, SiteId site) {
    const std::uint64_t who = std::uint64_t{fragment.value} << 32 | site.value;
    return random_bits(random_bits(seed, round.value), who);
}

void encode(Codec codec, std::span<const float> x, std::uint64_t key, std::int64_t offset,
            std::span<std::byte> out) {
    CHECK(out.size() == encoded_bytes(codec, static_cast<std::int64_t>(x.size())));
    const Kernels& k = kernels();
    const auto first = static_cast<std::uint64_t>(offset);
    if (codec == Codec::kFp32) {
        if (!x.empty()) std::memcpy(out.data(), x.data(), out.size());
        return;
    }
    if (codec == Codec::kBf16) {
        CHECK(reinterpret_cast<std::uintptr_t>(out.data()) % alignof(std::uint16_t) == 0);
        return k.encode_bf16(x.data(), x.size(), key, first,
                             reinterpret_cast<std::uint16_t*>(out.data()));
    }
    for (std::size_t at = 0; at < x.size(); at += kBlockElements) {
        const std::size_t n = std::min<std::size_t>(kBlockElements, x.size() - at);
        auto* q = reinterpret_cast<std::int8_t*>(out.data() + sizeof(float));
        const float scale = k.encode_int8(x.data() + at, n, key, first + at, q);
        std::memcpy(out.data(), &scale, sizeof scale);
        out = out.subspan(sizeof scale + n);
    }
}

void decode(Codec codec, std::span<const std::byte> in, std::span<float> out) {
    CHECK(in.size() == encoded_bytes(codec, static_cast<std::int64_t>(out.size())));
    const Kernels& k = kernels();
    if (codec == Codec::kFp32) {
        if (!out.empty()) std::memcpy(out.data(), in.data(), in.size());
        return;
    }
    if (codec == Codec::kBf16) {
        CHECK(reinterpret_cast<std::uintptr_t>(in.data()) % alignof(std::uint16_t) == 0);
        return k.decode_bf16(reinterpret_cast<const std::uint16_t*>(in.data()), out.data(),
                             out.size());
    }
    for (std::size_t at = 0; at < out.size(); at += kBlockElements) {
        const std::size_t n = std::min<std::size_t>(kBlockElements, out.size() - at);
        float scale = 0;
        std::memcpy(&scale, in.data(), sizeof scale);
        k.decode_int8(reinterpret_cast<const std::int8_t*>(in.data() + sizeof scale), scale,
                      out.data() + at, n);
        in = in.subspan(sizeof scale + n);
    }
}

}  // namespace isthmus::outer
