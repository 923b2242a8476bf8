// Checksums against accidents (xxHash). Voted digests (BLAKE2b) belong to the round protocol.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace isthmus {

/// XXH3, 64 bits, seed 0.
std::uint64_t hash64(std::span<const std::byte> data);
std::uint64_t hash64(std::string_view text);

/// XXH3 over a stream of pieces; the same value as hash64 over their concatenation.
class Hasher {
  public:
    Hasher();
    ~Hasher();
    Hasher(Hasher&&) noexcept;
    void update(std::span<const std::byte> data);
    std::uint64_t digest() const;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

/// 16 lower-case hexadecimal digits.
std::string hex(std::uint64_t value);

}  // namespace isthmus
