#include "net/keys.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace isthmus::net {
namespace {

class Keys : public testing::Test {
  protected:
    void SetUp() override {
        ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
        file_ = Path(folder_) / "paris.key";
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }
    /// Writes the text with mode 0600 and reads it as a key file: the error, or "accepted".
    std::string reading(const std::string& text) {
        std::filesystem::remove(file_);
        std::ofstream(file_) << text;
        ::chmod(file_.c_str(), 0600);
        const auto keys = read_key_file(file_);
        return keys ? "accepted" : keys.error().message;
    }
    std::string folder_ = testing::TempDir() + "keysXXXXXX";
    Path file_;
};

/// RFC 26's and ZeroMQ's own example of a pair (man page of zmq_curve).
constexpr const char* kPublic = "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID";
constexpr const char* kSecret = "D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs";

TEST_F(Keys, PairsAreNew) {
    const KeyPair one = make_key_pair(), two = make_key_pair();
    for (const std::string& key : {one.public_key, one.secret_key, two.public_key})
        EXPECT_TRUE(is_key(key)) << key;
    EXPECT_NE(one.secret_key, two.secret_key);
    EXPECT_TRUE(is_key(kPublic));
    for (const char* wrong :
         {"", "short", "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hI",
          "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID0", "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hI\"",
          "########################################"})
        EXPECT_FALSE(is_key(wrong)) << wrong;
}

TEST_F(Keys, AFileIsTheOwnersAloneAndNeverOverwritten) {
    const KeyPair keys = make_key_pair();
    ASSERT_TRUE(write_key_file(file_, "paris", keys));
    struct stat info {};
    ASSERT_EQ(::stat(file_.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, 0600u);
    const auto read = read_key_file(file_);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->public_key, keys.public_key);
    EXPECT_EQ(read->secret_key, keys.secret_key);
    const Status again = write_key_file(file_, "paris", make_key_pair());
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().message,
              file_.string() + ": exists already; a key is never overwritten, remove it first");
    EXPECT_EQ(read_key_file(file_)->secret_key, keys.secret_key);
}

TEST_F(Keys, AFileThatOthersCanReadIsRefused) {
    ASSERT_TRUE(write_key_file(file_, "paris", make_key_pair()));
    for (const auto& [mode, text] : {std::pair{0644, "0644"}, {0640, "0640"}, {0602, "0602"}}) {
        ASSERT_EQ(::chmod(file_.c_str(), static_cast<mode_t>(mode)), 0);
        const auto keys = read_key_file(file_);
        ASSERT_FALSE(keys);
        EXPECT_EQ(keys.error().message, fmt::format("{0}: mode {1} lets others at a secret key; "
                                                    "chmod 600 {0}",
                                                    file_.string(), text));
    }
    ASSERT_EQ(::chmod(file_.c_str(), 0400), 0);
    EXPECT_TRUE(read_key_file(file_));
}

TEST_F(Keys, WhatIsNoKeyFileIsRefusedWithoutTellingItsSecret) {
    const std::string pub = std::string("public = ") + kPublic + "\n";
    const std::string secret = std::string("secret = ") + kSecret + "\n";
    EXPECT_EQ(reading("# a comment\n\n" + pub + secret), "accepted");
    const std::pair<std::string, std::string> cases[] = {
        {"", ": not a key file: no \"public = KEY\""},
        {pub, ": not a key file: no \"secret = KEY\""},
        {pub + "secret = " + kSecret + "x\n", ":2: not a line of a key file"},
        {pub + "private = " + kSecret + "\n", ":2: not a line of a key file"},
        {pub + pub + secret, ":2: not a line of a key file"},
        {"public = " + std::string(kSecret) + "\nsecret = " + kSecret + "\n",
         ": the public key does not belong to the secret one"},
        {std::string(70'000, '#'), ": too long for a key file"},
    };
    for (const auto& [text, why] : cases) {
        const std::string said = reading(text);
        EXPECT_EQ(said.rfind(file_.string() + why, 0), 0u) << said;
        EXPECT_EQ(said.find(kSecret), std::string::npos) << said;
    }
    std::filesystem::remove(file_);
    EXPECT_EQ(read_key_file(file_).error().message, file_.string() + ": No such file or directory");
    EXPECT_EQ(read_key_file(folder_).error().message, folder_ + ": not a file");
    EXPECT_FALSE(write_key_file(Path(folder_) / "no" / "x.key", "x", make_key_pair()));
}

TEST(AuthorizedKeys, AreReadBackAsWritten) {
    const std::vector<AuthorizedKey> keys{{"paris", make_key_pair().public_key, false},
                                          {"oslo", make_key_pair().public_key, true},
                                          {"oslo", make_key_pair().public_key, false}};
    const auto read = parse_authorized_keys(format_authorized_keys(keys), "keys");
    ASSERT_TRUE(read) << read.error().message;
    ASSERT_EQ(read->size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ((*read)[i].name, keys[i].name);
        EXPECT_EQ((*read)[i].public_key, keys[i].public_key);
        EXPECT_EQ((*read)[i].revoked, keys[i].revoked);
    }
    EXPECT_EQ(allowlist_of(*read),
              (Allowlist{{keys[0].public_key, "paris"}, {keys[2].public_key, "oslo"}}));
    EXPECT_TRUE(parse_authorized_keys("", "keys")->empty());
}

TEST(AuthorizedKeys, NameTheLineThatIsWrong) {
    const std::string a = make_key_pair().public_key, b = make_key_pair().public_key;
    const std::pair<std::string, std::string> cases[] = {
        {"paris\n", "keys:1: not \"NAME KEY\""},
        {"# sites\nrevoked " + a + "\n", "keys:2: not \"NAME KEY\""},
        {"paris " + a + " and more\n", "keys:1: not \"NAME KEY\""},
        {"paris abc\n", "keys:1: abc is not a public key"},
        {"par/is " + a + "\n", "keys:1: par/is is not a site's name"},
        {"coordinator " + a + "\n", "keys:1: coordinator is not a site's name"},
        {"paris " + a + "\noslo " + a + "\n", "keys:2: the key stands here twice"},
        {"paris " + a + "\nparis " + b + "\n", "keys:2: paris has a key already"},
    };
    for (const auto& [text, why] : cases) {
        const auto keys = parse_authorized_keys(text, "keys");
        ASSERT_FALSE(keys) << text;
        EXPECT_EQ(keys.error().message.rfind(why, 0), 0u) << keys.error().message;
    }
}

TEST(AuthorizedKeys, NamesAreFileNamesToo) {
    for (const char* right : {"paris", "p", "Site-1_b.eu", "1"}) EXPECT_TRUE(is_key_name(right));
    for (const char* wrong : {"", ".", "..", "-x", "_x", "a/b", "a b", "revoked", "coordinator",
                              "a\n", "\xc3\xa9t\xc3\xa9"})
        EXPECT_FALSE(is_key_name(wrong)) << wrong;
    EXPECT_FALSE(is_key_name(std::string(65, 'a')));
}

}  // namespace
}  // namespace isthmus::net
