#include "base/build_info.hpp"

#include <fmt/core.h>

#include "generated/commit.hpp"  // written by cmake/commit.cmake, only when the commit changes

namespace isthmus {

BuildInfo build_info() {
    return {.version = ISTHMUS_VERSION,
            .commit = kCommit,
            .compiler = fmt::format("g++ {}", __VERSION__),
            .build_type = ISTHMUS_BUILD_TYPE,
            .sanitizers = ISTHMUS_SANITIZERS};
}

std::string build_info_line() {
    const BuildInfo info = build_info();
    return fmt::format("{} (commit {}, {}, {}{}{})", info.version, info.commit, info.compiler,
                       info.build_type, info.sanitizers.empty() ? "" : ", sanitizers ",
                       info.sanitizers);
}

}  // namespace isthmus
