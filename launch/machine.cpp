#include "launch/machine.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>

namespace isthmus::launch {

namespace {

/// /proc and cgroup files have no size, so the file-system port's whole-file read does not fit
/// them.
std::string read_system_file(const char* path) {
    std::ifstream in(path);
    std::ostringstream out;
    out << in.rdbuf();
    return out.str();
}

std::optional<std::int64_t> number_in(const char* path) {
    const std::string text = read_system_file(path);
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{}) return std::nullopt;  // missing, or "max"
    return value;
}

}  // namespace

std::optional<std::int64_t> kib_line_bytes(std::string_view text, std::string_view name) {
    std::size_t at = 0;
    while (at < text.size()) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        std::string_view line = text.substr(at, end - at);
        at = end + 1;
        if (!line.starts_with(name) || line.size() <= name.size() || line[name.size()] != ':')
            continue;
        line.remove_prefix(name.size() + 1);
        line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
        std::int64_t kib = 0;
        const auto parsed = std::from_chars(line.data(), line.data() + line.size(), kib);
        if (parsed.ec != std::errc{}) return std::nullopt;
        return kib * 1024;
    }
    return std::nullopt;
}

std::optional<std::int64_t> available_memory_bytes() {
    auto available = kib_line_bytes(read_system_file("/proc/meminfo"), "MemAvailable");
    // A container sees the host's meminfo; version 2 of cgroups says what is its own.
    const auto limit = number_in("/sys/fs/cgroup/memory.max");
    const auto used = number_in("/sys/fs/cgroup/memory.current");
    if (limit && used) {
        const std::int64_t left = std::max<std::int64_t>(0, *limit - *used);
        available = available ? std::min(*available, left) : left;
    }
    return available;
}

std::optional<std::int64_t> total_memory_bytes() {
    return kib_line_bytes(read_system_file("/proc/meminfo"), "MemTotal");
}

std::optional<std::int64_t> peak_memory_bytes() {
    return kib_line_bytes(read_system_file("/proc/self/status"), "VmHWM");
}

std::optional<std::int64_t> free_disk_bytes(const Path& path) {
    std::error_code error;
    Path at = std::filesystem::absolute(path, error);
    while (!at.empty() && !std::filesystem::exists(at, error) && at != at.parent_path())
        at = at.parent_path();
    const auto space = std::filesystem::space(at, error);
    if (error) return std::nullopt;
    return static_cast<std::int64_t>(space.available);
}

std::string human_bytes(std::int64_t bytes) {
    if (bytes < 1024) return fmt::format("{} bytes", bytes);
    double value = static_cast<double>(bytes) / 1024;
    const char* unit = "KiB";
    for (const char* next : {"MiB", "GiB", "TiB"}) {
        if (value < 1024) break;
        value /= 1024;
        unit = next;
    }
    return fmt::format("{:.1f} {}", value, unit);
}

}  // namespace isthmus::launch
