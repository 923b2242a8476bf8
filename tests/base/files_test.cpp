#include "base/files.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "tests/support/faulty_files.hpp"
#include "tests/support/temporary_folder.hpp"

namespace isthmus {
namespace {

std::span<const std::byte> bytes(std::string_view text) {
    return std::as_bytes(std::span(text.data(), text.size()));
}

class Files : public testing::Test {
  protected:
    test::TemporaryFolder folder_;
    Path at(const char* name) const { return folder_ / name; }
    std::unique_ptr<FileSystem> files_ = posix_files();
    void put(const char* name, std::string_view text) {
        ASSERT_TRUE(replace_file(*files_, at(name), text));
    }
};

TEST_F(Files, AppendThenOverwriteThenRead) {
    auto file = files_->create(at("a"));
    ASSERT_TRUE(file);
    ASSERT_TRUE((*file)->append(bytes("head")));
    ASSERT_TRUE((*file)->append(bytes("tail")));
    ASSERT_TRUE((*file)->write_at(0, bytes("HE")));
    ASSERT_TRUE((*file)->append(bytes("!")));
    ASSERT_TRUE((*file)->sync());
    ASSERT_TRUE((*file)->close());
    EXPECT_FALSE((*file)->append(bytes("x")));
    EXPECT_FALSE((*file)->close());
    EXPECT_EQ(*read_text(*files_, at("a")), "HEadtail!");

    auto more = files_->append(at("a"));
    ASSERT_TRUE(more);
    ASSERT_TRUE((*more)->append(bytes("?")));
    ASSERT_TRUE((*more)->close());
    EXPECT_EQ(*read_text(*files_, at("a")), "HEadtail!?");
}

TEST_F(Files, ReadAtAnyOffset) {
    put("a", "0123456789");
    auto file = files_->open(at("a"));
    ASSERT_TRUE(file);
    EXPECT_EQ((*file)->size(), 10u);
    std::array<std::byte, 3> out;
    ASSERT_TRUE((*file)->read_at(7, out));
    EXPECT_EQ(std::memcmp(out.data(), "789", 3), 0);
}

TEST_F(Files, ShortReadIsAnErrorThatNamesTheOffset) {
    put("a", "0123456789");
    auto file = files_->open(at("a"));
    std::array<std::byte, 4> out;
    const Status done = (*file)->read_at(8, out);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().message, at("a").string() + ": ends at byte 10, 2 more were expected");
}

TEST_F(Files, FileThatShrinksUnderTheReaderIsAnError) {
    put("a", "0123456789");
    auto file = files_->open(at("a"));
    std::filesystem::resize_file(at("a"), 4);
    std::array<std::byte, 10> out;
    EXPECT_FALSE((*file)->read_at(0, out));
}

TEST_F(Files, ErrorsNamePathAndErrno) {
    const std::string path = at("absent").string();
    EXPECT_EQ(files_->open(at("absent")).error().message,
              path + ": opening: No such file or directory (errno 2)");
    EXPECT_EQ(files_->remove(at("absent")).error().message,
              path + ": removing: No such file or directory (errno 2)");
    EXPECT_EQ(files_->rename(at("absent"), at("b")).error().message,
              path + ": renaming to " + at("b").string() + ": No such file or directory (errno 2)");
    EXPECT_EQ(files_->create(at("absent") / "x").error().message,
              path + "/x: creating: No such file or directory (errno 2)");
    EXPECT_EQ(files_->list(at("absent")).error().message,
              path + ": listing: No such file or directory (errno 2)");
    EXPECT_EQ(files_->open(folder_.path()).error().message,
              folder_.path().string() + ": opening: Is a directory (errno 21)");
    EXPECT_EQ(files_->sync_folder(at("absent")).error().message,
              path + ": opening the folder: No such file or directory (errno 2)");
}

TEST_F(Files, FullDiskIsAnError) {
    auto file = files_->append("/dev/full");
    ASSERT_TRUE(file);
    EXPECT_EQ((*file)->append(bytes("x")).error().message,
              "/dev/full: writing at byte 0: No space left on device (errno 28)");
}

TEST_F(Files, FoldersAndLists) {
    ASSERT_TRUE(files_->make_folders(at("x/y/z")));
    ASSERT_TRUE(files_->make_folders(at("x/y/z")));
    put("x/b", "");
    put("x/a", "");
    EXPECT_EQ(*files_->list(at("x")), (std::vector<Path>{at("x/a"), at("x/b"), at("x/y")}));
    EXPECT_TRUE(files_->exists(at("x/a")));
    ASSERT_TRUE(files_->remove(at("x/a")));
    EXPECT_FALSE(files_->exists(at("x/a")));
    EXPECT_FALSE(files_->make_folders(at("x/b/c")));
}

TEST_F(Files, ReadTextRefusesLargeFiles) {
    put("a", "12345");
    EXPECT_EQ(*read_text(*files_, at("a"), 5), "12345");
    EXPECT_EQ(read_text(*files_, at("a"), 4).error().message,
              at("a").string() + ": 5 bytes, more than the 4 that such a file may have");
}

TEST_F(Files, ReplaceKeepsTheOldContentWhenAnythingBeforeTheRenameFails) {
    using enum test::FileOp;
    put("a", "old");
    for (const auto op : {kCreate, kAppend, kSync, kClose, kRename}) {
        test::FaultyFiles faulty(*files_);
        faulty.fail({.op = op, .error = ENOSPC});
        const Status done = replace_file(faulty, at("a"), "new content");
        ASSERT_FALSE(done);
        EXPECT_NE(done.error().message.find("No space left on device (errno 28)"),
                  std::string::npos);
        EXPECT_EQ(*read_text(*files_, at("a")), "old");
        EXPECT_EQ(files_->list(folder_.path())->size(), 1u) << "a temporary file was left";
    }
    test::FaultyFiles faulty(*files_);
    faulty.fail({.op = kSyncFolder});
    EXPECT_FALSE(replace_file(faulty, at("a"), "new")) << "not durable must not look like success";
}

TEST_F(Files, ReplaceSyncsTheFileBeforeAndTheFolderAfterTheRename) {
    using enum test::FileOp;
    test::FaultyFiles counting(*files_);
    ASSERT_TRUE(replace_file(counting, at("a"), "x"));
    for (const auto op : {kSync, kClose, kRename, kSyncFolder}) EXPECT_EQ(counting.calls(op), 1u);
}

TEST_F(Files, ReadersSeeOldOrNewContentNeverAMixture) {
    const std::string a(100'000, 'a'), b(100'000, 'b');
    put("f", a);
    std::jthread writer([&] {
        const auto files = posix_files();
        for (int i = 0; i < 20; ++i) EXPECT_TRUE(replace_file(*files, at("f"), i % 2 == 0 ? b : a));
    });
    for (int i = 0; i < 200; ++i) {
        const auto seen = read_text(*files_, at("f"));
        ASSERT_TRUE(seen);
        ASSERT_TRUE(*seen == a || *seen == b);
    }
}

}  // namespace
}  // namespace isthmus
