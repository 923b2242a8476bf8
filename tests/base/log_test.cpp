#include "base/log.hpp"

#include <gtest/gtest.h>

#include <regex>
#include <sstream>
#include <thread>

namespace isthmus {
namespace {

TEST(Log, LineHasTimeLevelNameAndText) {
    testing::internal::CaptureStderr();
    {
        Log log("paris", LogLevel::kInfo);
        log.debug("not shown {}", 1);
        log.info("loss {:.2f} {{}}", 2.5);
        Log("").warn("plain");
    }
    const std::string text = testing::internal::GetCapturedStderr();
    EXPECT_TRUE(
        std::regex_match(text, std::regex("\\d\\d:\\d\\d:\\d\\d info \\[paris\\] loss 2.50 \\{\\}\n"
                                          "\\d\\d:\\d\\d:\\d\\d warning: plain\n")))
        << text;
}

TEST(Log, LinesOfThreadsDoNotMix) {
    testing::internal::CaptureStderr();
    {
        Log log;
        std::vector<std::jthread> threads;
        for (int t = 0; t < 4; ++t)
            threads.emplace_back([&log, t] {
                for (int i = 0; i < 200; ++i)
                    log.info("{}", std::string(50, static_cast<char>('a' + t)));
            });
    }
    std::istringstream lines(testing::internal::GetCapturedStderr());
    int count = 0;
    for (std::string line; std::getline(lines, line); ++count) {
        const std::string tail = line.substr(line.size() - 50);
        ASSERT_EQ(tail, std::string(50, tail[0])) << line;
    }
    EXPECT_EQ(count, 800);
}

}  // namespace
}  // namespace isthmus
