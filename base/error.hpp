// Fatal: "this process cannot go on". Thrown anywhere, caught only in main, which prints one line
// and exits.
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>

namespace isthmus {

/// Exit codes of the program, documented in README.md and in `isthmus --help`.
enum class ExitCode : int {
    kOk = 0,
    kInternal = 1,      ///< an error that has no better code; a bug of ours aborts instead
    kUsage = 2,         ///< command line or configuration
    kInput = 3,         ///< a data, model or run folder that is missing, damaged or does not fit
    kResources = 4,     ///< memory, disk or processor feature lacking
    kDiverged = 5,      ///< three steps in a row with NaN or Inf gradients
    kPeerLost = 6,      ///< another process of the run was lost
    kInterrupted = 130  ///< Ctrl-C or SIGTERM: the step was finished, what was kept has been said
};

/// One clear line: what, where, what to do. No trailing newline.
class Fatal : public std::runtime_error {
  public:
    Fatal(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
    ExitCode code() const { return code_; }

  private:
    ExitCode code_;
};

/// throw fatal(ExitCode::kInput, "{}: not a token file ...", path);
template <class... Args>
Fatal fatal(ExitCode code, fmt::format_string<Args...> format, Args&&... args) {
    return Fatal(code, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace isthmus
