// The log: lines on stderr with time, level and the process's name. No globals: main builds one and
// passes it down.
#pragma once

#include <fmt/core.h>

#include <memory>
#include <string>

namespace isthmus {

enum class LogLevel { kDebug, kInfo, kWarn, kError };

class Log {
  public:
    /// `name` stands in front of each line ("paris", "coordinator"); empty for none.
    explicit Log(std::string name = {}, LogLevel level = LogLevel::kInfo);
    ~Log();
    template <class... A>
    void debug(fmt::format_string<A...> f, A&&... a) {
        write(LogLevel::kDebug, fmt::format(f, std::forward<A>(a)...));
    }
    template <class... A>
    void info(fmt::format_string<A...> f, A&&... a) {
        write(LogLevel::kInfo, fmt::format(f, std::forward<A>(a)...));
    }
    template <class... A>
    void warn(fmt::format_string<A...> f, A&&... a) {
        write(LogLevel::kWarn, fmt::format(f, std::forward<A>(a)...));
    }
    template <class... A>
    void error(fmt::format_string<A...> f, A&&... a) {
        write(LogLevel::kError, fmt::format(f, std::forward<A>(a)...));
    }

  private:
    void write(LogLevel, const std::string& line);
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace isthmus
