// What this machine offers and lacks: `isthmus doctor`, and doctor.json in each run's folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/files.hpp"
#include "inner/cpu/cpu_ops.hpp"
#include "launch/library_versions.hpp"

namespace isthmus::launch {

struct Missing {
    std::string what;
    std::string for_what;  ///< what cannot be done, or is slower, without it
};

struct DoctorReport {
    inner::CpuFeatures cpu;
    std::vector<std::string> flags;  ///< the processor's features that matter here
    std::string instruction_set;     ///< our own kernels use this one
    bool bf16 = false;
    std::string bf16_reason;
    std::optional<std::int64_t> memory_bytes;
    std::optional<std::int64_t> memory_available_bytes;
    std::string folder;  ///< whose disk was looked at
    std::optional<std::int64_t> disk_free_bytes;
    std::vector<LibraryVersion> libraries;
    std::vector<Missing> missing;
};

/// Looks at this machine; the disk is the one that holds `folder`.
DoctorReport examine(const Path& folder);
/// What follows from the processor's features: reasons and what is missing. Pure.
void judge(DoctorReport&);

std::string doctor_text(const DoctorReport&);
/// An object with the keys build, processor, memory, disk, libraries, missing; ends with a newline.
std::string doctor_json(const DoctorReport&);

}  // namespace isthmus::launch
