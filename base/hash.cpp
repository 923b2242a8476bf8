#include "base/hash.hpp"

#include <fmt/core.h>
#include <xxhash.h>

#include "base/check.hpp"

namespace isthmus {

std::uint64_t hash64(std::span<const std::byte> data) {
    return XXH3_64bits(data.data(), data.size());
}

std::uint64_t hash64(std::string_view text) {
    return XXH3_64bits(text.data(), text.size());
}

struct Hasher::State {
    // XXH3_createState aligns as the library needs; a plain member would not be at every ISA.
    XXH3_state_t* xxh = XXH3_createState();
    State() {
        CHECK(xxh != nullptr, "out of memory for a hash state");
        XXH3_64bits_reset(xxh);
    }
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    ~State() { XXH3_freeState(xxh); }
};

Hasher::Hasher() : state_(std::make_unique<State>()) {}
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;

void Hasher::update(std::span<const std::byte> data) {
    XXH3_64bits_update(state_->xxh, data.data(), data.size());
}

std::uint64_t Hasher::digest() const {
    return XXH3_64bits_digest(state_->xxh);
}

std::string hex(std::uint64_t value) {
    return fmt::format("{:016x}", value);
}

}  // namespace isthmus
