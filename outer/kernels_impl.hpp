// Included by kernels_{baseline,avx2,avx512}.cpp, each with its own ISTHMUS_KERNELS_NAME and
// compiler options. Plain loops: the compiler vectorises them, which changes no bit.
#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "outer/kernels.hpp"

namespace isthmus::outer {
namespace ISTHMUS_KERNELS_NAME {
namespace {

constexpr std::int32_t kInfinity = 0x7f800000;

/// 32 random bits of (key, index): murmur3's finalizer, twice keyed; vectorises, and has full
/// avalanche.
inline std::uint32_t random32(std::uint32_t low, std::uint32_t high, std::uint32_t index) {
    std::uint32_t h = index * 0x9e3779b1u ^ low;
    h ^= h >> 16;
    h *= 0x85ebca6bu;
    h ^= h >> 13;
    h = (h ^ high) * 0xc2b2ae35u;
    h ^= h >> 16;
    h *= 0x7feb352du;
    return h ^ (h >> 15);
}

struct RandomKey {
    std::uint32_t low, high, first;
};
/// The upper half of a large index goes into the key.
inline RandomKey random_key(std::uint64_t key, std::uint64_t index) {
    key ^= (index >> 32) * 0x9e3779b97f4a7c15ull;
    return {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32),
            static_cast<std::uint32_t>(index)};
}

void subtract(const float* a, const float* b, float* out, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) out[i] = a[i] - b[i];
}
void add(float* x, const float* y, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) x[i] = x[i] + y[i];
}
void accumulate(float* sum, float weight, const float* x, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) sum[i] = sum[i] + weight * x[i];
}
void divide(float* x, float total, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) x[i] = x[i] / total;
}

double sum_of_squares(const float* x, std::size_t n) {
    double lanes[8] = {};
    std::size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        for (std::size_t k = 0; k < 8; ++k) {
            const double v = static_cast<double>(x[i + k]);
            lanes[k] = lanes[k] + v * v;
        }
    }
    for (; i < n; ++i) lanes[i % 8] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) +
           ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

void sgd(float* anchor, const float* g, float lr, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) anchor[i] = anchor[i] - lr * g[i];
}

void momentum(float* anchor, float* m, const float* g, float lr, float mu, bool nesterov,
              std::size_t n) {
    if (nesterov) {
        for (std::size_t i = 0; i < n; ++i) {
            m[i] = mu * m[i] + g[i];
            anchor[i] = anchor[i] - lr * (g[i] + mu * m[i]);
        }
    } else {
        for (std::size_t i = 0; i < n; ++i) {
            m[i] = mu * m[i] + g[i];
            anchor[i] = anchor[i] - lr * m[i];
        }
    }
}

float encode_int8(const float* x, std::size_t n, std::uint64_t key, std::uint64_t index,
                  std::int8_t* q) {
    std::int32_t largest = 0;
    for (std::size_t i = 0; i < n; ++i) {
        largest = std::max(largest, std::bit_cast<std::int32_t>(x[i]) & 0x7fffffff);
    }
    if (largest >= kInfinity) {
        std::memset(q, 0, n);
        return std::numeric_limits<float>::quiet_NaN();
    }
    const float scale = std::bit_cast<float>(largest) / 127.0f;
    if (scale == 0.0f) {
        std::memset(q, 0, n);
        return 0.0f;
    }
    const RandomKey r = random_key(key, index);
    for (std::size_t i = 0; i < n; ++i) {
        const std::uint32_t bits = random32(r.low, r.high, r.first + static_cast<std::uint32_t>(i));
        const float u = static_cast<float>(static_cast<std::int32_t>(bits >> 8)) * 0x1p-24f;
        // A subnormal scale has few bits: bounded before it becomes an integer.
        const float t = std::min(std::max(x[i] / scale + u, -127.0f), 127.5f);
        std::int32_t down = static_cast<std::int32_t>(t);
        down -= static_cast<float>(down) > t ? 1 : 0;
        q[i] = static_cast<std::int8_t>(down);
    }
    return scale;
}

void decode_int8(const std::int8_t* q, float scale, float* x, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<float>(q[i]) * scale;
}

void encode_bf16(const float* x, std::size_t n, std::uint64_t key, std::uint64_t index,
                 std::uint16_t* out) {
    const RandomKey r = random_key(key, index);
    for (std::size_t i = 0; i < n; ++i) {
        const std::uint32_t bits = std::bit_cast<std::uint32_t>(x[i]);
        const std::uint32_t magnitude = bits & 0x7fffffffu;
        const std::uint32_t up =
            random32(r.low, r.high, r.first + static_cast<std::uint32_t>(i)) & 0xffffu;
        // Finite stays finite; NaN keeps a bit that says so.
        const std::uint32_t rounded = std::min((magnitude + up) >> 16, 0x7f7fu);
        const std::uint32_t special = (magnitude >> 16) | (magnitude > 0x7f800000u ? 0x40u : 0u);
        const std::uint32_t kept = magnitude >= 0x7f800000u ? special : rounded;
        out[i] = static_cast<std::uint16_t>((bits >> 16 & 0x8000u) | kept);
    }
}

void decode_bf16(const std::uint16_t* in, float* x, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i)
        x[i] = std::bit_cast<float>(static_cast<std::uint32_t>(in[i]) << 16);
}

}  // namespace

#define ISTHMUS_TEXT(x) #x
#define ISTHMUS_NAME(x) ISTHMUS_TEXT(x)
extern const Kernels kKernels{.name = ISTHMUS_NAME(ISTHMUS_KERNELS_NAME),
                              .subtract = subtract,
                              .add = add,
                              .accumulate = accumulate,
                              .divide = divide,
                              .sum_of_squares = sum_of_squares,
                              .sgd = sgd,
                              .momentum = momentum,
                              .encode_int8 = encode_int8,
                              .decode_int8 = decode_int8,
                              .encode_bf16 = encode_bf16,
                              .decode_bf16 = decode_bf16};

}  // namespace ISTHMUS_KERNELS_NAME
}  // namespace isthmus::outer
