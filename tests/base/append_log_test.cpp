#include "base/append_log.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "tests/support/crash_files.hpp"
#include "tests/support/faulty_files.hpp"
#include "tests/support/temporary_folder.hpp"

namespace isthmus {
namespace {

using Bytes = std::vector<std::byte>;
using Records = std::vector<Bytes>;
using test::CrashFiles;

const Path kPath = "run/journal";
constexpr std::size_t kHeaderBytes = 32, kRecordBytes = 32;

Bytes bytes(std::string_view text) {
    const auto view = std::as_bytes(std::span(text.data(), text.size()));
    return {view.begin(), view.end()};
}
Records records(std::initializer_list<std::string_view> texts) {
    Records out;
    for (std::string_view text : texts) out.push_back(bytes(text));
    return out;
}
Records joined(Records a, const Records& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}
Records random_batch(std::mt19937_64& random) {
    Records batch(1 + random() % 3);
    for (Bytes& record : batch) {
        record.resize(random() % 40);
        for (std::byte& b : record) b = static_cast<std::byte>(random());
    }
    return batch;
}
AppendLog::Opened opened(FileSystem& files, const Path& path = kPath, std::uint64_t id = 77) {
    auto log = AppendLog::open(files, path, id);
    if (!log) throw std::runtime_error(log.error().message);
    return std::move(*log);
}
std::string refusal(FileSystem& files, const Path& path = kPath) {
    const auto log = AppendLog::open(files, path, 1);
    return log ? "opened" : log.error().message;
}
bool contains(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

TEST(AppendLog, KeepsWhatWasAppended) {
    test::TemporaryFolder folder;
    const auto files = posix_files();
    const Path path = folder / "journal";
    LogHead head;
    {
        auto first = opened(*files, path);
        EXPECT_EQ(first.log->head().id, 77u);
        EXPECT_EQ(first.log->head().count, 0u);
        EXPECT_TRUE(first.records.empty());
        ASSERT_TRUE(first.log->append(records({"a", "", "ccc"})));
        ASSERT_TRUE(first.log->append({}));
        ASSERT_TRUE(first.log->append(records({"d"})));
        head = first.log->head();
        EXPECT_EQ(head.count, 4u);
        EXPECT_EQ(first.log->bytes(), kHeaderBytes + 4 * kRecordBytes + 5);
        EXPECT_EQ((*files->open(path))->size(), first.log->bytes());
        EXPECT_EQ(*read_append_log(*files, path), records({"a", "", "ccc", "d"}));
    }
    auto again = opened(*files, path, 5);
    EXPECT_TRUE(again.log->head() == head);
    EXPECT_EQ(again.records, records({"a", "", "ccc", "d"}));
    EXPECT_EQ(again.cut_bytes, 0u);
}

TEST(AppendLog, HeadsTellLogsApart) {
    CrashFiles files;
    auto a = opened(files, "run/a", 1), b = opened(files, "run/b", 2),
         c = opened(files, "run/c", 1);
    ASSERT_TRUE(a.log->append(records({"x", "y"})));
    ASSERT_TRUE(b.log->append(records({"x", "y"})));
    ASSERT_TRUE(c.log->append(records({"z", "y"})));
    EXPECT_NE(a.log->head().hash, b.log->head().hash);
    EXPECT_NE(a.log->head().hash, c.log->head().hash);
}

TEST(AppendLog, ASecondOpenerIsRefusedByName) {
    test::TemporaryFolder folder;
    const auto files = posix_files();
    const Path path = folder / "journal";
    {
        const auto first = opened(*files, path);
        EXPECT_TRUE(contains(refusal(*files, path), fmt::format("held by process {}", ::getpid())));
    }
    EXPECT_EQ(refusal(*files, path), "opened");
}

/// A log of two batches and a third whose sync is cut short by a power failure.
class PowerFailure : public testing::Test {
  protected:
    const Records first_ = records({"one", "two"}), second_ = records({"three"}),
                  third_ = records({"four", "", "a longer one, to be torn in the middle"}),
                  fourth_ = records({"after"});
    const std::uint64_t torn_bytes_ = 3 * kRecordBytes + 4 + 38;

    void crash(CrashFiles& files, const test::Crash& crash) {
        auto log = opened(files);
        ASSERT_TRUE(log.log->append(first_));
        ASSERT_TRUE(log.log->append(second_));
        // The append without its sync: written by hand, so that the bytes stay pending.
        CrashFiles scratch;
        scratch.set_content(kPath, files.content(kPath));
        log.log.reset();
        auto other = opened(scratch);
        ASSERT_TRUE(other.log->append(third_));
        const Bytes whole = scratch.content(kPath);
        const std::size_t old = files.content(kPath).size();
        ASSERT_EQ(whole.size() - old, torn_bytes_);
        auto file = files.append(kPath);
        ASSERT_TRUE((*file)->append(std::span(whole).subspan(old)));
        files.crash(crash);
    }
    void check(CrashFiles& files, bool whole, std::uint64_t cut) {
        const Records before = joined(first_, second_);
        const Records expected = whole ? joined(before, third_) : before;
        EXPECT_EQ(*read_append_log(files, kPath), expected);
        {
            auto log = opened(files);
            EXPECT_EQ(log.records, expected);
            EXPECT_EQ(log.cut_bytes, cut);
            ASSERT_TRUE(log.log->append(fourth_));
        }
        files.crash({});  // everything is synced: nothing more is lost
        auto log = opened(files);
        EXPECT_EQ(log.records, joined(expected, fourth_));
        EXPECT_EQ(log.cut_bytes, 0u);
    }
};

TEST_F(PowerFailure, AtEveryByteLosesOnlyTheBatchThatWasNotSynced) {
    for (std::uint64_t keep = 0; keep <= torn_bytes_; ++keep) {
        SCOPED_TRACE(keep);
        CrashFiles files;
        crash(files, {.keep_bytes = keep});
        check(files, keep == torn_bytes_, keep == torn_bytes_ ? 0 : keep);
        if (HasFailure()) break;
    }
}

TEST_F(PowerFailure, PiecesOutOfOrderAreATornTailToo) {
    for (std::uint64_t seed = 1; seed <= 300; ++seed) {
        SCOPED_TRACE(seed);
        CrashFiles files;
        crash(files, {.scatter_seed = seed});
        const std::size_t good = kHeaderBytes + 3 * kRecordBytes + 11;
        const std::size_t size = files.content(kPath).size();
        const bool whole = read_append_log(files, kPath)->size() == 6;
        check(files, whole, whole ? 0 : size - good);
        if (HasFailure()) break;
    }
}

TEST(AppendLog, ManyCrashesInARow) {
    std::mt19937_64 random(20240611);
    CrashFiles files;
    Records durable;
    for (int life = 0; life < 400; ++life) {
        SCOPED_TRACE(life);
        auto log = opened(files);
        ASSERT_GE(log.records.size(), durable.size());
        ASSERT_TRUE(std::equal(durable.begin(), durable.end(), log.records.begin()));
        durable = log.records;
        for (auto n = random() % 4; n > 0; --n) {
            const Records batch = random_batch(random);
            if (random() % 8 == 0) files.fail_next_sync();
            if (!log.log->append(batch)) {
                EXPECT_FALSE(log.log->append(batch));  // and nothing after it
                break;
            }
            durable = joined(durable, batch);
        }
        files.crash({.keep_bytes = random() % 60, .keep_names = random() % 2 == 0});
    }
    EXPECT_GT(durable.size(), 300u);
}

TEST(AppendLog, AfterAFailedSyncTheReopenedLogIsOnDisk) {
    CrashFiles files;
    {
        auto log = opened(files);
        ASSERT_TRUE(log.log->append(records({"a"})));
        files.fail_next_sync();
        EXPECT_FALSE(log.log->append(records({"b"})));
        EXPECT_TRUE(contains(log.log->append(records({"c"})).error().message, "an earlier write"));
        EXPECT_EQ(log.log->head().count, 1u);
    }
    {
        // What is read is obeyed, so it must be on disk by now.
        auto log = opened(files);
        EXPECT_EQ(log.records, records({"a", "b"}));
    }
    files.crash({});
    EXPECT_EQ(opened(files).records, records({"a", "b"}));
}

TEST(AppendLog, AFullDiskRefusesAndLosesNothing) {
    CrashFiles files;
    for (std::uint64_t room = 0; room < 37; ++room) {
        CrashFiles full;
        auto log = opened(full);
        ASSERT_TRUE(log.log->append(records({"a"})));
        full.set_capacity(log.log->bytes() + room);
        const Status done = log.log->append(records({"12345"}));
        ASSERT_FALSE(done);
        EXPECT_TRUE(contains(done.error().message, "No space left"));
        EXPECT_FALSE(log.log->append(records({""})));
        log.log.reset();
        auto again = opened(full);
        EXPECT_EQ(again.records, records({"a"}));
        EXPECT_EQ(again.cut_bytes, room);
        full.set_capacity(1 << 20);
        EXPECT_TRUE(again.log->append(records({"12345"})));
    }
}

TEST(AppendLog, ACrashWhileItIsMadeLeavesNoneOrAnEmptyOne) {
    for (bool keep_names : {false, true}) {
        CrashFiles files;
        { auto log = opened(files); }
        files.crash({.keep_names = keep_names});
        EXPECT_EQ(opened(files, kPath, 78).log->head().id, 77u);
    }
    test::TemporaryFolder folder;
    const auto inner = posix_files();
    for (auto op : {test::FileOp::kLock, test::FileOp::kCreate, test::FileOp::kAppend,
                    test::FileOp::kSync, test::FileOp::kRename, test::FileOp::kSyncFolder,
                    test::FileOp::kOpen, test::FileOp::kRead, test::FileOp::kOpenAppend}) {
        test::FaultyFiles files(*inner);
        files.fail({.op = op, .only = "journal"});
        files.fail({.op = op, .only = folder.path().filename()});
        EXPECT_NE(refusal(files, folder / "journal"), "opened") << static_cast<int>(op);
    }
    EXPECT_EQ(refusal(*inner, folder / "journal"), "opened");
}

/// Four synced batches of one record each.
class Damage : public testing::Test {
  protected:
    void SetUp() override {
        auto log = opened(files_);
        for (const char* text : {"first", "second", "third", "fourth"}) {
            begins_.push_back(log.log->bytes());
            ASSERT_TRUE(log.log->append(records({text})));
        }
        begins_.push_back(log.log->bytes());
        good_ = files_.content(kPath);
    }
    CrashFiles files_;
    std::vector<std::uint64_t> begins_;
    Bytes good_;
};

TEST_F(Damage, AnyBitBeforeTheTailStopsTheOpening) {
    for (std::size_t at = 0; at < begins_[3]; ++at) {
        SCOPED_TRACE(at);
        Bytes bad = good_;
        bad[at] ^= std::byte{0x10};
        files_.set_content(kPath, bad);
        const std::string why = refusal(files_);
        ASSERT_NE(why, "opened");
        if (at < kHeaderBytes) continue;
        std::size_t record = 0;
        while (begins_[record + 1] <= at) ++record;
        EXPECT_TRUE(contains(why, fmt::format("run/journal: damaged at byte {}:", begins_[record])))
            << why;
        EXPECT_FALSE(read_append_log(files_, kPath));
        EXPECT_EQ(files_.content(kPath), bad);  // nothing was cut
    }
}

TEST_F(Damage, ARecordThatIsMissingMovedOrForeignStopsTheOpening) {
    const auto record = [&](const Bytes& from, std::size_t i) {
        return Bytes(from.begin() + static_cast<std::ptrdiff_t>(begins_[i]),
                     from.begin() + static_cast<std::ptrdiff_t>(begins_[i + 1]));
    };
    CrashFiles other_files;
    auto other = opened(other_files, kPath, 78);
    for (const char* text : {"first", "second", "third", "fourth"})
        ASSERT_TRUE(other.log->append(records({text})));
    const Bytes foreign = other_files.content(kPath);
    const auto build = [&](std::initializer_list<Bytes> parts) {
        Bytes bytes(good_.begin(), good_.begin() + kHeaderBytes);
        for (const Bytes& part : parts) bytes.insert(bytes.end(), part.begin(), part.end());
        files_.set_content(kPath, bytes);
        return refusal(files_);
    };
    EXPECT_TRUE(contains(build({record(good_, 0), record(good_, 2)}), "does not follow"));
    EXPECT_TRUE(contains(build({record(good_, 1), record(good_, 0)}), "does not follow"));
    EXPECT_TRUE(contains(build({record(good_, 0), record(good_, 0)}), "does not follow"));
    EXPECT_TRUE(contains(build({record(good_, 0), record(foreign, 1)}), "does not follow"));
    EXPECT_EQ(build({record(good_, 0), record(good_, 1)}), "opened");
}

TEST_F(Damage, OtherFilesAreRefusedAndLeftAlone) {
    for (std::string_view text : {"", "hello", "not a journal, but long enough to hold a header"}) {
        files_.set_content(kPath, bytes(text));
        EXPECT_TRUE(contains(refusal(files_), "not a journal")) << text;
        EXPECT_EQ(files_.content(kPath), bytes(text));
    }
    Bytes newer = good_;
    newer[8] = std::byte{2};
    files_.set_content(kPath, newer);
    EXPECT_TRUE(contains(refusal(files_), "format 2, this program knows 1"));
    EXPECT_FALSE(read_append_log(files_, "run/none"));
}

}  // namespace
}  // namespace isthmus
