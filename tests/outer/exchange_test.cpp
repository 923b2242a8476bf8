#include "outer/exchange.hpp"

#include <cmath>
#include <limits>
#include <numeric>

#include "outer/outer_step.hpp"
#include "tests/outer/support/data_sites.hpp"

namespace isthmus::outer {
namespace {

using test::DataSites;
using test::SitesOptions;
using namespace std::chrono_literals;

std::vector<std::uint32_t> all(std::uint32_t sites) {
    std::vector<std::uint32_t> who(sites);
    std::iota(who.begin(), who.end(), 0u);
    return who;
}

/// Trains, exchanges among all, and returns the hash that every site would vote for.
StateHash agreed(DataSites& sites, const Begin& begin) {
    EXPECT_TRUE(sites.exchange(begin));
    std::optional<StateHash> hash;
    for (const auto& site : sites.sites) {
        if (!site->alive || !DataSites::takes_part(begin, site->id)) continue;
        const auto* done = site->outcome ? std::get_if<Exchanged>(&*site->outcome) : nullptr;
        EXPECT_TRUE(done) << site->name();
        if (!done) continue;
        EXPECT_EQ(done->attempt, begin.attempt);
        if (!hash) hash = done->result;
        EXPECT_EQ(*hash, done->result) << site->name();
    }
    return hash.value_or(StateHash{});
}

void train(DataSites& sites) {
    for (const auto& site : sites.sites) site->train();
}

void expect_mean(DataSites& sites, std::size_t at, const Begin& begin) {
    const auto result = sites[at].exchange->staged(begin.attempt);
    ASSERT_TRUE(result);
    EXPECT_EQ(DataSites::mean_of(*result, sites[at].layout), sites.expected_mean(begin));
}

TEST(DealPieces, ProportionalWithinOnePieceAndInterleaved) {
    const std::vector<std::vector<float>> cases{
        {1.0f},
        {0.5f, 0.5f},
        {0.25f, 0.25f, 0.5f},
        {0.0f, 0.9f, 0.1f},
        {0.5f, 0.05f, 0.05f, 0.05f, 0.05f, 0.05f, 0.05f, 0.05f, 0.05f, 0.05f, 0.05f},
        std::vector<float>(8, 0.125f)};
    for (const auto& shares : cases) {
        for (std::uint32_t pieces : {0u, 1u, 7u, 76u, 1000u}) {
            const auto owners = deal_pieces(shares, pieces);
            ASSERT_EQ(owners.size(), pieces);
            for (std::uint32_t k = 0; k < shares.size(); ++k) {
                const double exact = static_cast<double>(shares[k]) * pieces;
                const auto count = std::count(owners.begin(), owners.end(), k);
                EXPECT_LE(std::abs(static_cast<double>(count) - exact), 1.0 + 1e-5);
                EXPECT_TRUE(shares[k] > 0 || count == 0);
                // In any beginning an owner has about its share.
                std::uint32_t so_far = 0;
                for (std::uint32_t i = 0; i < pieces; ++i) {
                    so_far += owners[i] == k;
                    EXPECT_LE(std::abs(so_far - static_cast<double>(shares[k]) * (i + 1.0)), 8.0);
                }
            }
        }
    }
}

TEST(RoundExchange, EqualsTheDirectSumForEveryCodecAndNumberOfSites) {
    for (Codec codec : {Codec::kFp32, Codec::kBf16, Codec::kInt8}) {
        for (std::uint32_t n : {2u, 3u, 4u}) {
            for (Method method : {Method::kAllGather, Method::kOwners}) {
                SCOPED_TRACE(fmt::format("{} {} sites, method {}", name(codec), n,
                                         static_cast<int>(method)));
                DataSites sites({.sites = n, .codec = codec});
                train(sites);
                const Begin begin = sites.begin(method, all(n));
                agreed(sites, begin);
                for (std::size_t i = 0; i < n; ++i) expect_mean(sites, i, begin);
                // Everyone applies the same bits, whose name is what was voted for.
                for (const auto& site : sites.sites) {
                    const auto result = site->exchange->staged(begin.attempt);
                    site->state.apply(*result, site->id, site->port);
                    EXPECT_EQ(site->state.name(), result->info().to);
                    EXPECT_EQ(site->port.values, sites[0].port.values);
                }
            }
        }
    }
}

TEST(RoundExchange, BitsDoNotDependOnOrderStreamsWindowOrShares) {
    for (Codec codec : {Codec::kFp32, Codec::kInt8}) {
        for (Method method : {Method::kAllGather, Method::kOwners}) {
            std::optional<StateHash> first;
            SitesOptions options{.sites = 4, .codec = codec};
            for (std::uint64_t variant = 0; variant < 5; ++variant) {
                options.disorder = variant;
                options.streams = variant == 2 ? 1 : 3;
                options.window_bytes = variant == 3 ? 1 : 256 << 10;
                DataSites sites(options);
                train(sites);
                Begin begin = sites.begin(method, all(4));
                if (variant == 4) {
                    const float shares[4] = {0.7f, 0.0f, 0.1f, 0.2f};
                    for (std::size_t i = 0; i < 4; ++i) begin.participants[i].share = shares[i];
                }
                const StateHash hash = agreed(sites, begin);
                if (!first) first = hash;
                EXPECT_EQ(hash, *first) << variant;
            }
        }
    }
}

TEST(RoundExchange, TheMeanDoesNotDependOnThePieces) {
    for (Method method : {Method::kAllGather, Method::kOwners}) {
        std::vector<float> first;
        for (std::int64_t elements : {256, 1024, 64 << 10}) {
            SitesOptions options{.sites = 3, .codec = Codec::kInt8};
            options.piece_elements = elements;
            DataSites sites(options);
            train(sites);
            const Begin begin = sites.begin(method, all(3));
            agreed(sites, begin);
            const auto mean =
                DataSites::mean_of(*sites[1].exchange->staged(begin.attempt), sites[1].layout);
            if (first.empty()) first = mean;
            EXPECT_EQ(mean, first);
        }
    }
}

TEST(RoundExchange, AloneTheLocalParametersAreTheResult) {
    DataSites sites({.sites = 1});
    train(sites);
    const auto local = sites[0].port.values;
    const Begin begin = sites.begin(Method::kSolo, {0});
    agreed(sites, begin);
    sites[0].state.apply(*sites[0].exchange->staged(begin.attempt), SiteId(0), sites[0].port);
    EXPECT_EQ(sites[0].port.values, local);
    EXPECT_EQ(sites[0].data->traffic().items_sent, 0u);
}

TEST(RoundExchange, AWeightOfZeroTakesPartAndAddsNothing) {
    for (Method method : {Method::kAllGather, Method::kOwners}) {
        DataSites sites({.sites = 3});
        train(sites);
        Begin begin = sites.begin(method, all(3));
        begin.participants[1].weight = 0;
        sites[1].port.values[5] = std::nanf("");  // never looked at
        agreed(sites, begin);
        expect_mean(sites, 1, begin);
    }
}

TEST(RoundExchange, EveryByteOnTheWireIsCounted) {
    // Owners: everyone moves S (1 + f (N - 2)) each way, and every piece once.
    DataSites sites({.sites = 4});
    train(sites);
    agreed(sites, sites.begin(Method::kOwners, all(4)));
    std::uint64_t sent = 0, received = 0;
    const std::uint64_t encoded = 4u * (3000 + 129 + 5000);
    for (const auto& site : sites.sites) {
        sent += site->data->traffic().bytes_sent;
        received += site->data->traffic().bytes_received;
        EXPECT_EQ(site->data->traffic().asked_again, 0u);
    }
    EXPECT_EQ(received, encoded * 2 * 3);
    EXPECT_EQ(sent, received);
}

/// A site dies in the exchange; the others' next attempt without it gives what a fresh exchange
/// without it gives, and asks only for what is missing.
TEST(RoundExchange, AfterADeathTheBitsAreThoseOfAnExchangeWithoutTheDead) {
    for (Method method : {Method::kAllGather, Method::kOwners}) {
        DataSites fresh({.sites = 4, .codec = Codec::kInt8});
        train(fresh);
        const std::vector<std::uint32_t> left{0, 1, 3};
        const StateHash expected = agreed(fresh, fresh.begin(method, left));

        SitesOptions options{.sites = 4, .codec = Codec::kInt8};
        options.silence = 700ms;
        DataSites sites(options);
        train(sites);
        const Begin first = sites.begin(method, all(4));
        sites[2].alive = false;
        ASSERT_TRUE(sites.exchange(first));
        for (std::uint32_t i : left) {
            const auto* failed = std::get_if<ExchangeFailed>(&*sites[i].outcome);
            ASSERT_TRUE(failed);
            EXPECT_EQ(failed->missing, std::vector{SiteId(2)});
            EXPECT_FALSE(sites[i].exchange->staged(first.attempt));
        }
        const auto before = sites[0].data->traffic().bytes_received;
        EXPECT_GT(before, 0u);
        EXPECT_EQ(agreed(sites, sites.begin(method, left, 2)), expected);
        const auto fresh_bytes = fresh[0].data->traffic().bytes_received;
        const auto again = sites[0].data->traffic().bytes_received - before;
        EXPECT_TRUE(method != Method::kAllGather || again == 0) << again;
        EXPECT_LT(again, fresh_bytes);
    }
}

TEST(RoundExchange, ANewAttemptReplacesOneUnderWayAndNothingTravelsTwice) {
    DataSites sites({.sites = 2});
    train(sites);
    const auto now = std::chrono::steady_clock::now();
    const Begin first = sites.begin(Method::kAllGather, all(2), 1);
    for (const auto& site : sites.sites) site->exchange->begin(first, site->id, now);
    ASSERT_TRUE(sites.run_until([&] { return sites[0].data->traffic().items_received >= 3; }));
    const Begin second = sites.begin(Method::kAllGather, all(2), 2);
    agreed(sites, second);
    EXPECT_EQ(sites[0].data->traffic().bytes_received, 4u * (3000 + 129 + 5000));
    EXPECT_FALSE(sites[0].exchange->staged(first.attempt));
    expect_mean(sites, 0, second);
}

TEST(RoundExchange, InputsBeyondTheCacheAreAskedForAgain) {
    for (Method method : {Method::kAllGather, Method::kOwners}) {
        SitesOptions options{.sites = 3};
        options.cache_bytes = 1;
        DataSites sites(options);
        train(sites);
        const StateHash first = agreed(sites, sites.begin(method, all(3), 1));
        EXPECT_EQ(agreed(sites, sites.begin(method, all(3), 2)), first);
    }
}

TEST(RoundExchange, WhoIsNotFiniteIsNamedAtOnce) {
    for (Method method : {Method::kAllGather, Method::kOwners}) {
        for (float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
            DataSites sites({.sites = 3, .codec = Codec::kInt8});
            train(sites);
            sites[1].port.values[4000] = bad;
            const Begin begin = sites.begin(method, all(3));
            for (const auto& site : sites.sites)
                site->exchange->begin(begin, site->id, std::chrono::steady_clock::now());
            const test::DataSite* saw = nullptr;
            ASSERT_TRUE(sites.run_until([&] {
                for (const auto& site : sites.sites) {
                    if (site->outcome) saw = site.get();
                }
                return saw != nullptr;
            }));
            const auto* failed = std::get_if<ExchangeFailed>(&*saw->outcome);
            ASSERT_TRUE(failed);
            EXPECT_TRUE(failed->missing.empty());
            for (const InputReport& r : failed->inputs) EXPECT_EQ(r.finite, r.site != SiteId(1));
        }
    }
}

TEST(RoundExchange, AMeanThatOverflowsFailsEverywhereAndBlamesNobody) {
    for (Method method : {Method::kAllGather, Method::kOwners}) {
        DataSites sites({.sites = 3});
        train(sites);
        for (const auto& site : sites.sites) site->port.values[4000] = -3e38f;
        ASSERT_TRUE(sites.exchange(sites.begin(method, all(3))));
        for (const auto& site : sites.sites) {
            const auto* failed = std::get_if<ExchangeFailed>(&*site->outcome);
            ASSERT_TRUE(failed) << site->name();
            EXPECT_TRUE(failed->missing.empty());
            for (const InputReport& r : failed->inputs) EXPECT_TRUE(r.finite);
        }
    }
}

TEST(RoundExchange, ReportsTheNormsOfInputs) {
    for (Method method : {Method::kAllGather, Method::kOwners}) {
        DataSites sites({.sites = 3});
        train(sites);
        std::vector<double> expected;
        for (const auto& site : sites.sites) {
            double sum = 0;
            for (std::size_t i = 0; i < site->port.values.size(); ++i) {
                const double d = site->state.anchor()[i] - site->port.values[i];
                sum += d * d;
            }
            expected.push_back(sum);
        }
        agreed(sites, sites.begin(method, all(3)));
        std::vector<double> seen(3, 0.0);
        for (const auto& site : sites.sites) {
            for (const InputReport& r : std::get<Exchanged>(*site->outcome).inputs) {
                if (method == Method::kOwners || site->id == SiteId(0))
                    seen[r.site.value] += r.sum_of_squares;
            }
        }
        for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(seen[i], expected[i], 1e-4 * expected[i]);
    }
}

TEST(RoundExchange, HoldsNothingAfterDiscard) {
    DataSites sites({.sites = 3});
    train(sites);
    const Begin begin = sites.begin(Method::kOwners, all(3));
    agreed(sites, begin);
    EXPECT_GT(sites[0].exchange->bytes_held(), 4u * (3000 + 129 + 5000));
    sites[0].exchange->discard();
    EXPECT_EQ(sites[0].exchange->bytes_held(), 0u);
    EXPECT_FALSE(sites[0].exchange->staged(begin.attempt));
    EXPECT_TRUE(std::holds_alternative<NoSuchItem>(
        sites[0].exchange->serve({CutItem{begin.participants[0].cut}, 0})));
    EXPECT_TRUE(
        std::holds_alternative<NoSuchItem>(sites[0].exchange->serve({MeanItem{begin.attempt}, 0})));
    Attempt next = begin.attempt;
    ++next.counter;
    EXPECT_TRUE(std::holds_alternative<NotYet>(sites[0].exchange->serve({MeanItem{next}, 0})));
}

}  // namespace
}  // namespace isthmus::outer
