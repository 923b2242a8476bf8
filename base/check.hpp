// CHECK: an invariant of our own code. A failure is a bug of ours, so it aborts, in release builds
// too.
#pragma once

#include <fmt/core.h>

#include <string_view>

namespace isthmus {

/// Prints "CHECK failed: text, message (file:line)" to stderr and aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* text,
                               std::string_view message);

}  // namespace isthmus

/// CHECK(condition) or CHECK(condition, "format {}", args...).
#define CHECK(condition, ...)                                            \
    do {                                                                 \
        if (!(condition)) [[unlikely]]                                   \
            ::isthmus::check_failed(__FILE__, __LINE__, #condition,      \
                                    ::isthmus::check_text(__VA_ARGS__)); \
    } while (false)

namespace isthmus {
inline std::string check_text() {
    return {};
}
template <class... Args>
std::string check_text(fmt::format_string<Args...> format, Args&&... args) {
    return fmt::format(format, std::forward<Args>(args)...);
}
}  // namespace isthmus
