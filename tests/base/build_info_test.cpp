#include "base/build_info.hpp"

#include <gtest/gtest.h>

#include <regex>

namespace isthmus {
namespace {

TEST(BuildInfo, NamesVersionCommitCompilerAndBuildType) {
    const BuildInfo info = build_info();
    EXPECT_TRUE(std::regex_match(info.version, std::regex("\\d+\\.\\d+\\.\\d+"))) << info.version;
    EXPECT_TRUE(std::regex_match(info.commit, std::regex("unknown|[0-9a-f]{12}(\\+changes)?")))
        << info.commit;
    EXPECT_TRUE(info.compiler.starts_with("g++ ")) << info.compiler;
    EXPECT_FALSE(info.build_type.empty());
    const std::string line = build_info_line();
    EXPECT_TRUE(line.starts_with(info.version + " (commit " + info.commit + ", g++ ")) << line;
}

}  // namespace
}  // namespace isthmus
