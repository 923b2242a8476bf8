#include "launch/doctor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>

#include "base/build_info.hpp"
#include "launch/machine.hpp"

namespace isthmus::launch {

namespace {

/// In the order of the kernel's names; what our kernels or oneDNN make use of.
constexpr std::array<std::string_view, 10> kFlags = {
    "avx",      "fma",      "f16c",        "avx2",     "avx512f",
    "avx512bw", "avx512vl", "avx512_bf16", "amx_bf16", "amx_tile"};

std::vector<std::string> processor_flags() {
    std::ifstream in("/proc/cpuinfo");
    std::vector<std::string> found;
    for (std::string line; std::getline(in, line);) {
        if (!line.starts_with("flags")) continue;
        std::istringstream words(line);
        const std::vector<std::string> all{std::istream_iterator<std::string>(words), {}};
        for (const auto flag : kFlags)
            if (std::find(all.begin(), all.end(), flag) != all.end()) found.emplace_back(flag);
        break;
    }
    return found;
}

std::string bytes_or_unknown(const std::optional<std::int64_t>& bytes) {
    return bytes ? human_bytes(*bytes) : std::string("not known");
}

nlohmann::ordered_json number_or_null(const std::optional<std::int64_t>& value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

}  // namespace

void judge(DoctorReport& report) {
    const inner::CpuFeatures& cpu = report.cpu;
    report.instruction_set = inner::to_string(cpu.best);
    report.bf16 = cpu.avx512_bf16 || cpu.amx_bf16;
    report.bf16_reason = cpu.amx_bf16      ? "the processor has AMX"
                         : cpu.avx512_bf16 ? "the processor has AVX-512 BF16"
                                           : "the processor has neither AVX-512 BF16 nor AMX";
    if (!report.bf16) {
        report.missing.push_back({"bf16 instructions (AVX-512 BF16 or AMX)",
                                  "train.dtype = \"bf16\", about twice as fast as fp32"});
    }
    if (cpu.best != inner::InstructionSet::kAvx512) {
        report.missing.push_back(
            {"AVX-512", "wider kernels; this program uses " + report.instruction_set + " here"});
    }
}

DoctorReport examine(const Path& folder) {
    DoctorReport report;
    report.cpu = inner::detect_cpu();
    report.flags = processor_flags();
    report.memory_bytes = total_memory_bytes();
    report.memory_available_bytes = available_memory_bytes();
    report.folder = folder.string();
    report.disk_free_bytes = free_disk_bytes(folder);
    report.libraries = library_versions();
    judge(report);
    return report;
}

std::string doctor_text(const DoctorReport& report) {
    std::string flags;
    for (const auto& flag : report.flags) flags += (flags.empty() ? "" : " ") + flag;
    std::string out = fmt::format(
        "isthmus      {}\n"
        "processor    {}\n"
        "cores        {} (that this process may use)\n"
        "features     {}\n"
        "kernels      {}\n"
        "bf16         {}: {}\n"
        "memory       {} of {} available\n"
        "disk         {} free in {}\n",
        build_info_line(), report.cpu.model_name, report.cpu.cores, flags, report.instruction_set,
        report.bf16 ? "yes" : "no", report.bf16_reason,
        bytes_or_unknown(report.memory_available_bytes), bytes_or_unknown(report.memory_bytes),
        bytes_or_unknown(report.disk_free_bytes), report.folder);
    out += "libraries\n";
    for (const auto& library : report.libraries)
        out += fmt::format("  {:<10} {:<8} {}\n", library.name, library.version, library.used_for);
    out += report.missing.empty() ? "missing      nothing\n" : "missing\n";
    for (const auto& missing : report.missing)
        out += fmt::format("  {}: for {}\n", missing.what, missing.for_what);
    return out;
}

std::string doctor_json(const DoctorReport& report) {
    nlohmann::ordered_json json;
    json["build"] = build_info_line();
    json["processor"] = {
        {"name", report.cpu.model_name}, {"cores", report.cpu.cores},
        {"features", report.flags},      {"instruction_set", report.instruction_set},
        {"bf16", report.bf16},           {"bf16_reason", report.bf16_reason}};
    json["memory"] = {{"total_bytes", number_or_null(report.memory_bytes)},
                      {"available_bytes", number_or_null(report.memory_available_bytes)}};
    json["disk"] = {{"folder", report.folder},
                    {"free_bytes", number_or_null(report.disk_free_bytes)}};
    json["libraries"] = nlohmann::ordered_json::array();
    for (const auto& library : report.libraries)
        json["libraries"].push_back(
            {{"name", library.name}, {"version", library.version}, {"used_for", library.used_for}});
    json["missing"] = nlohmann::ordered_json::array();
    for (const auto& missing : report.missing)
        json["missing"].push_back({{"what", missing.what}, {"for", missing.for_what}});
    return json.dump(2) + "\n";
}

}  // namespace isthmus::launch
