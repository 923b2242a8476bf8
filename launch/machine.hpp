// What this machine has left: memory, disk, this process's peak. Linux's /proc, read as text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/files.hpp"

namespace isthmus::launch {

/// The bytes of a "Name:   123 kB" line of /proc/meminfo or /proc/self/status.
std::optional<std::int64_t> kib_line_bytes(std::string_view text, std::string_view name);

/// Memory that can be taken without swapping: MemAvailable, or what the cgroup's limit leaves if
/// that is less. nullopt when the system does not say.
std::optional<std::int64_t> available_memory_bytes();
std::optional<std::int64_t> total_memory_bytes();
/// The most memory this process has held so far (VmHWM).
std::optional<std::int64_t> peak_memory_bytes();
/// Free space where `path` is, or will be (its nearest existing parent).
std::optional<std::int64_t> free_disk_bytes(const Path& path);

/// "1.5 GiB", "312.0 MiB", "17 bytes".
std::string human_bytes(std::int64_t bytes);

}  // namespace isthmus::launch
