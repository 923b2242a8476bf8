#include "launch/byte_progress.hpp"

#include <gtest/gtest.h>

namespace isthmus::launch {
namespace {

TEST(ByteProgress, LineSaysShareBytesRateAndTimeLeft) {
    EXPECT_EQ(byte_progress_line("reading", 126000000, 300000000, 81.2e6, true),
              "reading  42 %  [########            ]  126.0 of 300.0 MB  81.2 MB/s  ETA 2 s");
    EXPECT_EQ(byte_progress_line("reading", 0, 300000000, 0, false),
              "reading   0 %  0.0 of 300.0 MB");
    EXPECT_EQ(byte_progress_line("reading", 299999999, 300000000, 1e6, false),
              "reading  99 %  300.0 of 300.0 MB  1.0 MB/s  ETA 0 s");
    EXPECT_EQ(byte_progress_line("reading", 0, 0, 0, false), "reading 100 %  0.0 of 0.0 MB");
}

class Shown {
  public:
    explicit Shown(bool terminal)
        : progress({"reading", terminal, [this](const std::string& line) { plain.push_back(line); },
                    [this](const std::string& line) { redrawn.push_back(line); }}) {}
    std::vector<std::string> plain, redrawn;
    ByteProgress progress;
};

TEST(ByteProgress, PlainLinesComeEveryFiveSeconds) {
    Shown shown(false);
    for (int tenths = 0; tenths <= 120; ++tenths)
        shown.progress.update(static_cast<std::uint64_t>(tenths) * 100000, 100000000,
                              7 + tenths / 10.0);
    EXPECT_TRUE(shown.redrawn.empty());
    ASSERT_EQ(shown.plain.size(), 2u);
    EXPECT_EQ(shown.plain[0], "reading   5 %  5.0 of 100.0 MB  1.0 MB/s  ETA 1 min 35 s");
}

TEST(ByteProgress, TerminalRedrawsAndTidiesUp) {
    std::vector<std::string> redrawn;
    {
        ByteProgress progress(
            {"reading", true, {}, [&](const std::string& l) { redrawn.push_back(l); }});
        for (int hundredths = 0; hundredths < 100; ++hundredths)
            progress.update(5, 10, hundredths / 100.0);
        EXPECT_GE(redrawn.size(), 8u);
        EXPECT_LE(redrawn.size(), 10u);
    }
    EXPECT_EQ(redrawn.back(), "");
}

}  // namespace
}  // namespace isthmus::launch
