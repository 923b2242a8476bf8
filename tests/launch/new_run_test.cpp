// A new run's file loads, checks, and fits its keys.
#include "launch/new_run.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "launch/run_keys.hpp"
#include "tests/support/temporary_folder.hpp"

namespace isthmus::launch {
namespace {

class NewRunTest : public testing::Test {
  protected:
    NewRun run(const std::string& name, std::vector<std::string> sites) {
        return {.file = (folder_ / name).string(),
                .data = "some data",
                .sites = std::move(sites),
                .run_folder = {}};
    }
    const test::TemporaryFolder folder_;
    const std::unique_ptr<FileSystem> files_ = posix_files();
};

TEST_F(NewRunTest, TwoSitesHaveKeysThatFitTheFile) {
    const Path file = write_new_run(*files_, run("mine", {"paris", "oslo"}));
    EXPECT_EQ(file, folder_ / "mine.toml");
    const RunConfig config = load_run_config(*files_, file, {});
    EXPECT_EQ(config.name, "mine");
    EXPECT_EQ(config.data, "some data");
    EXPECT_EQ(config.outer.sites, (std::vector<std::string>{"paris", "oslo"}));
    EXPECT_EQ(config.outer.codec, "int8");
    EXPECT_EQ(config.net.keys, (folder_ / "mine.keys").string());
    EXPECT_EQ(coordinator_keys(config.net).public_key, config.net.coordinator_key);
    Log log;
    AllowlistFile allowlist(config.net, *files_, log);
    EXPECT_EQ(allowlist.now().at(site_keys(config.net, "oslo", "").public_key), "oslo");
    EXPECT_EQ(allowlist.now().size(), 2u);
}

TEST_F(NewRunTest, WithoutSitesItTrainsHere) {
    const Path file = write_new_run(*files_, run("alone.toml", {}));
    const RunConfig config = load_run_config(*files_, file, {});
    EXPECT_FALSE(config.several_sites());
    EXPECT_FALSE(files_->exists(folder_ / "alone.keys"));
}

TEST_F(NewRunTest, NothingIsOverwritten) {
    write_new_run(*files_, run("mine", {"paris", "oslo"}));
    EXPECT_THROW(write_new_run(*files_, run("mine", {"paris", "oslo"})), Fatal);
}

TEST_F(NewRunTest, WhatCannotBeIsRefusedBeforeAnythingIsWritten) {
    NewRun bad = run("bad", {"paris", "paris"});
    EXPECT_THROW(write_new_run(*files_, bad), Fatal);
    bad = run("bad", {"paris", "oslo"});
    bad.model = "enormous";
    EXPECT_THROW(write_new_run(*files_, bad), Fatal);
    EXPECT_FALSE(files_->exists(folder_ / "bad.toml"));
    EXPECT_FALSE(files_->exists(folder_ / "bad.keys"));
}

}  // namespace
}  // namespace isthmus::launch
