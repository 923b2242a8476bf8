#include "outer/names.hpp"

namespace isthmus::outer {

std::string hex(const StateHash& hash) {
    constexpr char kDigits[] = "0123456789abcdef";
    std::string text;
    text.reserve(2 * hash.size());
    for (std::byte b : hash) {
        text += kDigits[std::to_integer<unsigned>(b >> 4)];
        text += kDigits[std::to_integer<unsigned>(b & std::byte{15})];
    }
    return text;
}

std::string short_hex(const StateHash& hash) {
    return hex(hash).substr(0, 12);
}

}  // namespace isthmus::outer
