#include "outer/ledger.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <set>

namespace isthmus::outer {
namespace {

using Ranges = std::vector<SampleRange>;

const SiteId kParis(0), kOslo(1);
const Incarnation kFirst{1, 11}, kSecond{2, 22};

class LedgerTest : public testing::Test {
  protected:
    Ledger ledger_;

    void take(const JournalRecord& record) {
        const Status done = ledger_.apply(record);
        EXPECT_TRUE(done) << done.error().message;
        prove();
    }
    /// Refused, and nothing has changed.
    std::string refused(const JournalRecord& record) {
        const Ranges committed = ledger_.committed().ranges(),
                     returned = ledger_.returned().ranges(), skipped = ledger_.skipped().ranges(),
                     paris = ledger_.leases_of(kParis), oslo = ledger_.leases_of(kOslo);
        const auto next = ledger_.granted_up_to(), rounds = ledger_.rounds();
        const Status done = ledger_.apply(record);
        EXPECT_EQ(ledger_.committed().ranges(), committed);
        EXPECT_EQ(ledger_.returned().ranges(), returned);
        EXPECT_EQ(ledger_.skipped().ranges(), skipped);
        EXPECT_EQ(ledger_.leases_of(kParis), paris);
        EXPECT_EQ(ledger_.leases_of(kOslo), oslo);
        EXPECT_EQ(ledger_.granted_up_to(), next);
        EXPECT_EQ(ledger_.rounds(), rounds);
        prove();
        return done ? "taken" : done.error().message;
    }
    void prove() {
        const Status good = ledger_.prove();
        EXPECT_TRUE(good) << good.error().message;
    }
    static GrantRecord grant(SiteId site, Ranges samples, Incarnation incarnation = kFirst) {
        return {site, incarnation, Meeting(0), std::move(samples)};
    }
    static Contribution by(SiteId site, Ranges trained, Ranges skipped = {},
                           Incarnation incarnation = kFirst) {
        return {site, incarnation, CutId{}, 1.0f, 0, std::move(trained), std::move(skipped)};
    }
    static CommitRecord commit(std::vector<Contribution> contributors) {
        CommitRecord record;
        record.contributors = std::move(contributors);
        return record;
    }
};

TEST_F(LedgerTest, ACommitConsumesWhatWasTrained) {
    EXPECT_EQ(ledger_.plan_grant(10), (Ranges{{0, 10}}));
    take(grant(kParis, {{0, 10}}));
    take(grant(kOslo, {{10, 10}}));
    EXPECT_TRUE(ledger_.leased(kParis, kFirst, {{0, 4}, {4, 6}}));
    EXPECT_FALSE(ledger_.leased(kParis, kSecond, {{0, 4}}));
    EXPECT_FALSE(ledger_.leased(kParis, kFirst, {{8, 4}}));
    EXPECT_FALSE(ledger_.leased(kParis, kFirst, {{0, 4}, {3, 1}}));
    EXPECT_FALSE(ledger_.leased(kParis, kFirst, {{5, ~0ull}}));
    take(commit({by(kParis, {{0, 8}}, {{8, 2}}), by(kOslo, {{10, 5}})}));
    EXPECT_EQ(ledger_.committed().ranges(), (Ranges{{0, 8}, {10, 5}}));
    EXPECT_EQ(ledger_.skipped().ranges(), (Ranges{{8, 2}}));
    EXPECT_EQ(ledger_.leases_of(kOslo), (Ranges{{15, 5}}));
    EXPECT_EQ(ledger_.leased_samples(), 5u);
    EXPECT_EQ(ledger_.rounds(), 1u);
    EXPECT_EQ(ledger_.granted_up_to(), 20u);
}

TEST_F(LedgerTest, ReturnedSamplesAreGrantedFirst) {
    take(grant(kParis, {{0, 10}}));
    take(grant(kOslo, {{10, 10}}));
    take(ReturnRecord{kParis, {{2, 2}, {7, 3}}});
    EXPECT_EQ(ledger_.plan_grant(1), (Ranges{{2, 1}}));
    EXPECT_EQ(ledger_.plan_grant(8), (Ranges{{2, 2}, {7, 3}, {20, 3}}));
    take(grant(kOslo, ledger_.plan_grant(8)));
    EXPECT_TRUE(ledger_.returned().empty());
    EXPECT_EQ(ledger_.leases_of(kOslo), (Ranges{{2, 2}, {7, 16}}));
    EXPECT_EQ(ledger_.lost_before(kOslo), Ranges{});  // given back, not lost
}

TEST_F(LedgerTest, WhatIsLostTwiceIsKnownAndCanBeQuarantined) {
    take(grant(kParis, {{0, 10}}));
    EXPECT_EQ(ledger_.lost_before(kParis), Ranges{});
    take(LeaveRecord{kParis, kFirst, "killed", true});
    EXPECT_EQ(ledger_.returned().ranges(), (Ranges{{0, 10}}));
    take(grant(kOslo, {{0, 4}}));
    take(grant(kOslo, {{4, 6}, {10, 2}}));
    take(commit({by(kOslo, {{0, 3}})}));  // committed: not remembered as lost any more
    EXPECT_EQ(ledger_.lost_before(kOslo), (Ranges{{3, 7}}));
    take(QuarantineRecord{ledger_.lost_before(kOslo), "lost twice"});
    take(LeaveRecord{kOslo, kFirst, "killed", true});
    EXPECT_EQ(ledger_.skipped().ranges(), (Ranges{{3, 7}}));
    EXPECT_EQ(ledger_.returned().ranges(), (Ranges{{10, 2}}));
    take(QuarantineRecord{{{10, 1}}, "an operator's wish"});  // free ones too
    EXPECT_EQ(ledger_.plan_grant(2), (Ranges{{11, 1}, {12, 1}}));
}

TEST_F(LedgerTest, ASiteThatLeavesInOrderDoesNotLoseItsSamples) {
    take(grant(kParis, {{0, 10}}));
    take(LeaveRecord{kParis, kFirst, "drained", false});
    take(grant(kOslo, {{0, 10}}));
    EXPECT_EQ(ledger_.lost_before(kOslo), Ranges{});
    take(LeaveRecord{kParis, kFirst, "again", true});  // holds nothing: nothing happens
    EXPECT_TRUE(ledger_.returned().empty());
}

TEST_F(LedgerTest, ANewIncarnationReturnsTheLeasesOfTheOldOne) {
    take(grant(kParis, {{0, 10}}));
    take(JoinRecord{kParis, "paris", kFirst});
    EXPECT_EQ(ledger_.leases_of(kParis), (Ranges{{0, 10}}));
    take(JoinRecord{kParis, "paris", kSecond});
    EXPECT_EQ(ledger_.leases_of(kParis), Ranges{});
    EXPECT_EQ(ledger_.returned().ranges(), (Ranges{{0, 10}}));
    EXPECT_FALSE(ledger_.leased(kParis, kFirst, {{0, 1}}));
    take(grant(kParis, {{0, 10}}, kSecond));
    EXPECT_EQ(ledger_.lost_before(kParis), (Ranges{{0, 10}}));
    EXPECT_EQ(refused(commit({by(kParis, {{0, 1}})})),
              "a commit with site 0: samples 0 to 0: outside its live leases");
}

TEST_F(LedgerTest, WhatCannotBeIsRefusedAndChangesNothing) {
    take(grant(kParis, {{0, 10}}));
    take(grant(kOslo, {{10, 10}}));
    take(commit({by(kParis, {{0, 5}})}));
    EXPECT_EQ(refused(grant(kOslo, {{20, 1}, {3, 1}})),
              "a grant to site 1: samples 3 to 3: not all of them are free");
    EXPECT_NE(refused(grant(kOslo, {{5, 2}})), "taken");
    EXPECT_NE(refused(grant(kOslo, {{21, 2}})), "taken");
    EXPECT_NE(refused(grant(kOslo, {{20, 2}, {21, 1}})), "taken");
    EXPECT_NE(refused(grant(kOslo, {{19, 2}})), "taken");
    EXPECT_NE(refused(grant(kOslo, {{20, ~0ull}})), "taken");
    EXPECT_NE(refused(grant(kOslo, {{20, 1}}, kSecond)), "taken");
    EXPECT_NE(refused(commit({by(kOslo, {{10, 2}}), by(kParis, {{4, 2}})})), "taken");
    EXPECT_NE(refused(commit({by(kOslo, {{10, 2}}), by(kOslo, {{10, 2}})})), "taken");
    EXPECT_NE(refused(commit({by(kOslo, {{10, 2}}, {{11, 1}})})), "taken");
    EXPECT_NE(refused(commit({by(kOslo, {{5, 1}})})), "taken");
    EXPECT_NE(refused(commit({by(SiteId(9), {{5, 1}})})), "taken");
    EXPECT_EQ(refused(commit({by(kParis, {{0, 1}})})),
              "a commit with site 0: samples 0 to 0: committed before");
    EXPECT_NE(refused(ReturnRecord{kOslo, {{10, 1}, {5, 1}}}), "taken");
    EXPECT_NE(refused(ReturnRecord{SiteId(9), {{5, 1}}}), "taken");
    EXPECT_NE(refused(QuarantineRecord{{{10, 1}, {4, 2}}, ""}), "taken");
    EXPECT_NE(refused(QuarantineRecord{{{20, 1}}, ""}), "taken");
    EXPECT_NE(refused(LeaveRecord{kOslo, kSecond, "", true}), "taken");
}

TEST_F(LedgerTest, OtherRecordsDoNothing) {
    for (const JournalRecord& record :
         {JournalRecord(RunRecord{}), JournalRecord(CoordinatorRecord{}),
          JournalRecord(StartRecord{}), JournalRecord(AbandonRecord{}), JournalRecord(EndRecord{})})
        take(record);
    EXPECT_EQ(ledger_.granted_up_to(), 0u);
    EXPECT_EQ(ledger_.rounds(), 0u);
}

/// Every sample's place, one by one.
TEST_F(LedgerTest, RandomHistoriesAgreeWithCountingOneByOne) {
    for (std::uint64_t seed = 1; seed <= 30; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937_64 random(seed);
        ledger_ = Ledger();
        std::map<std::uint64_t, int> where;  // -1 returned, -2 committed, -3 skipped, else the site
        std::vector<Incarnation> incarnations(5, kFirst);
        for (int event = 0; event < 300; ++event) {
            const auto number = static_cast<std::uint32_t>(random() % 5);
            const SiteId site(number);
            const Ranges held = ledger_.leases_of(site);
            const auto set = [&](const Ranges& ranges, int place) {
                for (const SampleRange& r : ranges)
                    for (std::uint64_t s = r.first; s < r.end(); ++s) where[s] = place;
            };
            switch (random() % 5) {
                case 0:
                case 1: {
                    const Ranges samples = ledger_.plan_grant(1 + random() % 20);
                    take(grant(site, samples, incarnations[number]));
                    set(samples, static_cast<int>(number));
                    break;
                }
                case 2: {
                    Ranges trained, skipped;
                    for (const SampleRange& r : held) {
                        const std::uint64_t n = random() % (r.count + 1);
                        (random() % 4 ? trained : skipped).push_back({r.first, n});
                    }
                    take(commit({by(site, trained, skipped, incarnations[number])}));
                    set(trained, -2);
                    set(skipped, -3);
                    break;
                }
                case 3: {
                    const Ranges twice = ledger_.lost_before(site);
                    take(QuarantineRecord{twice, ""});
                    take(LeaveRecord{site, incarnations[number], "", true});
                    set(held, -1);
                    set(twice, -3);
                    break;
                }
                default:
                    ++incarnations[number].number;
                    take(JoinRecord{site, "", incarnations[number]});
                    set(held, -1);
            }
        }
        std::map<int, SampleSet> expected;
        for (const auto& [sample, place] : where) expected[place].add({sample, 1});
        EXPECT_EQ(ledger_.returned().ranges(), expected[-1].ranges());
        EXPECT_EQ(ledger_.committed().ranges(), expected[-2].ranges());
        EXPECT_EQ(ledger_.skipped().ranges(), expected[-3].ranges());
        for (std::uint32_t i = 0; i < 5; ++i)
            EXPECT_EQ(ledger_.leases_of(SiteId(i)), expected[static_cast<int>(i)].ranges());
        EXPECT_EQ(where.size(), ledger_.granted_up_to());
    }
}

TEST(SampleSet, AgreesWithASetOfNumbers) {
    std::mt19937_64 random(7);
    SampleSet set;
    std::set<std::uint64_t> numbers;
    for (int i = 0; i < 5000; ++i) {
        const SampleRange range{random() % 200, random() % 12};
        std::uint64_t here = 0;
        for (std::uint64_t s = range.first; s < range.end(); ++s) here += numbers.count(s);
        ASSERT_EQ(set.contains(range), here == range.count);
        ASSERT_EQ(set.intersects(range), here > 0);
        std::uint64_t parts = 0;
        for (const SampleRange& part : set.within(range)) parts += part.count;
        ASSERT_EQ(parts, here);
        if (random() % 50 == 0) {
            for (const SampleRange& taken : set.take(range.count))
                for (std::uint64_t s = taken.first; s < taken.end(); ++s) {
                    ASSERT_EQ(s, *numbers.begin());
                    numbers.erase(numbers.begin());
                }
        } else if (random() % 2 == 0) {
            set.add(range);
            for (std::uint64_t s = range.first; s < range.end(); ++s) numbers.insert(s);
        } else {
            set.remove(range);
            for (std::uint64_t s = range.first; s < range.end(); ++s) numbers.erase(s);
        }
        ASSERT_EQ(set.size(), numbers.size());
        std::uint64_t end = 0;
        for (const SampleRange& r : set.ranges()) {
            ASSERT_TRUE(r.first > end || end == 0) << "neighbours are not merged";
            end = r.end();
        }
    }
    set.add({~0ull - 4, 4});
    EXPECT_TRUE(set.contains({~0ull - 2, 2}));
}

TEST(LedgerSpeed, ManyRoundsStayOneRange) {
    Ledger ledger;
    for (int round = 0; round < 20000; ++round) {
        CommitRecord commit;
        for (std::uint32_t site = 0; site < 3; ++site) {
            const auto samples = ledger.plan_grant(100);
            ASSERT_TRUE(ledger.apply(GrantRecord{SiteId(site), kFirst, Meeting(0), samples}));
            Contribution c;
            c.site = SiteId(site);
            c.incarnation = kFirst;
            c.trained = samples;
            commit.contributors.push_back(c);
        }
        ASSERT_TRUE(ledger.apply(commit));
    }
    EXPECT_EQ(ledger.committed().ranges().size(), 1u);
    EXPECT_TRUE(ledger.prove());
}

}  // namespace
}  // namespace isthmus::outer
