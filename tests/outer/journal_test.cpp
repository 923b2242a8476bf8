#include "outer/journal.hpp"

#include <gtest/gtest.h>

#include "tests/outer/support/sample_messages.hpp"

namespace isthmus::outer {
namespace {

TEST(Journal, EachRecordComesBackWithEveryField) {
    const auto records = test::sample_records();
    ASSERT_EQ(records.size(), std::variant_size_v<JournalRecord>);
    for (std::size_t i = 0; i < records.size(); ++i) {
        SCOPED_TRACE(i);
        ASSERT_EQ(records[i].index(), i);
        const auto bytes = encode_record(records[i]);
        const auto back = decode_record(bytes);
        ASSERT_TRUE(back) << back.error().message;
        EXPECT_EQ(back->index(), i);
        EXPECT_EQ(encode_record(*back), bytes);
    }
    const auto commit = std::get<CommitRecord>(*decode_record(encode_record(records[7])));
    EXPECT_EQ(commit.contributors[0].skipped, (std::vector<SampleRange>{{90, 10}}));
    EXPECT_EQ(commit.divisor, 64000);
    EXPECT_EQ(commit.codec, Codec::kBf16);
    EXPECT_TRUE(commit.to == test::sample_state(4));
}

TEST(Journal, NoRecordIsTakenShortLongOrUnknown) {
    for (const JournalRecord& record : test::sample_records()) {
        SCOPED_TRACE(record.index());
        auto bytes = encode_record(record);
        for (std::size_t n = 0; n < bytes.size(); ++n)
            EXPECT_FALSE(decode_record(std::span(bytes).first(n))) << n;
        auto longer = bytes;
        longer.push_back(std::byte{0});
        EXPECT_FALSE(decode_record(longer));
        bytes[0] = static_cast<std::byte>(std::variant_size_v<JournalRecord>);
        EXPECT_FALSE(decode_record(bytes));
    }
}

/// The journal grows by a stated amount a round.
TEST(Journal, ARoundOfTwoSitesTakesLessThanAKilobyte) {
    CommitRecord commit = std::get<CommitRecord>(test::sample_records()[7]);
    commit.contributors.resize(2, commit.contributors.front());
    const std::size_t grant = encode_record(test::sample_records()[4]).size();
    EXPECT_LE(encode_record(commit).size() + 2 * grant + 3 * 32, 1000u);
}

}  // namespace
}  // namespace isthmus::outer
