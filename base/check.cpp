#include "base/check.hpp"

#include <cstdio>
#include <cstdlib>

namespace isthmus {

void check_failed(const char* file, int line, const char* text, std::string_view message) {
    std::fprintf(stderr,
                 "CHECK failed: %s%s%.*s (%s:%d). This is a bug in isthmus; please report it.\n",
                 text, message.empty() ? "" : ": ", static_cast<int>(message.size()),
                 message.data(), file, line);
    std::abort();
}

}  // namespace isthmus
