// What this program was built from: goes into --version, `isthmus doctor` and each run's folder.
#pragma once

#include <string>

namespace isthmus {

struct BuildInfo {
    std::string version;  ///< "0.1.0"
    std::string commit;   ///< "1a2b3c4d5e6f", "...+changes" if tracked files differed, or "unknown"
    std::string compiler;    ///< "g++ 12.2.0"
    std::string build_type;  ///< "Release"
    std::string sanitizers;  ///< "address,undefined", "thread" or ""
};

BuildInfo build_info();

/// "0.1.0 (commit 1a2b3c4d5e6f, g++ 12.2.0, Release)", and the sanitizers if there are any.
std::string build_info_line();

}  // namespace isthmus
