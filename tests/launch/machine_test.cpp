#include "launch/machine.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "launch/training.hpp"

namespace isthmus::launch {
namespace {

TEST(KibLine, ReadsTheLineOfThatName) {
    const std::string text =
        "MemTotal:       8000 kB\nMemAvailable:   4000 kB\nVmHWM:\t  12 kB\nBroken: none\n";
    EXPECT_EQ(kib_line_bytes(text, "MemAvailable"), 4000 * 1024);
    EXPECT_EQ(kib_line_bytes(text, "VmHWM"), 12 * 1024);
    EXPECT_EQ(kib_line_bytes(text, "Mem"), std::nullopt);
    EXPECT_EQ(kib_line_bytes(text, "Broken"), std::nullopt);
    EXPECT_EQ(kib_line_bytes("", "VmHWM"), std::nullopt);
}

TEST(Machine, ThisOneHasMemoryAndDisk) {
    EXPECT_GT(available_memory_bytes().value(), 0);
    EXPECT_GE(total_memory_bytes().value(), available_memory_bytes().value());
    EXPECT_GT(peak_memory_bytes().value(), 1 << 20);
    EXPECT_GT(free_disk_bytes("not/yet/there").value(), 0);
}

TEST(HumanBytes, HasOneDecimal) {
    EXPECT_EQ(human_bytes(17), "17 bytes");
    EXPECT_EQ(human_bytes(1536), "1.5 KiB");
    EXPECT_EQ(human_bytes(std::int64_t{3} << 30), "3.0 GiB");
    EXPECT_EQ(human_bytes(std::int64_t{5} << 50), "5120.0 TiB");
}

TEST(RequireMemory, NamesBothFigures) {
    EXPECT_NO_THROW(require_memory(100, 100));
    EXPECT_NO_THROW(require_memory(100, std::nullopt));
    try {
        require_memory(std::int64_t{3} << 30, std::int64_t{2} << 30);
        FAIL() << "expected Fatal";
    } catch (const Fatal& error) {
        EXPECT_EQ(error.code(), ExitCode::kResources);
        const std::string message = error.what();
        EXPECT_NE(message.find("3.0 GiB"), std::string::npos) << message;
        EXPECT_NE(message.find("2.0 GiB"), std::string::npos) << message;
    }
}

}  // namespace
}  // namespace isthmus::launch
