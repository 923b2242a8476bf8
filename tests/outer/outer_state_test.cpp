// What a site keeps between rounds: the identities of FACTS 1 through codecs, results and the model
// port, and what error feedback promises.
#include "outer/outer_state.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "base/random.hpp"
#include "tests/outer/support/vector_port.hpp"

namespace isthmus::outer {
namespace {

using Floats = std::vector<float>;
using test::VectorPort;

constexpr OuterOptimizer kNesterov{.lr = 0.7f, .momentum = 0.9f, .nesterov = true};
const std::vector<std::int64_t> kUnits{700, 1, 0, 256, 301};
constexpr std::size_t kElements = 1258;

Floats start(std::size_t n = kElements) {
    Floats x(n);
    for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<float>(random_normal(1, i));
    return x;
}

/// One site: its model, and the state around it.
struct Site {
    Site(const FragmentLayout& layout, const OuterState::Options& options, std::uint32_t id,
         const Floats& values)
        : self(id), port(layout.unit_elements(), values), state(layout, options, port) {}
    /// Trains: moves every parameter by about `size`.
    void train(std::uint64_t seed, float size = 0.01f) {
        for (std::size_t i = 0; i < port.values.size(); ++i)
            port.values[i] += size * static_cast<float>(random_normal(seed * 64 + self.value, i));
    }
    SiteId self;
    VectorPort port;
    OuterState state;
};

/// What the exchange would make: every site's input by all-gather, their mean by owners.
RoundResult exchanged(const FragmentLayout& layout, std::vector<Site*> sites, const Floats& weights,
                      Method method) {
    const OuterState& any = sites.front()->state;
    ResultInfo info;
    info.from = any.name();
    info.to = info.from;
    ++info.to.round.value;
    info.method = method;
    info.codec = method == Method::kSolo ? Codec::kFp32 : any.options().codec;
    info.optimizer = any.options().optimizer;
    for (const Site* site : sites) info.sites.push_back(site->self);
    info.weights = weights;
    ResultInfo inputs_info = info;
    if (method == Method::kOwners) inputs_info.method = Method::kAllGather;
    RoundResult inputs(layout, inputs_info), owned(layout, info);
    for (std::uint32_t p = 0; p < layout.num_pieces(); ++p) {
        const Piece& piece = layout.piece(p);
        Floats x(static_cast<std::size_t>(piece.count)), scratch(x.size());
        for (std::size_t s = 0; s < sites.size(); ++s) {
            if (method == Method::kSolo) {
                sites[s]->port.read(FragmentId(0), piece.offset, x);
                encode(Codec::kFp32, x, 0, piece.offset, inputs.piece(s, p));
            } else {
                sites[s]->state.encode_input(p, sites[s]->self, sites[s]->port, inputs.piece(s, p));
            }
        }
        if (method == Method::kOwners) {
            inputs.mean(p, x, scratch);
            encode(info.codec, x,
                   rounding_key(any.options().seed, info.from.round, FragmentId(0), kMeanSite),
                   piece.offset, owned.piece(0, p));
        }
    }
    RoundResult& result = method == Method::kOwners ? owned : inputs;
    std::vector<StateHash> digests;
    for (std::uint32_t p = 0; p < layout.num_pieces(); ++p)
        digests.push_back(result.piece_digest(p));
    result.info().to.hash = chained_hash(info.from.hash, result.digest(digests), info.optimizer);
    return std::move(result);
}

void apply_to_all(const RoundResult& result, const std::vector<Site*>& sites) {
    for (Site* site : sites) {
        site->state.apply(result, site->self, site->port);
        EXPECT_EQ(site->state.name(), result.info().to);
        EXPECT_FALSE(site->port.changed) << "written() was not called";
    }
}

// f = w^2 / 2 from w = 1, inner lr .1, H = 2 (FACTS 1).
TEST(OuterState, TwoInnerStepsOnAParabola) {
    const FragmentLayout layout({1});
    for (const auto& [optimizer, method, expected] :
         {std::tuple{OuterOptimizer{}, Method::kSolo, 0.81f},
          {OuterOptimizer{}, Method::kAllGather, 0.81f},
          {kNesterov, Method::kAllGather, 0.7473f}}) {
        Site site(layout, {.optimizer = optimizer}, 0, {1.0f});
        for (int h = 0; h < 2; ++h) site.port.values[0] -= 0.1f * site.port.values[0];
        apply_to_all(exchanged(layout, {&site}, {1}, method), {&site});
        EXPECT_NEAR(site.port.values[0], expected, 1e-6);
        EXPECT_EQ(site.state.anchor()[0], site.port.values[0]);
    }
}

// M = 1, H = 1, averaging: the inner optimizer bit for bit, whatever the codec.
TEST(OuterState, OneSiteThatAveragesIsItsInnerOptimizer) {
    const FragmentLayout layout(kUnits, 256);
    for (const Codec codec : {Codec::kFp32, Codec::kBf16, Codec::kInt8}) {
        Site site(layout, {.optimizer = {}, .codec = codec, .error_feedback = true}, 4, start());
        Site alone(layout, {}, 4, start());
        for (std::uint64_t round = 0; round < 5; ++round) {
            site.train(round);
            alone.train(round);
            apply_to_all(exchanged(layout, {&site}, {3}, Method::kSolo), {&site});
            ASSERT_EQ(site.port.values, alone.port.values);
        }
    }
}

// Two sites, Nesterov, unequal weights, against the same algorithm without any of our code: exact
// for fp32.
TEST(OuterState, TwoSitesAgainstTheAlgorithmInTwentyLines) {
    const FragmentLayout layout(kUnits, 512);
    Site a(layout, {.optimizer = kNesterov}, 0, start()),
        b(layout, {.optimizer = kNesterov}, 1, start());
    Floats anchor = start(), m(kElements, 0.0f);
    for (std::uint64_t round = 0; round < 6; ++round) {
        a.train(round);
        b.train(round);
        for (std::size_t i = 0; i < kElements; ++i) {
            volatile float g = 3.0f * (anchor[i] - a.port.values[i]);
            volatile float other = 5.0f * (anchor[i] - b.port.values[i]);
            g = (g + other) / 8.0f;
            volatile float decayed = 0.9f * m[i];
            m[i] = decayed + g;
            volatile float ahead = 0.9f * m[i];
            volatile float step = 0.7f * (g + ahead);
            anchor[i] = anchor[i] - step;
        }
        apply_to_all(exchanged(layout, {&a, &b}, {3, 5}, Method::kAllGather), {&a, &b});
        ASSERT_EQ(a.port.values, anchor) << round;
        ASSERT_EQ(b.port.values, anchor) << round;
        ASSERT_TRUE(std::ranges::equal(a.state.momentum(), m));
    }
    EXPECT_EQ(a.state.full_digest(), b.state.full_digest());
}

// What was sent and what is left add up to what was wanted, in every round and every codec; for a
// site in the mean by owners too, whose input is not in the result.
TEST(OuterState, ErrorFeedbackLosesNothing) {
    const FragmentLayout layout(kUnits, 256);
    for (const Method method : {Method::kAllGather, Method::kOwners}) {
        for (const Codec codec : {Codec::kBf16, Codec::kInt8}) {
            const OuterState::Options options{
                .optimizer = {}, .codec = codec, .error_feedback = true, .seed = 3};
            Site a(layout, options, 0, start()), b(layout, options, 1, start());
            Site c(layout, options, 2, start());
            std::vector<double> wanted(kElements), sent(kElements);
            for (std::uint64_t round = 0; round < 20; ++round) {
                for (Site* site : {&a, &b, &c}) site->train(round);
                std::size_t at = 0;
                for (std::uint32_t p = 0; p < layout.num_pieces(); ++p) {
                    const auto n = static_cast<std::size_t>(layout.piece(p).count);
                    std::vector<std::byte> bytes(encoded_bytes(codec, layout.piece(p).count));
                    Floats x(n);
                    a.state.encode_input(p, a.self, a.port, bytes);
                    decode(codec, bytes, x);
                    for (std::size_t i = 0; i < n; ++i, ++at) {
                        sent[at] += x[i];
                        wanted[at] += static_cast<double>(a.state.anchor()[at]) - a.port.values[at];
                    }
                }
                apply_to_all(exchanged(layout, {&a, &b, &c}, {1, 2, 1}, method), {&a, &b, &c});
                EXPECT_EQ(a.port.values, b.port.values);
                // Off by one residual, not by one a round: under a step, .04 / 127 or .04 / 128.
                for (std::size_t i = 0; i < kElements; ++i)
                    ASSERT_NEAR(wanted[i], sent[i], 6e-4) << round;
            }
        }
    }
}

/// The decoded input that a site would send now.
Floats input_of(const Site& site, const FragmentLayout& layout, VectorPort& port) {
    Floats all;
    for (std::uint32_t p = 0; p < layout.num_pieces(); ++p) {
        const Codec codec = site.state.options().codec;
        std::vector<std::byte> bytes(encoded_bytes(codec, layout.piece(p).count));
        Floats x(static_cast<std::size_t>(layout.piece(p).count));
        site.state.encode_input(p, site.self, port, bytes);
        decode(codec, bytes, x);
        all.insert(all.end(), x.begin(), x.end());
    }
    return all;
}
bool is_zero(const Floats& x) {
    return std::ranges::all_of(x, [](float value) { return value == 0.0f; });
}

// A site that was not a contributor keeps its residual, whatever the method; one that takes over a
// copy has none (PROTOCOL 13).
TEST(OuterState, ResidualsBelongToContributors) {
    const FragmentLayout layout(kUnits, 256);
    const OuterState::Options options{
        .optimizer = {}, .codec = Codec::kInt8, .error_feedback = true};
    for (const Method method : {Method::kAllGather, Method::kOwners}) {
        Site a(layout, options, 0, start()), b(layout, options, 1, start());
        for (Site* site : {&a, &b}) site->train(1);
        apply_to_all(exchanged(layout, {&a, &b}, {1, 1}, method), {&a, &b});
        // Nobody has trained since: what would be sent is the residual, rounded to 1/127 of some
        // .0003.
        const Floats residual = input_of(b, layout, b.port);
        ASSERT_FALSE(is_zero(residual));
        for (std::uint64_t round = 2; round < 5; ++round) {
            a.train(round);
            apply_to_all(exchanged(layout, {&a}, {1}, method), {&a, &b});
            EXPECT_EQ(a.port.values, b.port.values);
            const Floats kept = input_of(b, layout, b.port);
            for (std::size_t i = 0; i < kElements; ++i) ASSERT_NEAR(kept[i], residual[i], 6e-6);
        }
        b.state.replace(a.state.name(), {a.state.anchor().begin(), a.state.anchor().end()}, {},
                        b.port);
        EXPECT_TRUE(is_zero(input_of(b, layout, b.port)));
        EXPECT_EQ(b.state.full_digest(), a.state.full_digest());
    }
}

// Idle rounds bring out what is left, until nothing is.
TEST(OuterState, ResidualsAreSentInTheEnd) {
    const FragmentLayout layout(kUnits, 256);
    Site a(layout, {.optimizer = {}, .codec = Codec::kInt8, .error_feedback = true}, 0, start());
    const Floats before = a.port.values;
    a.train(1);
    const Floats trained = a.port.values;
    for (int round = 0; round < 12; ++round)
        apply_to_all(exchanged(layout, {&a}, {1}, Method::kAllGather), {&a});
    // Twelve roundings of anchors about 1 are left.
    for (std::size_t i = 0; i < kElements; ++i) ASSERT_NEAR(a.port.values[i], trained[i], 2e-6);
}

// Encoded inputs, anchors and momentum do not depend on how units are cut into pieces.
TEST(OuterState, BitsDoNotDependOnPieces) {
    for (const Method method : {Method::kAllGather, Method::kOwners}) {
        for (const Codec codec : {Codec::kFp32, Codec::kBf16, Codec::kInt8}) {
            Floats anchor, momentum, input;
            const std::vector<std::int64_t> units{9000, 3, 5000};
            for (const std::int64_t piece : {256, 512, 4096 + 256, 64 << 10}) {
                const FragmentLayout layout(units, piece);
                const OuterState::Options options{
                    .optimizer = kNesterov, .codec = codec, .error_feedback = true, .seed = 8};
                Site a(layout, options, 0, start(14003)), b(layout, options, 1, start(14003));
                for (std::uint64_t round = 0; round < 3; ++round) {
                    a.train(round);
                    b.train(round);
                    apply_to_all(exchanged(layout, {&a, &b}, {1, 2}, method), {&a, &b});
                }
                const Floats now(a.state.anchor().begin(), a.state.anchor().end());
                const Floats m(a.state.momentum().begin(), a.state.momentum().end());
                if (anchor.empty()) {
                    anchor = now;
                    momentum = m;
                    input = input_of(a, layout, a.port);
                }
                EXPECT_EQ(now, anchor) << name(codec) << " " << piece;
                EXPECT_EQ(m, momentum);
                EXPECT_EQ(input_of(a, layout, a.port), input);
            }
        }
    }
}

TEST(OuterState, ResetGivesTheAnchorBack) {
    const FragmentLayout layout(kUnits, 256);
    Site a(layout, {}, 0, start());
    EXPECT_EQ(a.state.name().hash, full_digest(layout, start(), {}));
    a.train(1);
    EXPECT_NE(a.port.values, start());
    a.state.reset_model(a.port);
    EXPECT_EQ(a.port.values, start());
    EXPECT_FALSE(a.port.changed);
}

TEST(OuterState, AnEmptyFragment) {
    const FragmentLayout layout({0, 0});
    Site a(layout, {.optimizer = kNesterov}, 0, {}), b(layout, {.optimizer = kNesterov}, 1, {});
    apply_to_all(exchanged(layout, {&a, &b}, {1, 1}, Method::kOwners), {&a, &b});
    EXPECT_EQ(a.state.full_digest(), b.state.full_digest());
}

TEST(OuterStateDeathTest, AppliesOnlyWhatFollows) {
    const FragmentLayout layout(kUnits, 256);
    Site a(layout, {}, 0, start());
    const RoundResult result = exchanged(layout, {&a}, {1}, Method::kAllGather);
    a.state.apply(result, a.self, a.port);
    EXPECT_DEATH(a.state.apply(result, a.self, a.port),
                 "a result of round 0 on a state of round 1");
}

}  // namespace
}  // namespace isthmus::outer
