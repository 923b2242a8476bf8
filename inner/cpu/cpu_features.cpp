// What this processor can do.
#include <cpuid.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <thread>

#include "inner/cpu/cpu_ops.hpp"
#include "inner/cpu/kernels.hpp"

namespace isthmus::inner {
namespace {

std::string read_model_name() {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);) {
        if (!line.starts_with("model name")) continue;
        const auto colon = line.find(": ");
        if (colon != std::string::npos) return line.substr(colon + 2);
    }
    return "unknown processor";
}

/// Cores that a cgroup's CPU quota leaves (version 2 as seen from inside a container); a large
/// number when there is none.
int cgroup_cores() {
    constexpr int kUnlimited = 1 << 20;
    std::ifstream file("/sys/fs/cgroup/cpu.max");
    std::string quota;
    double period = 0;
    if (!(file >> quota >> period) || quota == "max" || period <= 0) return kUnlimited;
    try {
        return std::max(1, static_cast<int>(std::ceil(std::stod(quota) / period)));
    } catch (const std::exception&) {
        return kUnlimited;
    }
}

int usable_cores() {
    cpu_set_t set;
    CPU_ZERO(&set);
    const int allowed = sched_getaffinity(0, sizeof set, &set) == 0
                            ? CPU_COUNT(&set)
                            : static_cast<int>(std::thread::hardware_concurrency());
    return std::max(1, std::min(allowed, cgroup_cores()));
}

}  // namespace

CpuFeatures detect_cpu() {
    CpuFeatures features;
    // The builtins also ask whether the operating system saves the wide registers.
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        features.best = InstructionSet::kAvx2;
    if (features.best == InstructionSet::kAvx2 && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq"))
        features.best = InstructionSet::kAvx512;
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (features.best == InstructionSet::kAvx512) {
        features.avx512_bf16 = __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & (1u << 5)) != 0;
        features.amx_bf16 = __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & (1u << 22)) != 0;
    }
    features.model_name = read_model_name();
    features.cores = usable_cores();
    return features;
}

std::string to_string(InstructionSet set) {
    switch (set) {
        case InstructionSet::kBaseline:
            return "baseline";
        case InstructionSet::kAvx2:
            return "avx2";
        case InstructionSet::kAvx512:
            return "avx512";
    }
    CHECK(false, "instruction set {}", static_cast<int>(set));
}

std::vector<InstructionSet> available_instruction_sets() {
    std::vector<InstructionSet> sets = {InstructionSet::kBaseline};
    const InstructionSet best = detect_cpu().best;
    if (best >= InstructionSet::kAvx2) sets.push_back(InstructionSet::kAvx2);
    if (best >= InstructionSet::kAvx512) sets.push_back(InstructionSet::kAvx512);
    return sets;
}

bool cpu_has_bf16() {
    return detect_cpu().avx512_bf16;
}

const Kernels& kernels_of(InstructionSet set) {
    switch (set) {
        case InstructionSet::kBaseline:
            return kKernelsBaseline;
        case InstructionSet::kAvx2:
            return kKernelsAvx2;
        case InstructionSet::kAvx512:
            return kKernelsAvx512;
    }
    CHECK(false, "instruction set {}", static_cast<int>(set));
}

}  // namespace isthmus::inner
