#include "launch/keys.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <fstream>

#include "base/error.hpp"
#include "launch/command.hpp"
#include "net/keys.hpp"

namespace isthmus::launch {
namespace {

class KeysCommand : public testing::Test {
  protected:
    void SetUp() override {
        ASSERT_NE(::mkdtemp(top_.data()), nullptr);
        dir_ = Path(top_) / "keys";
    }
    void TearDown() override { std::filesystem::remove_all(top_); }

    std::vector<net::AuthorizedKey> listed() {
        const auto files = posix_files();
        const auto text = read_text(*files, dir_ / kAuthorizedKeysFile);
        return net::parse_authorized_keys(text.value(), "list").value();
    }
    /// What `isthmus keys ...` prints, then how it ended.
    std::string command(std::vector<std::string> arguments) {
        const auto files = posix_files();
        Log log;
        CommandContext context{*files, log, [] { return false; }, false};
        CLI::App app("test", "isthmus");
        add_keys_command(app, context);
        arguments.insert(arguments.begin(), "keys");
        std::reverse(arguments.begin(), arguments.end());
        testing::internal::CaptureStdout();
        std::string ended;
        try {
            app.parse(arguments);
        } catch (const Fatal& error) {
            ended = std::to_string(static_cast<int>(error.code())) + ": " + error.what();
        }
        return testing::internal::GetCapturedStdout() + ended;
    }
    std::string top_ = testing::TempDir() + "run_keysXXXXXX";
    Path dir_;
};

TEST_F(KeysCommand, NewMakesAPairForEachAndTheList) {
    const std::string said = command({"new", dir_.string(), "--sites", "paris,oslo"});
    const auto coordinator = net::read_key_file(dir_ / kCoordinatorKeyFile);
    ASSERT_TRUE(coordinator);
    EXPECT_EQ(said, coordinator->public_key + "\n");
    const auto keys = listed();
    ASSERT_EQ(keys.size(), 2u);
    for (const auto& key : keys) {
        const auto pair = net::read_key_file(site_key_file(dir_, key.name));
        ASSERT_TRUE(pair) << pair.error().message;
        EXPECT_EQ(pair->public_key, key.public_key);
        EXPECT_FALSE(key.revoked);
    }
    EXPECT_EQ(command({"show", dir_.string()}),
              fmt::format("{}  coordinator\n{}  paris\n{}  oslo\n", coordinator->public_key,
                          keys[0].public_key, keys[1].public_key));
    EXPECT_EQ(command({"show", (dir_ / "oslo.key").string()}), keys[1].public_key + "\n");
    EXPECT_EQ(command({"new", dir_.string(), "--sites", "rome"})
                  .rfind("3: " + (dir_ / kAuthorizedKeysFile).string() + " exists already", 0),
              0u);
}

TEST_F(KeysCommand, NewLeavesNothingWhenItFails) {
    std::filesystem::create_directories(dir_);
    std::ofstream(dir_ / "oslo.key") << "mine";
    EXPECT_NE(
        command({"new", dir_.string(), "--sites", "paris,oslo"}).find("oslo.key: exists already"),
        std::string::npos);
    EXPECT_FALSE(std::filesystem::exists(dir_ / "paris.key"));
    EXPECT_FALSE(std::filesystem::exists(dir_ / kCoordinatorKeyFile));
    EXPECT_EQ(std::filesystem::file_size(dir_ / "oslo.key"), 4u);
    for (const char* sites : {"paris,paris", "../x", "coordinator"})
        EXPECT_EQ(command({"new", dir_.string(), "--sites", sites}).rfind("2: ", 0), 0u) << sites;
}

TEST_F(KeysCommand, AddAndRevokeChangeTheList) {
    make_run_keys(dir_, {"paris"});
    const std::string added = command({"add", dir_.string(), "oslo"});
    EXPECT_EQ(added, net::read_key_file(dir_ / "oslo.key")->public_key + "\n");
    const std::string rome = net::make_key_pair().public_key;
    EXPECT_EQ(command({"add", dir_.string(), "rome", rome}), rome + "\n");
    EXPECT_FALSE(std::filesystem::exists(dir_ / "rome.key"));
    EXPECT_EQ(net::allowlist_of(listed()).size(), 3u);

    EXPECT_EQ(command({"revoke", dir_.string(), "rome"}), "");
    EXPECT_EQ(net::allowlist_of(listed()).count(rome), 0u);
    EXPECT_NE(command({"show", dir_.string()}).find(rome + "  rome (revoked)\n"),
              std::string::npos);
    // A site gets a new key, never its old one again.
    EXPECT_NE(command({"add", dir_.string(), "rome", rome}).find("was revoked; make a new one"),
              std::string::npos);
    EXPECT_EQ(command({"add", dir_.string(), "rome"}).size(), 41u);
    EXPECT_EQ(net::allowlist_of(listed()).size(), 3u);
}

TEST_F(KeysCommand, WhatCannotBeDoneIsSaid) {
    EXPECT_EQ(command({"add", dir_.string(), "oslo"}).rfind("3: " + dir_.string(), 0), 0u);
    make_run_keys(dir_, {"paris"});
    const std::string key = listed()[0].public_key;
    EXPECT_NE(command({"add", dir_.string(), "paris"}).find("2: paris has a key already"),
              std::string::npos);
    EXPECT_NE(command({"add", dir_.string(), "oslo", key}).find("2: that key is paris's already"),
              std::string::npos);
    EXPECT_NE(command({"add", dir_.string(), "oslo", "short"}).find("2: short: not a public key"),
              std::string::npos);
    EXPECT_NE(command({"add", dir_.string(), "a/b"}).find("is not a site's name"),
              std::string::npos);
    EXPECT_NE(command({"revoke", dir_.string(), "pari"}).find("no site pari; did you mean paris?"),
              std::string::npos);
    command({"revoke", dir_.string(), "paris"});
    EXPECT_NE(command({"revoke", dir_.string(), "paris"}).find("paris's key is revoked already"),
              std::string::npos);
    ::chmod((dir_ / "paris.key").c_str(), 0644);
    EXPECT_NE(command({"show", (dir_ / "paris.key").string()}).find("chmod 600"),
              std::string::npos);
}

}  // namespace
}  // namespace isthmus::launch
