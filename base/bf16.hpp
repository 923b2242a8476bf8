// bfloat16 as two bytes: the upper half of a float. g++ 12 has no __bf16.
#pragma once

#include <bit>
#include <cstdint>

namespace isthmus {

struct bf16 {
    std::uint16_t bits = 0;
};

inline float to_float(bf16 x) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16);
}

/// Round to nearest, ties to even; a NaN stays a NaN (its quiet bit is set).
inline bf16 to_bf16(float x) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return {static_cast<std::uint16_t>((bits >> 16) | 0x40u)};
    return {static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

}  // namespace isthmus
