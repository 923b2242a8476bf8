// Records to bytes and back, by cereal, bounded: a length that the bytes which are there cannot
// hold is refused before anything is allocated from it (cereal alone resizes first), and a list
// grows only as its items are read.
//
// A record declares its fields once; vectors, strings, optionals, variants, pairs, arrays, ids and
// enums nest:
//
//   struct Ready {
//       Round round;
//       std::vector<SampleRange> trained;
//       template <class A> void serialize(A& a) { a(round, trained); }
//   };
//
// An enum names its last value, so that a number beyond it is refused; without this it does not
// compile:
//
//   constexpr Codec last_of(Codec) { return Codec::kInt8; }
//
// Little-endian, fixed widths, lengths as u32, no versions inside: a frame's or file's header
// carries the version. No records by pointer, no classes by name: nothing that could call for more
// than data.
#pragma once

#include <fmt/core.h>

#include <array>
#include <bit>
#include <cereal/cereal.hpp>
#include <cereal/types/array.hpp>
#include <cereal/types/optional.hpp>
#include <cereal/types/string.hpp>
#include <cereal/types/utility.hpp>
#include <cereal/types/variant.hpp>
#include <cereal/types/vector.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/ids.hpp"
#include "base/result.hpp"

namespace isthmus {

static_assert(std::endian::native == std::endian::little, "records are little-endian");

class RecordWriter : public cereal::OutputArchive<RecordWriter> {
  public:
    RecordWriter() : cereal::OutputArchive<RecordWriter>(this) {}
    void raw(const void* data, std::size_t bytes) {
        const auto* from = static_cast<const std::byte*>(data);
        data_.insert(data_.end(), from, from + bytes);
    }
    void length(std::size_t items) {
        CHECK(items <= std::numeric_limits<std::uint32_t>::max(), "a list of {} items", items);
        const auto n = static_cast<std::uint32_t>(items);
        raw(&n, sizeof(n));
    }
    std::vector<std::byte> take() { return std::move(data_); }

  private:
    std::vector<std::byte> data_;
};

/// Throws cereal::Exception, which unpack() turns into an Error.
class RecordReader : public cereal::InputArchive<RecordReader> {
  public:
    explicit RecordReader(std::span<const std::byte> data)
        : cereal::InputArchive<RecordReader>(this), data_(data), size_(data.size()) {}
    std::size_t left() const { return data_.size(); }
    void raw(void* out, std::size_t bytes) {
        if (bytes > left()) fail(fmt::format("ends early, {} more bytes were expected", bytes));
        if (bytes > 0) std::memcpy(out, data_.data(), bytes);
        data_ = data_.subspan(bytes);
    }
    /// REQUIRES  each item takes at least item_bytes.
    std::size_t length(std::size_t item_bytes) {
        std::uint32_t n = 0;
        raw(&n, sizeof(n));
        if (n > left() / item_bytes) fail(fmt::format("counts {} items, more than follow", n));
        return n;
    }
    [[noreturn]] void fail(const std::string& what) const { throw cereal::Exception(what); }
    /// What went wrong, with the place.
    Error error(const std::string& what) const {
        return Error{
            fmt::format("a record of {} bytes: at byte {}: {}", size_, size_ - left(), what)};
    }

