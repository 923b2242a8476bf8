#include "base/log.hpp"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

namespace isthmus {

struct Log::Impl {
    // Not in spdlog's registry: that is a global. The sink locks, so lines of threads do not mix.
    spdlog::logger logger;
    explicit Impl(const std::string& name)
        : logger(name, std::make_shared<spdlog::sinks::stderr_sink_mt>()) {
        logger.set_pattern(name.empty() ? "%H:%M:%S %l: %v" : "%H:%M:%S %l [%n] %v");
    }
};

namespace {

spdlog::level::level_enum to_spdlog(LogLevel level) {
    switch (level) {
        case LogLevel::kDebug:
            return spdlog::level::debug;
        case LogLevel::kInfo:
            return spdlog::level::info;
        case LogLevel::kWarn:
            return spdlog::level::warn;
        case LogLevel::kError:
            return spdlog::level::err;
    }
    return spdlog::level::err;
}

}  // namespace

Log::Log(std::string name, LogLevel level) : impl_(std::make_unique<Impl>(name)) {
    impl_->logger.set_level(to_spdlog(level));
}

Log::~Log() = default;

void Log::write(LogLevel level, const std::string& line) {
    impl_->logger.log(to_spdlog(level), spdlog::string_view_t(line));
}

}  // namespace isthmus
