// Records to bytes and back, by cereal, bounded: a length that the bytes which are there cannot hold is
// refused before anything is allocated from it (cereal alone resizes first).
//
// A record declares its fields once; vectors, strings, optionals, variants, arrays, ids and enums nest:
//
//   struct Ready {
//       Round round;
//       std::vector<SampleRange> trained;
//       template <class A> void serialize(A& a) { a(round, trained); }
//   };
//
// Little-endian, fixed widths, no versions inside: a frame's or file's header carries the version.
#pragma once

// CONTRACT (the implementation may add includes of cereal's headers here: this is their one wrapper)
//   template <class T> std::vector<std::byte> pack(const T&);
//   template <class T> Result<T> unpack(std::span<const std::byte>);
//     ERRORS  one line: ends early, a count larger than what is left, an unknown variant index or a
//     bool that is neither 0 nor 1, bytes left over.
