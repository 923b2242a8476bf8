#include "outer/round_result.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/random.hpp"
#include "outer/outer_step.hpp"

namespace isthmus::outer {
namespace {

using Floats = std::vector<float>;

ResultInfo info_of(Method method, Codec codec, std::vector<std::uint32_t> sites, Floats weights) {
    ResultInfo info;
    info.method = method;
    info.codec = codec;
    for (const std::uint32_t site : sites) info.sites.emplace_back(site);
    info.weights = std::move(weights);
    return info;
}

/// Fills every part with its own numbers.
RoundResult filled(const FragmentLayout& layout, const ResultInfo& info) {
    RoundResult result(layout, info);
    for (std::size_t part = 0; part < result.num_parts(); ++part) {
        for (std::uint32_t p = 0; p < layout.num_pieces(); ++p) {
            Floats x(static_cast<std::size_t>(layout.piece(p).count));
            for (std::size_t i = 0; i < x.size(); ++i)
                x[i] = static_cast<float>(
                    random_normal(part, static_cast<std::uint64_t>(layout.piece(p).offset) + i));
            encode(info.codec, x, part, layout.piece(p).offset, result.piece(part, p));
        }
    }
    return result;
}

StateHash digest(const RoundResult& result, const FragmentLayout& layout) {
    std::vector<StateHash> pieces;
    for (std::uint32_t p = 0; p < layout.num_pieces(); ++p)
        pieces.push_back(result.piece_digest(p));
    return result.digest(pieces);
}

Floats mean_of(const RoundResult& result, const FragmentLayout& layout) {
    Floats all;
    for (std::uint32_t p = 0; p < layout.num_pieces(); ++p) {
        Floats out(static_cast<std::size_t>(layout.piece(p).count)), scratch(out.size());
        result.mean(p, out, scratch);
        all.insert(all.end(), out.begin(), out.end());
    }
    return all;
}

// Sum in ascending site id from zero, in fp32, then one division.
TEST(RoundResult, MeanIsTheWeightedSumInAscendingOrder) {
    const FragmentLayout layout({300, 0, 1, 513}, 256);
    for (const Codec codec : {Codec::kFp32, Codec::kBf16, Codec::kInt8}) {
        const auto result =
            filled(layout, info_of(Method::kAllGather, codec, {0, 3, 7}, {2, 5, 1}));
        EXPECT_EQ(result.num_parts(), 3u);
        Floats expected;
        std::size_t bytes = 0;
        for (std::uint32_t p = 0; p < layout.num_pieces(); ++p) {
            const auto n = static_cast<std::size_t>(layout.piece(p).count);
            Floats parts[3];
            for (std::size_t s = 0; s < 3; ++s) {
                parts[s].resize(n);
                decode(codec, result.piece(s, p), parts[s]);
                bytes += result.piece(s, p).size();
            }
            for (std::size_t i = 0; i < n; ++i) {
                volatile float sum = 2.0f * parts[0][i];
                volatile float term = 5.0f * parts[1][i];
                sum = sum + term;
                sum = sum + parts[2][i];
                expected.push_back(sum / 8.0f);
            }
        }
        EXPECT_EQ(mean_of(result, layout), expected) << name(codec);
        EXPECT_EQ(result.bytes(), bytes);
    }
}

TEST(RoundResult, TheMeanByOwnersIsDecodedAsItIs) {
    const FragmentLayout layout({300}, 256);
    const auto result =
        filled(layout, info_of(Method::kOwners, Codec::kBf16, {0, 1, 2}, {1, 1, 1}));
    EXPECT_EQ(result.num_parts(), 1u);
    Floats first(256);
    decode(Codec::kBf16, result.piece(0, 0), first);
    const Floats mean = mean_of(result, layout);
    EXPECT_TRUE(std::equal(first.begin(), first.end(), mean.begin()));
}

TEST(RoundResult, DigestSeesWhatApplyDependsOnAndNothingElse) {
    const FragmentLayout layout({300, 5}, 256);
    const ResultInfo info = info_of(Method::kAllGather, Codec::kInt8, {0, 3}, {2, 5});
    RoundResult result = filled(layout, info);
    const StateHash before = digest(result, layout);
    // The attempt is no part of it: a retry that ends with the same bytes gives the same state.
    result.info().attempt.counter = 9;
    EXPECT_EQ(digest(result, layout), before);
    for (std::size_t part = 0; part < 2; ++part) {
        for (std::uint32_t p = 0; p < layout.num_pieces(); ++p) {
            std::byte& byte = result.piece(part, p).back();
            byte ^= std::byte{1};
            EXPECT_NE(digest(result, layout), before);
            byte ^= std::byte{1};
        }
    }
    EXPECT_EQ(digest(result, layout), before);
    result.info().weights[1] = 6;
    EXPECT_NE(digest(result, layout), before);
    result.info() = info;
    result.info().sites[1] = SiteId(4);
    EXPECT_NE(digest(result, layout), before);
}

TEST(RoundResult, TheChainSeesAllThree) {
    const StateHash a = digest_of({}), b = combine(std::span(&a, 1));
    const OuterOptimizer nesterov{.lr = 0.7f, .momentum = 0.9f, .nesterov = true};
    const StateHash hash = chained_hash(a, b, nesterov);
    EXPECT_EQ(chained_hash(a, b, nesterov), hash);
    EXPECT_NE(chained_hash(b, a, nesterov), hash);
    OuterOptimizer other = nesterov;
    other.lr = 0.6f;
    EXPECT_NE(chained_hash(a, b, other), hash);
    other = nesterov;
    other.nesterov = false;
    EXPECT_NE(chained_hash(a, b, other), hash);
}

TEST(RoundResult, ADescriptionFromElsewhereIsChecked) {
    const auto says = [](ResultInfo info) {
        const Status status = check(info);
        return status ? std::string() : status.error().message;
    };
    const auto good = info_of(Method::kAllGather, Codec::kInt8, {0, 3}, {2, 5});
    EXPECT_EQ(says(good), "");
    EXPECT_EQ(says(info_of(Method::kSolo, Codec::kFp32, {3}, {2})), "");
    EXPECT_EQ(says(info_of(Method::kAllGather, Codec::kInt8, {}, {})), "0 sites, 0 weights");
    EXPECT_EQ(says(info_of(Method::kAllGather, Codec::kInt8, {1}, {1, 1})), "1 sites, 2 weights");
    EXPECT_EQ(says(info_of(Method::kAllGather, Codec::kInt8, {3, 3}, {1, 1})),
              "sites do not ascend");
    EXPECT_EQ(says(info_of(Method::kOwners, Codec::kInt8, {kMeanSite.value}, {1})),
              "the mean is listed as a site");
    for (const float bad : {0.0f, -1.0f, std::numeric_limits<float>::infinity(), std::nanf("")})
        EXPECT_EQ(says(info_of(Method::kOwners, Codec::kInt8, {1, 2}, {1, bad})),
                  "weights are not positive and finite");
    EXPECT_EQ(says(info_of(Method::kSolo, Codec::kFp32, {1, 2}, {1, 1})), "alone, but 2 sites");
    EXPECT_EQ(says(info_of(Method::kSolo, Codec::kInt8, {1}, {1})),
              "alone, but not fp32 and averaging");
}

}  // namespace
}  // namespace isthmus::outer
