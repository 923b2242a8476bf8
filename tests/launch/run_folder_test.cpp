#include "launch/run_folder.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "tests/support/faulty_files.hpp"
#include "tests/support/temporary_folder.hpp"

namespace isthmus::launch {
namespace {

class RunFolder : public testing::Test {
  protected:
    void write(const Path& file) {
        ASSERT_TRUE(disk_->make_folders(file.parent_path()));
        ASSERT_TRUE(replace_file(*disk_, file, "x"));
    }
    std::string refusal(bool overwrite, ExitCode code = ExitCode::kUsage) {
        try {
            create_run_folder(files_, run_, overwrite);
        } catch (const Fatal& error) {
            EXPECT_EQ(error.code(), code);
            return error.what();
        }
        return "";
    }
    test::TemporaryFolder folder_;
    std::unique_ptr<FileSystem> disk_ = posix_files();
    test::FaultyFiles files_{*disk_};
    Path run_ = folder_ / "runs" / "a";
};

TEST_F(RunFolder, IsMadeWithItsParents) {
    EXPECT_EQ(refusal(false), "");
    EXPECT_TRUE(files_.exists(run_));
    EXPECT_EQ(refusal(false), "") << "an empty folder is free";
}

TEST_F(RunFolder, AUsedOneIsRefusedAndUntouched) {
    write(run_ / kConfigName);
    write(run_ / kStepsName);
    EXPECT_NE(refusal(false).find("--overwrite"), std::string::npos);
    EXPECT_TRUE(files_.exists(run_ / kStepsName));
}

TEST_F(RunFolder, OverwriteRemovesRecordsAndModel) {
    write(run_ / kConfigName);
    write(run_ / kStepsName);
    write(run_ / kModelName / "model.safetensors");
    write(run_ / kModelName / "config.json");
    EXPECT_EQ(refusal(true), "");
    EXPECT_FALSE(files_.exists(run_ / kStepsName));
    EXPECT_FALSE(files_.exists(run_ / kModelName / "config.json"));
    EXPECT_FALSE(files_.exists(run_ / kModelName / "model.safetensors"));
}

TEST_F(RunFolder, OverwriteNeverTouchesWhatIsNoRun) {
    write(run_ / "thesis.txt");
    EXPECT_NE(refusal(true).find("no run"), std::string::npos);
    EXPECT_TRUE(files_.exists(run_ / "thesis.txt"));
}

TEST_F(RunFolder, AFullDiskIsSaid) {
    files_.fail({.op = test::FileOp::kMakeFolders, .error = ENOSPC});
    EXPECT_NE(refusal(false, ExitCode::kResources).find("a"), std::string::npos);
}

TEST_F(RunFolder, FindsTheModelOfARunOrAFolder) {
    EXPECT_THROW(find_model_folder(files_, run_), Fatal);
    write(run_ / kConfigName);
    try {
        find_model_folder(files_, run_);
        FAIL() << "expected Fatal";
    } catch (const Fatal& error) {
        EXPECT_EQ(error.code(), ExitCode::kInput);
        EXPECT_NE(std::string(error.what()).find("no model/ yet"), std::string::npos)
            << error.what();
    }
    write(run_ / kModelName / "config.json");
    EXPECT_EQ(find_model_folder(files_, run_), run_ / kModelName);
    EXPECT_EQ(find_model_folder(files_, run_ / kModelName), run_ / kModelName);
}

}  // namespace
}  // namespace isthmus::launch
