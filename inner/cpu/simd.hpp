// A vector of floats as wide as the instruction set that this file is compiled for, on GCC's vector
// extensions. Included only by the kernels_*.cpp files.
//
// ONE DEFINITION RULE: the same functions exist once per instruction set. So everything here is in
// an anonymous namespace and always inlined, and kernel sources call no inline function of any
// other header (std::max, to_float, ...): the linker could keep the copy compiled for AVX-512 and
// give it to the whole program.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "base/bf16.hpp"

#define ISTHMUS_INLINE [[gnu::always_inline]] inline

namespace isthmus::inner {
namespace {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif
constexpr int kLanes = kVectorBytes / 4;

using Vec = float __attribute__((vector_size(kVectorBytes)));
using VecInt = std::int32_t __attribute__((vector_size(kVectorBytes)));
using VecBits = std::uint32_t __attribute__((vector_size(kVectorBytes)));
using VecHalf = std::uint16_t __attribute__((vector_size(kVectorBytes / 2)));
// The same in memory, at any address and of any declared type.
using VecInMemory = float __attribute__((vector_size(kVectorBytes), aligned(4), may_alias));
using VecHalfInMemory =
    std::uint16_t __attribute__((vector_size(kVectorBytes / 2), aligned(2), may_alias));

constexpr float kInfinity = __builtin_inff();

template <class T>
ISTHMUS_INLINE constexpr T smaller(T a, T b) {
    return b < a ? b : a;
}
template <class T>
ISTHMUS_INLINE constexpr T larger(T a, T b) {
    return a < b ? b : a;
}

ISTHMUS_INLINE Vec zeros() {
    return Vec{};
}
ISTHMUS_INLINE Vec broadcast(float x) {
    return x - Vec{};
}
ISTHMUS_INLINE VecInt broadcast_int(std::int32_t x) {
    return x - VecInt{};
}
/// (0, 1, 2, ...)
ISTHMUS_INLINE VecInt lane_numbers() {
    VecInt v;
    for (int i = 0; i < kLanes; ++i) v[i] = i;
    return v;
}
ISTHMUS_INLINE VecBits bits_of(Vec v) {
    return reinterpret_cast<VecBits>(v);
}
ISTHMUS_INLINE Vec vec_of_bits(VecBits v) {
    return reinterpret_cast<Vec>(v);
}

// --- Loads and stores: whole vectors, then the first `count` lanes (0 <= count <= kLanes)
// -------------

ISTHMUS_INLINE Vec load(const float* p) {
    return *reinterpret_cast<const VecInMemory*>(p);
}
ISTHMUS_INLINE void store(float* p, Vec v) {
    *reinterpret_cast<VecInMemory*>(p) = v;
}

ISTHMUS_INLINE Vec widen(VecHalf h) {
    return vec_of_bits(__builtin_convertvector(h, VecBits) << 16);
}
/// Round to nearest, ties to even; a NaN stays a NaN (as to_bf16).
ISTHMUS_INLINE VecHalf narrow(Vec v) {
    const VecBits bits = bits_of(v);
    const VecBits rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const VecBits quiet = (bits >> 16) | 0x40u;
    return __builtin_convertvector(v == v ? rounded : quiet, VecHalf);
}
ISTHMUS_INLINE Vec load(const bf16* p) {
    return widen(*reinterpret_cast<const VecHalfInMemory*>(p));
}
ISTHMUS_INLINE void store(bf16* p, Vec v) {
    *reinterpret_cast<VecHalfInMemory*>(p) = narrow(v);
}

/// Lanes beyond `count` are 0; nothing beyond p + count is read.
ISTHMUS_INLINE Vec load_first(const float* p, std::int64_t count) {
#if defined(__AVX512F__)
    return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), p);
#elif defined(__AVX2__)
    const auto mask = lane_numbers() < static_cast<std::int32_t>(count);
    return _mm256_maskload_ps(p, reinterpret_cast<__m256i>(mask));
#else
    Vec v{};
    for (int i = 0; i < kLanes; ++i)
        if (i < count) v[i] = p[i];
    return v;
#endif
}
ISTHMUS_INLINE void store_first(float* p, Vec v, std::int64_t count) {
#if defined(__AVX512F__)
    _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << count) - 1), v);