  private:
    std::span<const std::byte> data_;
    std::size_t size_;
};

template <class A, class Tag, class Value>
void serialize(A& a, Id<Tag, Value>& id) {
    a(id.value);
}

// ---- how the archives treat what cereal's types are made of ------------------------------------
// cereal looks for these by name: save and load. Where it has its own for any archive, these are
// the more specialised and win.

template <class T>
std::enable_if_t<std::is_arithmetic_v<T>> save(RecordWriter& a, const T& value) {
    a.raw(&value, sizeof(value));
}
template <class T>
std::enable_if_t<std::is_arithmetic_v<T>> load(RecordReader& a, T& value) {
    if constexpr (std::is_same_v<T, bool>) {
        std::uint8_t byte = 0;
        a.raw(&byte, 1);
        if (byte > 1) a.fail(fmt::format("{} is neither true nor false", byte));
        value = byte == 1;
    } else {
        a.raw(&value, sizeof(value));
    }
}

/// Names are for other formats.
template <class T>
void save(RecordWriter& a, const cereal::NameValuePair<T>& pair) {
    a(pair.value);
}
template <class T>
void load(RecordReader& a, cereal::NameValuePair<T>& pair) {
    a(pair.value);
}

template <class T>
void save(RecordWriter& a, const cereal::SizeTag<T>& tag) {
    a.length(static_cast<std::size_t>(tag.size));
}
template <class T>
void load(RecordReader& a, cereal::SizeTag<T>& tag) {
    tag.size = static_cast<std::remove_reference_t<T>>(a.length(1));
}

template <class T>
void save(RecordWriter& a, const cereal::BinaryData<T>& data) {
    a.raw(data.data, static_cast<std::size_t>(data.size));
}
template <class T>
void load(RecordReader& a, cereal::BinaryData<T>& data) {
    a.raw(data.data, static_cast<std::size_t>(data.size));
}

/// cereal reads an enum as its number; this is called once it is there.
template <class E>
std::enable_if_t<std::is_enum_v<E>> epilogue(RecordReader& a, const E& value) {
    if constexpr (!std::is_same_v<E, std::byte>) {
        using Number = std::underlying_type_t<E>;
        static_assert(std::is_unsigned_v<Number>, "enums in records are unsigned, from 0 on");
        if (value > last_of(value))
            a.fail(fmt::format("{} is none of the known values", +static_cast<Number>(value)));
    }
}

template <std::size_t N>
void save(RecordWriter& a, const std::array<std::byte, N>& bytes) {
    a.raw(bytes.data(), N);
}
template <std::size_t N>
void load(RecordReader& a, std::array<std::byte, N>& bytes) {
    a.raw(bytes.data(), N);
}

/// Bytes and numbers are copied in one go; other items are read one by one into a list that grows.
template <class T>
inline constexpr bool kCopiedWhole = std::is_same_v<T, std::byte> || std::is_arithmetic_v<T>;

template <class T, class Allocator>
void save(RecordWriter& a, const std::vector<T, Allocator>& items) {
    static_assert(!std::is_same_v<T, bool>, "a vector<bool> is no list of bools");
    a.length(items.size());
    if constexpr (kCopiedWhole<T>) {
        a.raw(items.data(), items.size() * sizeof(T));
    } else {
        for (const T& item : items) a(item);
    }
}
template <class T, class Allocator>
void load(RecordReader& a, std::vector<T, Allocator>& items) {
    items.clear();
    if constexpr (kCopiedWhole<T>) {
        items.resize(a.length(sizeof(T)));
        a.raw(items.data(), items.size() * sizeof(T));
    } else {
        for (std::size_t n = a.length(1); n > 0; --n) {
            items.emplace_back();
            a(items.back());
        }
    }
}

/// The record's bytes.
template <class T>
std::vector<std::byte> pack(const T& record) {
    RecordWriter writer;
    writer(record);
    return writer.take();
}

/// ERRORS  one line: ends early, a count larger than what is left, an unknown variant index, an
/// enum beyond its last value, a bool that is neither 0 nor 1, bytes left over.
template <class T>
Result<T> unpack(std::span<const std::byte> bytes) {
    RecordReader reader(bytes);
    try {
        T record{};
        reader(record);
        if (reader.left() > 0) reader.fail(fmt::format("{} bytes are left over", reader.left()));
        return record;
    } catch (const cereal::Exception& e) {
        return reader.error(e.what());
    }
}

}  // namespace isthmus

CEREAL_SETUP_ARCHIVE_TRAITS(isthmus::RecordReader, isthmus::RecordWriter)
