#include "launch/doctor.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace isthmus::launch {
namespace {

DoctorReport judged(inner::InstructionSet best, bool avx512_bf16, bool amx) {
    DoctorReport report;
    report.cpu.best = best;
    report.cpu.avx512_bf16 = avx512_bf16;
    report.cpu.amx_bf16 = amx;
    judge(report);
    return report;
}

TEST(Doctor, ABetterProcessorLacksNothing) {
    EXPECT_TRUE(judged(inner::InstructionSet::kAvx512, true, true).missing.empty());
    EXPECT_TRUE(judged(inner::InstructionSet::kAvx512, true, false).bf16);
}

TEST(Doctor, WithoutBf16ItSaysWhy) {
    const auto report = judged(inner::InstructionSet::kAvx2, false, false);
    EXPECT_FALSE(report.bf16);
    EXPECT_NE(report.bf16_reason.find("AMX"), std::string::npos);
    EXPECT_EQ(report.missing.size(), 2u);
    EXPECT_EQ(report.instruction_set, "avx2");
}

TEST(Doctor, JsonAndTextSpeakOfThisMachine) {
    const DoctorReport report = examine(".");
    const auto json = nlohmann::json::parse(doctor_json(report));
    for (const char* key : {"build", "processor", "memory", "disk", "libraries", "missing"})
        EXPECT_TRUE(json.contains(key)) << key;
    EXPECT_GT(json["processor"]["cores"].get<int>(), 0);
    EXPECT_GT(json["memory"]["available_bytes"].get<std::int64_t>(), 0);
    const std::string text = doctor_text(report);
    for (const auto& library : report.libraries) {
        EXPECT_FALSE(library.version.empty()) << library.name;
        EXPECT_NE(text.find(library.name), std::string::npos);
    }
}

}  // namespace
}  // namespace isthmus::launch