#elif defined(__AVX2__)
    const auto mask = lane_numbers() < static_cast<std::int32_t>(count);
    _mm256_maskstore_ps(p, reinterpret_cast<__m256i>(mask), v);
#else
    for (int i = 0; i < kLanes; ++i)
        if (i < count) p[i] = v[i];
#endif
}
ISTHMUS_INLINE Vec load_first(const bf16* p, std::int64_t count) {
    VecHalf h{};
    for (int i = 0; i < kLanes; ++i)
        if (i < count) h[i] = p[i].bits;
    return widen(h);
}
ISTHMUS_INLINE void store_first(bf16* p, Vec v, std::int64_t count) {
    const VecHalf h = narrow(v);
    for (int i = 0; i < kLanes; ++i)
        if (i < count) p[i].bits = h[i];
}

/// One element, for what is too short or too irregular for vectors.
ISTHMUS_INLINE float load_one(const float* p) {
    return *p;
}
ISTHMUS_INLINE float load_one(const bf16* p) {
    return __builtin_bit_cast(float, static_cast<std::uint32_t>(p->bits) << 16);
}

/// A width of kLanes that is known when compiling.
struct Full {
    constexpr operator std::int64_t() const { return kLanes; }
};
template <class T>
ISTHMUS_INLINE Vec load_some(const T* p, Full) {
    return load(p);
}
template <class T>
ISTHMUS_INLINE Vec load_some(const T* p, std::int64_t count) {
    return load_first(p, count);
}
template <class T>
ISTHMUS_INLINE void store_some(T* p, Vec v, Full) {
    store(p, v);
}
template <class T>
ISTHMUS_INLINE void store_some(T* p, Vec v, std::int64_t count) {
    store_first(p, v, count);
}
/// Calls body(offset, width) for [0, n): whole vectors with Full, then one call with the rest.
/// Inside use load_some and store_some with the same width.
template <class Body>
ISTHMUS_INLINE void for_vectors(std::int64_t n, Body&& body) {
    std::int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) body(i, Full{});
    if (i < n) body(i, n - i);
}

// --- Arithmetic
// ---------------------------------------------------------------------------------------

#if defined(__AVX512F__)
// g++ 12 warns of an uninitialized value inside the unmasked intrinsics (its bug 105593); with a
// full mask the same instruction comes out.
constexpr __mmask16 kAllLanes = 0xffff;
#endif

/// a * b + c: one instruction where the instruction set has it (the files are compiled with
/// -ffp-contract=fast).
ISTHMUS_INLINE Vec fma(Vec a, Vec b, Vec c) {
    return a * b + c;
}
/// Lane-wise a > b ? a : b. A NaN in b stays.
ISTHMUS_INLINE Vec max(Vec a, Vec b) {
#if defined(__AVX512F__)
    return _mm512_maskz_max_ps(kAllLanes, a, b);
#elif defined(__AVX2__)
    return _mm256_max_ps(a, b);
#else
    return _mm_max_ps(a, b);
#endif
}
/// Lane-wise a < b ? a : b. A NaN in b stays.
ISTHMUS_INLINE Vec min(Vec a, Vec b) {
#if defined(__AVX512F__)
    return _mm512_maskz_min_ps(kAllLanes, a, b);
#elif defined(__AVX2__)
    return _mm256_min_ps(a, b);
#else
    return _mm_min_ps(a, b);
#endif
}
ISTHMUS_INLINE Vec sqrt(Vec v) {
#if defined(__AVX512F__)
    return _mm512_maskz_sqrt_ps(kAllLanes, v);
#elif defined(__AVX2__)
    return _mm256_sqrt_ps(v);
#else
    return _mm_sqrt_ps(v);
#endif
}
ISTHMUS_INLINE float sqrt_one(float x) {
    return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x)));
}

