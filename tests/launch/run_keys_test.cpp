// Keys that are missing, lie open or belong to another run; a list that changes while it is read.
#include "launch/run_keys.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "launch/keys.hpp"
#include "tests/support/temporary_folder.hpp"

namespace isthmus::launch {
namespace {

class RunKeys : public testing::Test {
  protected:
    void SetUp() override {
        net_.keys = (folder_ / "keys").string();
        net_.coordinator_key = make_run_keys(net_.keys, {"paris", "oslo"});
    }
    template <class F>
    static std::string refusal(const F& f) {
        try {
            f();
        } catch (const Fatal& error) {
            EXPECT_EQ(error.code(), ExitCode::kUsage) << error.what();
            return error.what();
        }
        return "";
    }
    const test::TemporaryFolder folder_;
    const std::unique_ptr<FileSystem> files_ = posix_files();
    net::NetConfig net_;
    Log log_;
};

TEST_F(RunKeys, WithoutKeysThereAreNone) {
    EXPECT_TRUE(coordinator_keys({}).empty());
    EXPECT_TRUE(site_keys({}, "paris", "").empty());
}

TEST_F(RunKeys, AnotherCoordinatorsKeyIsRefused) {
    EXPECT_FALSE(coordinator_keys(net_).empty());
    net_.coordinator_key = net::make_key_pair().public_key;
    EXPECT_NE(refusal([&] { coordinator_keys(net_); }).find("pins"), std::string::npos);
}

TEST_F(RunKeys, AKeyThatOthersMayReadIsRefused) {
    namespace fs = std::filesystem;
    fs::permissions(folder_ / "keys" / "paris.key", fs::perms::group_read, fs::perm_options::add);
    EXPECT_NE(refusal([&] { site_keys(net_, "paris", ""); }).find("chmod"), std::string::npos);
}

TEST_F(RunKeys, AMissingKeyIsNamed) {
    EXPECT_NE(refusal([&] { site_keys(net_, "rome", ""); }).find("rome.key"), std::string::npos);
    net_.keys.clear();
    EXPECT_NE(refusal([&] { site_keys(net_, "rome", ""); }).find("--key"), std::string::npos);
}

TEST_F(RunKeys, TheListFollowsTheFileAndKeepsWhatItHadIfThatIsBad) {
    AllowlistFile list(net_, *files_, log_);
    EXPECT_EQ(list.now().size(), 2u);
    revoke_site_key(net_.keys, "oslo");
    EXPECT_EQ(list.now().size(), 1u);
    const Path file = Path(net_.keys) / kAuthorizedKeysFile;
    ASSERT_TRUE(replace_file(*files_, file, "rome\n"));
    EXPECT_EQ(list.now().size(), 1u);
    ASSERT_TRUE(files_->remove(file));
    EXPECT_EQ(list.now().size(), 1u);
    ASSERT_TRUE(replace_file(*files_, file, "rome " + net::make_key_pair().public_key + "\n"));
    ASSERT_EQ(list.now().size(), 1u);
    EXPECT_EQ(list.now().begin()->second, "rome");
}

}  // namespace
}  // namespace isthmus::launch
