#include "launch/records.hpp"

#include <gtest/gtest.h>

#include "launch/run_folder.hpp"
#include "tests/support/temporary_folder.hpp"

namespace isthmus::launch {
namespace {

TEST(JsonLines, ALongFileIsSetAsideAndNothingIsLost) {
    const test::TemporaryFolder folder;
    const auto files = posix_files();
    const Path file = folder / kStepsName;
    const std::string line = "{\"step\":1}\n";
    const auto write = [&](JsonLines::Mode mode, int lines) {
        JsonLines out(*files, file, mode, 3 * line.size());
        for (int i = 0; i < lines; ++i) {
            out.line().append(line);
            out.flush();
        }
        out.finish();
    };
    write(JsonLines::Mode::kReplace, 7);
    write(JsonLines::Mode::kAppend, 3);
    const std::string full = line + line + line;
    EXPECT_EQ(rotated_name(file, 2).filename(), "steps.2.jsonl");
    for (int number : {1, 2, 3})
        EXPECT_EQ(read_text(*files, rotated_name(file, number)).value(), full) << number;
    EXPECT_EQ(read_text(*files, file).value(), line);
    EXPECT_FALSE(files->exists(rotated_name(file, 4)));
}

TEST(JsonLines, ARunThatIsReplacedLeavesNoneOfThem) {
    const test::TemporaryFolder folder;
    const auto files = posix_files();
    const Path run = folder / "run";
    create_run_folder(*files, run, false);
    for (const Path& file :
         {run / kConfigName, run / kStepsName, rotated_name(run / kStepsName, 1),
          rotated_name(run / kRoundsName, 1), rotated_name(run / kRoundsName, 2)})
        ASSERT_TRUE(replace_file(*files, file, "x"));
    create_run_folder(*files, run, true);
    const auto left = files->list(run);
    ASSERT_TRUE(left);
    for (const Path& file : *left) EXPECT_NE(file.extension(), ".jsonl") << file;
}

}  // namespace
}  // namespace isthmus::launch