/// Sum of the lanes, always as the same tree: halves are added until one is left.
ISTHMUS_INLINE float sum_lanes(Vec v) {
    float a[kLanes];
    store(a, v);
    for (int half = kLanes / 2; half > 0; half /= 2)
        for (int i = 0; i < half; ++i) a[i] += a[i + half];
    return a[0];
}
ISTHMUS_INLINE float max_lanes(Vec v) {
    float a[kLanes];
    store(a, v);
    for (int half = kLanes / 2; half > 0; half /= 2)
        for (int i = 0; i < half; ++i) a[i] = a[i] > a[i + half] ? a[i] : a[i + half];
    return a[0];
}

// Exponentials: x = n + r with |r| <= 1/2 (in base 2), 2^r by a minimax polynomial of degree 6
// (error 3e-9), then a product with 2^n. Adding kShift leaves n + 127 in the low mantissa bits,
// which shifted left by 23 are the float 2^n.
constexpr float kShift = 0x1.8p23f + 127;
constexpr float kLog2e = 1.44269504f;
constexpr float kLn2 = 0.693147181f;

/// 2^x for x < 127.5, within 2 units in the last place; 0 below -126 (-inf too); NaN stays NaN.
ISTHMUS_INLINE Vec exp2(Vec x) {
    const Vec clamped = max(broadcast(-126.0f), x);
    const Vec shifted = clamped + kShift;
    const Vec r = clamped - (shifted - kShift);
    Vec p = broadcast(1.55946778e-4f);
    p = fma(p, r, broadcast(1.34066434e-3f));
    p = fma(p, r, broadcast(9.61769279e-3f));
    p = fma(p, r, broadcast(5.55031039e-2f));
    p = fma(p, r, broadcast(2.40226522e-1f));
    p = fma(p, r, broadcast(6.93147242e-1f));
    p = fma(p, r, broadcast(1.0f));
    const Vec result = p * vec_of_bits(bits_of(shifted) << 23);
    return x < -126.0f ? zeros() : result;
}

/// e^x, within 2 units in the last place; 0 below -87.3 (-inf too); 2e38 above 88.3; NaN stays NaN.
ISTHMUS_INLINE Vec exp(Vec x) {
    constexpr float kLowest = -87.33654f;
    const Vec clamped = max(broadcast(kLowest), min(broadcast(88.3f), x));
    const Vec shifted = fma(clamped, broadcast(kLog2e), broadcast(kShift));
    const Vec n = shifted - kShift;
    // n ln(2) in two parts, the first exact: its rounding error would be 60 units in the last
    // place.
    Vec r = fma(n, broadcast(-0.693145752f), clamped);
    r = fma(n, broadcast(-1.42860677e-6f), r);
    Vec p = broadcast(1.40612409e-3f);
    p = fma(p, r, broadcast(8.37901141e-3f));
    p = fma(p, r, broadcast(4.16647755e-2f));
    p = fma(p, r, broadcast(1.66663662e-1f));
    p = fma(p, r, broadcast(0.50000006f));
    p = fma(p, r, broadcast(1.0f));
    p = fma(p, r, broadcast(1.0f));
    const Vec result = p * vec_of_bits(bits_of(shifted) << 23);
    return x < kLowest ? zeros() : result;
}
/// 1 / (1 + e^-x).
ISTHMUS_INLINE Vec sigmoid(Vec x) {
    return 1.0f / (1.0f + exp(-x));
}
/// Absolute error about 1e-7 (near 0 not a small relative one). Where 0.5 (1 + tanh(z)) is wanted,
/// sigmoid(2 z) is the same and better.
ISTHMUS_INLINE Vec tanh(Vec x) {
    return 2.0f * sigmoid(2.0f * x) - 1.0f;
}

}  // namespace
}  // namespace isthmus::inner
