#include "outer/state_transfer.hpp"

#include <numeric>

#include "base/record.hpp"
#include "tests/outer/support/data_sites.hpp"

namespace isthmus::outer {
namespace {

using test::DataSite;
using test::DataSites;
using test::SitesOptions;
using namespace std::chrono_literals;

TimePoint now() {
    return std::chrono::steady_clock::now();
}

/// Several chunks of everything: anchor 5, momentum 5, inner state 3.
SitesOptions large(std::uint32_t sites) {
    SitesOptions options{.sites = sites, .codec = Codec::kInt8};
    options.optimizer = {.lr = 0.7f, .momentum = 0.9f, .nesterov = true};
    options.units = {300'000, 10'000};
    options.piece_elements = 16 << 10;
    options.inner_bytes = 600'000;
    options.window_bytes = 1 << 20;
    options.silence = 700ms;
    return options;
}

void fill_moments(DataSite& site) {
    for (std::size_t i = 0; i < site.port.moments.size(); ++i)
        site.port.moments[i] = static_cast<std::byte>(i * 13 + site.id.value * 101);
}

/// One round of these sites, committed and applied.
std::shared_ptr<const RoundResult> round(DataSites& sites, std::vector<std::uint32_t> who,
                                         Method method = Method::kAllGather) {
    for (std::uint32_t i : who) sites[i].train();
    const Begin begin = sites.begin(method, who);
    EXPECT_TRUE(sites.exchange(begin));
    std::shared_ptr<const RoundResult> result;
    for (std::uint32_t i : who) {
        result = sites[i].exchange->staged(begin.attempt);
        EXPECT_TRUE(result);
        sites[i].state.apply(*result, sites[i].id, sites[i].port);
        sites[i].donor.committed(result);
        sites[i].exchange->discard();
        sites[i].outcome.reset();
    }
    return result;
}

void pin(DataSite& site, std::int64_t step) {
    std::vector<std::byte> inner(site.port.moments);
    site.donor.pin(site.state, step, std::move(inner));
}

Restore restore_from(DataSites& sites, std::vector<std::uint32_t> donors, bool moments) {
    Restore r{.state = sites[donors[0]].state.name(), .donors = {}, .moments = moments};
    for (std::uint32_t d : donors) r.donors.push_back(sites[d].info());
    return r;
}

void expect_copied(DataSite& joiner, DataSite& donor, bool moments) {
    ASSERT_TRUE(joiner.fetched);
    const auto* fetched = std::get_if<Fetched>(&*joiner.fetched);
    ASSERT_TRUE(fetched) << std::get<FetchFailed>(*joiner.fetched).reason;
    EXPECT_EQ(fetched->state, donor.state.name());
    EXPECT_EQ(fetched->moments, moments);
    EXPECT_EQ(joiner.state.name(), donor.state.name());
    EXPECT_EQ(joiner.state.full_digest(), donor.state.full_digest());
    EXPECT_TRUE(std::ranges::equal(joiner.port.values, donor.state.anchor()));
    EXPECT_TRUE(!moments || joiner.port.moments == donor.port.moments);
}

std::string failure(const DataSite& site) {
    const auto* failed = site.fetched ? std::get_if<FetchFailed>(&*site.fetched) : nullptr;
    return failed ? failed->reason : "";
}

TEST(StateTransfer, ACopyFromSeveralDonorsThenTheResultsAfterIt) {
    for (bool moments : {false, true}) {
        DataSites sites(large(3));
        fill_moments(sites[0]);
        fill_moments(sites[1]);
        round(sites, {0, 1});
        pin(sites[0], 17);
        pin(sites[1], 17);
        const Restore restore = restore_from(sites, {0, 1}, moments);
        // Everyone else trains on meanwhile, the donors' own state moves.
        round(sites, {0, 1});
        round(sites, {0, 1}, Method::kOwners);
        DataSite& joiner = sites[2];
        joiner.fetch->fetch_copy(restore, now());
        ASSERT_TRUE(sites.run_until([&] { return joiner.fetched.has_value(); }));
        ASSERT_TRUE(std::holds_alternative<Fetched>(*joiner.fetched)) << failure(joiner);
        EXPECT_EQ(joiner.state.name(), restore.state);
        EXPECT_GT(sites[1].data->traffic().bytes_sent, 1'000'000u);
        for (int k = 0; k < 2; ++k) {
            joiner.fetched.reset();
            joiner.fetch->fetch_result(joiner.state.name(), {SiteId(0), SiteId(1), SiteId(2)},
                                       joiner.id, now());
            ASSERT_TRUE(sites.run_until([&] { return joiner.fetched.has_value(); }));
            ASSERT_TRUE(std::holds_alternative<Fetched>(*joiner.fetched)) << failure(joiner);
            const auto result = joiner.fetch->take_result();
            ASSERT_TRUE(result);
            EXPECT_EQ(result->info().to, joiner.state.name());
        }
        expect_copied(joiner, sites[0], false);
        EXPECT_EQ(joiner.port.moments == sites[0].port.moments, moments);
    }
}

TEST(StateTransfer, ChunksStayWhenADonorIsLost) {
    DataSites sites(large(3));
    fill_moments(sites[0]);
    fill_moments(sites[1]);
    pin(sites[0], 3);
    pin(sites[1], 4);
    DataSite& joiner = sites[2];
    joiner.fetch->fetch_copy(restore_from(sites, {0}, true), now());
    ASSERT_TRUE(sites.run_until([&] { return joiner.fetch->chunks_moved() >= 5; }));
    sites[0].alive = false;
    ASSERT_TRUE(sites.run_until([&] { return joiner.fetched.has_value(); }));
    EXPECT_NE(failure(joiner).find("donor 0 is lost"), std::string::npos) << failure(joiner);
    const auto before = joiner.data->traffic().bytes_received;
    EXPECT_GE(before, 4u * kCopyChunkBytes);
    joiner.fetched.reset();
    joiner.fetch->fetch_copy(restore_from(sites, {1}, true), now());
    ASSERT_TRUE(sites.run_until([&] { return joiner.fetched.has_value(); }));
    expect_copied(joiner, sites[1], true);
    // What came of anchor and momentum from the first donor was not asked for again.
    const std::size_t whole = 8u * 310'000 + 600'000;
    EXPECT_LT(joiner.data->traffic().bytes_received - before, whole);
}

TEST(StateTransfer, WithoutMomentsAnyDonorGoesOn) {
    DataSites sites(large(4));
    for (std::size_t d : {0u, 1u, 2u}) pin(sites[d], 3);
    DataSite& joiner = sites[3];
    joiner.fetch->fetch_copy(restore_from(sites, {0, 1, 2}, false), now());
    ASSERT_TRUE(sites.run_until([&] { return joiner.fetch->chunks_moved() >= 2; }));
    sites[0].alive = false;
    sites[1].donor.unpin();
    ASSERT_TRUE(sites.run_until([&] { return joiner.fetched.has_value(); }));
    expect_copied(joiner, sites[2], false);
}

TEST(StateTransfer, ADonorThatIsNoPeerAnyMoreIsLost) {
    DataSites sites(large(2));
    pin(sites[0], 3);
    sites[1].fetch->fetch_copy(restore_from(sites, {0}, false), now());
    ASSERT_TRUE(sites.run_until([&] { return sites[1].fetch->chunks_moved() >= 2; }));
    sites[1].data->set_peers({});
    ASSERT_TRUE(sites.run_until([&] { return sites[1].fetched.has_value(); }));
    EXPECT_NE(failure(sites[1]).find("donor 0 is lost"), std::string::npos) << failure(sites[1]);
}

TEST(StateTransfer, NoCopyNoDonorNoResult) {
    DataSites sites(large(3));
    DataSite& joiner = sites[2];
    const auto failed = [&] {
        EXPECT_TRUE(sites.run_until([&] { return joiner.fetched.has_value(); }));
        const std::string reason = failure(joiner);
        joiner.fetched.reset();
        return reason;
    };
    joiner.fetch->fetch_copy(restore_from(sites, {0}, false), now());
    EXPECT_EQ(failed(), "donor 0 is lost: it does not have this copy");
    joiner.fetch->fetch_copy({.state = joiner.state.name(), .donors = {}, .moments = false}, now());
    EXPECT_EQ(failed(), "no donor is named");
    joiner.fetch->fetch_result(joiner.state.name(), {SiteId(0), SiteId(1)}, joiner.id, now());
    EXPECT_EQ(failed(), "nobody holds the result that is needed");
    pin(sites[0], 3);
    joiner.port.moments.clear();
    joiner.fetch->fetch_copy(restore_from(sites, {0}, true), now());
    EXPECT_NE(failed().find("this site needs"), std::string::npos);
}

/// A donor whose copy was damaged in memory.
TEST(StateTransfer, ADamagedCopyIsNotTaken) {
    SitesOptions options = large(2);
    DataSites sites(options);
    pin(sites[0], 3);
    // What the name promises: the copy of the state before the round.
    const Restore restore = restore_from(sites, {0}, false);
    const StateHash before = sites[1].state.full_digest();
    std::vector<std::byte> wrong(kCopyChunkBytes, std::byte{7});
    auto plane = DataPlane::Options{.run = net::RunId(5), .self = "site0"};
    net::Context context;
    Log log("test", LogLevel::kError);
    Donor& donor = sites[0].donor;
    auto liar = DataPlane::create(
        context, plane,
        [&](const Want& w) -> Served {
            if (w.index != 1) return donor.serve(w);
            return std::span<const std::byte>(wrong);
        },
        log);
    ASSERT_TRUE(liar);
    (*liar)->set_peers({sites[1].info()});
    PeerInfo info = sites[0].info();
    info.endpoint = (*liar)->endpoint();
    sites[1].data->set_peers({info});
    Restore from_liar = restore;
    from_liar.donors = {info};
    sites[1].fetch->fetch_copy(from_liar, now());
    ASSERT_TRUE(sites.run_until([&] {
        (*liar)->pump(now());
        return sites[1].fetched.has_value();
    }));
    EXPECT_NE(failure(sites[1]).find("digest"), std::string::npos) << failure(sites[1]);
    EXPECT_EQ(sites[1].state.full_digest(), before);
}

/// Descriptions of results that apply() could not take are refused, and the next holder is asked.
TEST(StateTransfer, AResultThatCannotBeIsLeftForTheNextHolder) {
    DataSites sites(large(3));
    const auto good = round(sites, {0, 1});
    DataSite& joiner = sites[2];
    std::vector<ResultInfo> bad(6, good->info());
    bad[0].weights = {1.0f, -1.0f};
    bad[1].optimizer = {};
    bad[2].to.round = Round(7);
    bad[3].from.hash[0] ^= std::byte{1};
    bad[4].to.hash[3] ^= std::byte{1};  // only the digest shows it
    bad[5].sites = {SiteId(1), SiteId(0)};
    for (ResultInfo& info : bad) {
        const StateName before = joiner.state.name();
        std::vector<std::byte> header = pack(info);
        net::Context context;
        Log log("test", LogLevel::kError);
        auto liar = DataPlane::create(
            context, {.run = net::RunId(5), .self = "site1"},
            [&](const Want& w) -> Served {
                if (w.index == kHeader) return std::span<const std::byte>(header);
                return sites[1].donor.serve(w);
            },
            log);
        ASSERT_TRUE(liar);
        (*liar)->set_peers({joiner.info()});
        PeerInfo at = sites[1].info();
        at.endpoint = (*liar)->endpoint();
        joiner.data->set_peers({at});  // the good holder is no peer: only the liar answers
        joiner.fetch->fetch_result(before, {SiteId(0), SiteId(1)}, joiner.id, now());
        ASSERT_TRUE(sites.run_until([&] {
            (*liar)->pump(now());
            return joiner.fetched.has_value();
        }));
        EXPECT_EQ(failure(joiner), "nobody holds the result that is needed");
        EXPECT_EQ(joiner.state.name(), before);
        joiner.fetched.reset();
    }
    sites.connect();
    joiner.fetch->fetch_result(joiner.state.name(), {SiteId(0)}, joiner.id, now());
    ASSERT_TRUE(sites.run_until([&] { return joiner.fetched.has_value(); }));
    EXPECT_EQ(joiner.state.full_digest(), sites[0].state.full_digest());
}

TEST(StateTransfer, TheNextHolderIsAskedWhenOneIsSilent) {
    DataSites sites(large(3));
    round(sites, {0, 1}, Method::kOwners);
    sites[1].alive = false;
    DataSite& joiner = sites[2];
    joiner.fetch->fetch_result(joiner.state.name(), {SiteId(0), SiteId(1)}, joiner.id, now());
    ASSERT_TRUE(sites.run_until([&] { return joiner.fetched.has_value(); }));
    EXPECT_EQ(failure(joiner), "");
    EXPECT_EQ(joiner.state.full_digest(), sites[0].state.full_digest());
    EXPECT_EQ(joiner.port.values, sites[0].port.values);
}

TEST(Donor, KeepsOneResultOrAllSinceTheCopy) {
    DataSites sites(large(2));
    DataSite& donor = sites[0];
    const StateName start = donor.state.name();
    round(sites, {0, 1});
    const StateName middle = donor.state.name();
    round(sites, {0, 1});
    const Want first{ResultItem{start}, 0}, second{ResultItem{middle}, 0};
    EXPECT_TRUE(std::holds_alternative<NoSuchItem>(donor.donor.serve(first)));
    EXPECT_FALSE(std::holds_alternative<NoSuchItem>(donor.donor.serve(second)));
    EXPECT_FALSE(donor.donor.pinned());
    const std::size_t one = donor.donor.bytes_held();
    pin(donor, 3);
    EXPECT_TRUE(donor.donor.pinned());
    round(sites, {0, 1});
    EXPECT_FALSE(std::holds_alternative<NoSuchItem>(donor.donor.serve(second)));
    EXPECT_EQ(donor.donor.bytes_held(), 2 * one + 8u * 310'000 + 600'000);
    donor.donor.unpin();
    EXPECT_TRUE(std::holds_alternative<NoSuchItem>(donor.donor.serve(second)));
    EXPECT_EQ(donor.donor.bytes_held(), one);
    EXPECT_TRUE(std::holds_alternative<NoSuchItem>(
        donor.donor.serve({CopyItem{donor.state.name(), false}, kHeader})));
}

}  // namespace
}  // namespace isthmus::outer
