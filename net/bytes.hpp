// Little-endian fields, written and read one by one: never a struct's memory.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace isthmus::net {

static_assert(std::endian::native == std::endian::little, "tensors travel as little-endian floats");

class ByteWriter {
  public:
    void reserve(std::size_t bytes) { data_.reserve(bytes); }
    void u16(std::uint16_t v) { integer(v); }
    void u32(std::uint32_t v) { integer(v); }
    void u64(std::uint64_t v) { integer(v); }
    void f32(float v) { integer(std::bit_cast<std::uint32_t>(v)); }
    void bytes(std::span<const std::byte> data) {
        data_.insert(data_.end(), data.begin(), data.end());
    }
    /// A u32 length, then the text.
    void text(std::string_view v) {
        u32(static_cast<std::uint32_t>(v.size()));
        bytes(std::as_bytes(std::span(v.data(), v.size())));
    }
    const std::vector<std::byte>& data() const { return data_; }
    std::vector<std::byte> take() { return std::move(data_); }

  private:
    template <class T>
    void integer(T v) {
        for (std::size_t i = 0; i < sizeof(T); ++i) {
            data_.push_back(static_cast<std::byte>((v >> (8 * i)) & 0xff));
        }
    }
    std::vector<std::byte> data_;
};

/// Reads what ByteWriter wrote. After the first read beyond the end every read gives zero and
/// `good()` is false: decoders read all fields and ask once. A length is compared with what is
/// there before anything is allocated from it.
class ByteReader {
  public:
    explicit ByteReader(std::span<const std::byte> data) : data_(data) {}
    std::uint16_t u16() { return integer<std::uint16_t>(); }
    std::uint32_t u32() { return integer<std::uint32_t>(); }
    std::uint64_t u64() { return integer<std::uint64_t>(); }
    float f32() { return std::bit_cast<float>(u32()); }
    std::span<const std::byte> bytes(std::size_t count) {
        if (count > data_.size()) {
            good_ = false;
            data_ = {};
            return {};
        }
        const auto taken = data_.first(count);
        data_ = data_.subspan(count);
        return taken;
    }
    std::string text() {
        const auto taken = bytes(u32());
        return {reinterpret_cast<const char*>(taken.data()), taken.size()};
    }
    /// A count of items that take at least `item_bytes` each; 0 and not good if they cannot be
    /// there.
    std::uint32_t count(std::size_t item_bytes) {
        const std::uint32_t n = u32();
        if (n > data_.size() / item_bytes) {
            good_ = false;
            return 0;
        }
        return n;
    }
    std::size_t left() const { return data_.size(); }
    bool good() const { return good_; }
    /// Everything was there, and nothing is left over.
    bool complete() const { return good_ && data_.empty(); }

  private:
    template <class T>
    T integer() {
        const auto taken = bytes(sizeof(T));
        if (taken.size() != sizeof(T)) return 0;
        T v;
        std::memcpy(&v, taken.data(), sizeof(T));
        return v;
    }
    std::span<const std::byte> data_;
    bool good_ = true;
};

}  // namespace isthmus::net
