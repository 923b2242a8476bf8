// Buffers for op tests: strided tensors between guard words, with padding and outputs poisoned by
// NaN, and comparison with an fp64 reference.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "inner/ops/tensor.hpp"

namespace isthmus::inner::test {

/// A tensor of its own memory. Everything but the elements (guard words before and after, the
/// padding of each row) holds a NaN pattern that must be intact at the end; elements start as NaN
/// too.
class Guarded {
  public:
    Guarded(DType dtype, std::int64_t rows, std::int64_t cols, std::int64_t padding = 0)
        : dtype_(dtype), rows_(rows), cols_(cols), stride_(cols + padding) {
        bytes_.resize(static_cast<std::size_t>((2 * kGuard + rows * stride_) * bytes_of(dtype)));
        for (std::int64_t i = 0; i < 2 * kGuard + rows * stride_; ++i) put(i, kPoison);
    }

    Tensor tensor() {
        return {bytes_.data() + kGuard * bytes_of(dtype_), dtype_, rows_, cols_, stride_};
    }
    float* f32() { return tensor().f32(); }
    std::int64_t rows() const { return rows_; }
    std::int64_t cols() const { return cols_; }

    double at(std::int64_t row, std::int64_t col) const {
        const std::int64_t i = kGuard + row * stride_ + col;
        if (dtype_ == DType::kF32) {
            float value;
            std::memcpy(&value, bytes_.data() + i * 4, 4);
            return value;
        }
        bf16 value;
        std::memcpy(&value, bytes_.data() + i * 2, 2);
        return to_float(value);
    }
    void set(std::int64_t row, std::int64_t col, double value) {
        const auto narrow = static_cast<float>(value);
        const std::int64_t i = kGuard + row * stride_ + col;
        if (dtype_ == DType::kF32) {
            std::memcpy(bytes_.data() + i * 4, &narrow, 4);
        } else {
            const bf16 half = to_bf16(narrow);
            std::memcpy(bytes_.data() + i * 2, &half, 2);
        }
    }
    /// Standard normal numbers times `scale` plus `offset`, rounded to the element type.
    Guarded& random(std::uint64_t seed, double scale = 1, double offset = 0) {
        for (std::int64_t r = 0; r < rows_; ++r)
            for (std::int64_t c = 0; c < cols_; ++c)
                set(r, c,
                    offset +
                        scale * random_normal(seed, static_cast<std::uint64_t>(r * cols_ + c)));
        return *this;
    }
    Guarded& fill(double value) {
        for (std::int64_t r = 0; r < rows_; ++r)
            for (std::int64_t c = 0; c < cols_; ++c) set(r, c, value);
        return *this;
    }
    /// All elements as fp64, row by row.
    std::vector<double> values() const {
        std::vector<double> out;
        for (std::int64_t r = 0; r < rows_; ++r)
            for (std::int64_t c = 0; c < cols_; ++c) out.push_back(at(r, c));
        return out;
    }
    /// Adds a test failure where a guard word or padding has changed.
    void expect_guards_intact(const std::string& what) const {
        for (std::int64_t i = 0; i < 2 * kGuard + rows_ * stride_; ++i) {
            const std::int64_t at = i - kGuard;
            if (at >= 0 && at < rows_ * stride_ && at % stride_ < cols_) continue;
            if (word(i) != kPoison) {
                ADD_FAILURE() << what << ": a word outside the tensor was written, element " << at
                              << " (stride " << stride_ << ", cols " << cols_ << ")";
                return;
            }
        }
    }
    bool same_bits(const Guarded& other) const { return bytes_ == other.bytes_; }

  private:
    static constexpr std::int64_t kGuard = 64;
    static constexpr std::uint16_t kPoison = 0x7fa5;  ///< a NaN in bf16; twice of it a NaN in fp32

    void put(std::int64_t i, std::uint16_t half) {
        for (std::int64_t k = 0; k < bytes_of(dtype_) / 2; ++k)
            std::memcpy(bytes_.data() + i * bytes_of(dtype_) + 2 * k, &half, 2);
    }
    std::uint16_t word(std::int64_t i) const {
        std::uint16_t low, high;
        std::memcpy(&low, bytes_.data() + i * bytes_of(dtype_), 2);
        std::memcpy(&high, bytes_.data() + (i + 1) * bytes_of(dtype_) - 2, 2);
        return low == high ? low : 0;
    }

    DType dtype_;
    std::int64_t rows_, cols_, stride_;
    std::vector<std::byte> bytes_;
};

/// What rounding one result to the element type costs, relative.
inline double rounding(DType dtype) {
    return dtype == DType::kF32 ? 0x1p-24 : 0x1p-9;
}

/// |got - want| <= tolerance * (|want| + the largest |want|) for every element; NaN fails.
inline void expect_close(const std::vector<double>& got, const std::vector<double>& want,
                         double tolerance, const std::string& what) {
    ASSERT_EQ(got.size(), want.size()) << what;
    double largest = 0;
    for (const double w : want) largest = std::max(largest, std::abs(w));
    double worst = 0;
    std::size_t where = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
        const double limit = tolerance * (std::abs(want[i]) + largest);
        const double error = std::abs(got[i] - want[i]);
        const double ratio = error == 0 ? 0 : error / limit;
        if (!(ratio <= worst)) {
            worst = ratio;
            where = i;
            if (std::isnan(ratio)) break;
        }
    }
    EXPECT_LE(worst, 1.0) << what << ": element " << where << " is " << got[where] << ", wanted "
                          << want[where] << " (tolerance " << tolerance << ", largest " << largest
                          << ")";
}

}  // namespace isthmus::inner::test
