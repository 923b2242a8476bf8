// The whole thread over real sockets: a coordinator and sites as threads, on a model of a few
// numbers.
#include "outer/site_driver.hpp"

#include <future>

#include "outer/coordinator_driver.hpp"
#include "outer/outer_step.hpp"

namespace isthmus::outer {
namespace {

using namespace std::chrono_literals;
using Vector = std::vector<float>;

constexpr net::RunId kRun{77};

/// "Training" of a site between two rounds: any deterministic function will do.
void train(Vector& w, std::uint32_t site, std::uint64_t round) {
    for (std::size_t i = 0; i < w.size(); ++i) {
        const float target = 0.37f * static_cast<float>(site) - 0.011f * static_cast<float>(i);
        w[i] -= 0.1f * (w[i] - target) / static_cast<float>(1 + round);
    }
}

Vector initial_values(std::size_t n) {
    Vector w(n);
    for (std::size_t i = 0; i < n; ++i) w[i] = 1.0f / static_cast<float>(1 + i);
    return w;
}

/// The same algorithm in one loop.
Vector in_one_process(std::uint32_t sites, std::size_t n, std::uint64_t rounds, float lr) {
    Vector anchor = initial_values(n);
    for (std::uint64_t round = 0; round < rounds; ++round) {
        Vector sum(n, 0.0f);
        for (std::uint32_t s = 0; s < sites; ++s) {
            Vector local = anchor;
            train(local, s, round);
            for (std::size_t i = 0; i < n; ++i) sum[i] += anchor[i] - local[i];
        }
        for (std::size_t i = 0; i < n; ++i) {
            anchor[i] -= lr * (sum[i] / static_cast<float>(sites));
        }
    }
    return anchor;
}

struct Run {
    std::uint32_t sites = 2;
    std::size_t elements = 4;
    std::size_t chunk_elements = kChunkElements;
    std::uint64_t rounds = 5;
    float lr = 1.0f;
    Budget budget{.round = 20s, .join = 20s};
    /// What a site does after its training in a round; empty: nothing.
    std::function<void(SiteDriver&, std::uint32_t site, std::uint64_t round)> disturb = {};
    std::function<std::uint64_t(std::uint32_t site)> config_hash = {};
    std::function<void(Vector&, std::uint32_t site, std::uint64_t round)> damage = {};
};

struct Outcome {
    std::string coordinator;         ///< "" or why it ended
    std::vector<std::string> sites;  ///< likewise
    std::vector<Vector> values;
    std::vector<StateHash> hashes;
    std::vector<std::uint64_t> bytes_sent;
};

Outcome perform(const Run& run) {
    net::Context context;
    Log log("test", LogLevel::kError);
    auto coordinator =
        std::move(CoordinatorDriver::create(
                      context, {.run = kRun, .num_sites = run.sites, .budget = run.budget}, log))
            .value();
    const std::string endpoint = coordinator->endpoint();
    Outcome outcome;
    outcome.sites.resize(run.sites);
    outcome.values.resize(run.sites);
    outcome.hashes.resize(run.sites);
    outcome.bytes_sent.resize(run.sites);
    std::vector<std::thread> threads;
    for (std::uint32_t s = 0; s < run.sites; ++s) {
        threads.emplace_back([&, s] {
            Vector w = initial_values(run.elements);
            const auto body = [&]() -> Status {
                auto joined =
                    SiteDriver::join(context,
                                     {.run = kRun,
                                      .self = SiteId(s),
                                      .num_sites = run.sites,
                                      .coordinator = endpoint,
                                      .budget = run.budget,
                                      .lr = run.lr,
                                      .config_hash = run.config_hash ? run.config_hash(s) : 0,
                                      .chunk_elements = run.chunk_elements},
                                     w, log);
                if (!joined) return joined.error();
                SiteDriver& site = **joined;
                for (std::uint64_t round = 0; round < run.rounds; ++round) {
                    train(w, s, round);
                    if (Status status = site.made_step(); !status) return status;
                    if (run.disturb) run.disturb(site, s, round);
                    const auto met = site.meet(w, 1);
                    if (!met) return met.error();
                    outcome.hashes[s] = met->state;
                    outcome.bytes_sent[s] = met->bytes_sent;
                    EXPECT_EQ(met->round, Round(round + 1));
                }
                return site.leave();
            };
            const Status status = body();
            if (!status) outcome.sites[s] = status.error().message;
            outcome.values[s] = w;
        });
    }
    const Status status = coordinator->run({});
    if (!status) outcome.coordinator = status.error().message;
    for (auto& thread : threads) thread.join();
    return outcome;
}

void expect_equal_to_one_process(const Run& run) {
    const Outcome outcome = perform(run);
    EXPECT_EQ(outcome.coordinator, "");
    const Vector expected = in_one_process(run.sites, run.elements, run.rounds, run.lr);
    for (std::uint32_t s = 0; s < run.sites; ++s) {
        EXPECT_EQ(outcome.sites[s], "") << s;
        EXPECT_EQ(outcome.values[s], expected) << "site " << s;
        EXPECT_EQ(outcome.hashes[s], hash_state(expected)) << "site " << s;
    }
}

TEST(Sites, TwoEndWithTheBitsOfOneProcess) {
    expect_equal_to_one_process({.sites = 2});
}

TEST(Sites, ThreeEndWithTheBitsOfOneProcess) {
    expect_equal_to_one_process({.sites = 3});
}

TEST(Sites, FiveAtAnotherOuterRate) {
    expect_equal_to_one_process({.sites = 5, .elements = 7, .rounds = 3, .lr = 0.7f});
}

// Many more chunks than a queue holds, a last one that is ragged; the result does not depend on it.
TEST(Sites, TheResultDoesNotDependOnChunks) {
    for (const std::size_t chunk : {1u, 7u, 100u, 1000u}) {
        expect_equal_to_one_process(
            {.sites = 3, .elements = 1000, .chunk_elements = chunk, .rounds = 2});
    }
}

TEST(Sites, LargeChunksGoThroughBoundedQueues) {
    expect_equal_to_one_process({.sites = 2, .elements = 12 * kChunkElements + 5, .rounds = 1});
}

TEST(Sites, EachSendsItsPseudoGradientOnceToEachPeer) {
    const Outcome outcome = perform({.sites = 3, .elements = 100, .rounds = 2});
    const std::uint64_t frame = net::kFrameHeaderBytes + 16 + 400;
    EXPECT_EQ(outcome.bytes_sent, (std::vector<std::uint64_t>(3, frame * 2 * 2)));
}

// M = 1, averaging: the local weights, bit for bit, also where anchor - (anchor - local) is not
// local.
TEST(Sites, OneSiteKeepsItsLocalWeights) {
    const Outcome outcome = perform({.sites = 1, .elements = 9, .rounds = 4});
    Vector expected = initial_values(9);
    for (std::uint64_t round = 0; round < 4; ++round) train(expected, 0, round);
    EXPECT_EQ(outcome.values[0], expected);
    EXPECT_EQ(outcome.coordinator + outcome.sites[0], "");
}

TEST(Sites, ASiteThatFailsEndsTheRunForAllByName) {
    const Outcome outcome =
        perform({.sites = 3, .disturb = [](SiteDriver& site, auto s, auto round) {
                     if (s == 1 && round == 2) site.quit("disk full");
                 }});
    EXPECT_EQ(outcome.coordinator, "site 1 left: disk full");
    EXPECT_EQ(outcome.sites[0], "site 1 left: disk full");
    EXPECT_EQ(outcome.sites[1], "disk full");
    EXPECT_EQ(outcome.sites[2], "site 1 left: disk full");
}

TEST(Sites, DifferentConfigurationsDoNotStart) {
    const Outcome outcome =
        perform({.sites = 2, .config_hash = [](auto s) { return std::uint64_t{s}; }});
    const std::string reason =
        "site 1 and site 0 have different configurations; give all the same file";
    EXPECT_EQ(outcome.coordinator, reason);
    EXPECT_EQ(outcome.sites, (std::vector<std::string>(2, reason)));
}

TEST(Sites, ASiteThatDoesNotComeIsNamed) {
    net::Context context;
    Log log("test", LogLevel::kError);
    const Budget budget{.round = 20s, .join = 300ms};
    auto coordinator = std::move(CoordinatorDriver::create(
                                     context, {.run = kRun, .num_sites = 2, .budget = budget}, log))
                           .value();
    auto site = std::async(std::launch::async, [&, endpoint = coordinator->endpoint()] {
        const auto joined = SiteDriver::join(context,
                                             {.run = kRun,
                                              .self = SiteId(0),
                                              .num_sites = 2,
                                              .coordinator = endpoint,
                                              .budget = {.round = 20s, .join = 20s}},
                                             {1, 2}, log);
        return joined ? std::string("joined") : joined.error().message;
    });
    EXPECT_EQ(coordinator->run({}).error().message, "site 1 did not come within 0.3 s");
    EXPECT_EQ(site.get(), "site 1 did not come within 0.3 s");
}

TEST(Sites, ASilentCoordinatorIsNoticed) {
    net::Context context;
    Log log("test", LogLevel::kError);
    const Budget budget{.round = 2s, .join = 20s};  // silence .5 s
    std::atomic<bool> stop{false};
    std::string endpoint;
    std::promise<std::string> listening;
    // Stopped without a word: its reply to stop() never comes back before the sites have noticed.
    std::promise<void> release;
    std::thread coordinator([&] {
        auto driver = std::move(CoordinatorDriver::create(
                                    context, {.run = kRun, .num_sites = 1, .budget = budget}, log))
                          .value();
        listening.set_value(driver->endpoint());
        (void)driver->run([&] {
            if (stop) release.get_future().wait();
            return stop.load();
        });
    });
    auto joined = SiteDriver::join(context,
                                   {.run = kRun,
                                    .self = SiteId(0),
                                    .num_sites = 1,
                                    .coordinator = listening.get_future().get(),
                                    .budget = budget},
                                   {1, 2}, log);
    ASSERT_TRUE(joined);
    stop = true;
    Vector w{1, 2};
    std::string reason;
    // The round that is open may still be answered; the next one is not.
    for (int round = 0; round < 2 && reason.empty(); ++round) {
        const auto met = (*joined)->meet(w, 1);
        if (!met) reason = met.error().message;
    }
    EXPECT_TRUE(reason.starts_with("the coordinator is lost: nothing heard of it for")) << reason;
    release.set_value();
    coordinator.join();
}

TEST(Sites, AStrangersFramesDoNotDisturb) {
    net::Context context;
    Log log("test", LogLevel::kError);
    const Budget budget{.round = 20s, .join = 20s};
    auto coordinator = std::move(CoordinatorDriver::create(
                                     context, {.run = kRun, .num_sites = 1, .budget = budget}, log))
                           .value();
    std::thread others([&, endpoint = coordinator->endpoint()] {
        auto stranger =
            std::move(net::Link::connect(context, net::LinkKind::kClient, endpoint)).value();
        const auto leave = encode(Leave{"sabotage"});
        const auto say = [&](net::RunId run, SiteId sender) {
            const auto frame = net::make_frame(
                run, {.kind = kind_of(Message(Leave{})), .sender = sender, .payload = leave});
            EXPECT_TRUE(stranger->send(frame));
        };
        EXPECT_TRUE(stranger->send(std::vector<std::byte>(100)));
        say(net::RunId(1), SiteId(0));  // another run
        say(kRun, SiteId(9));           // no such site
        say(kRun, SiteId(0));           // in the name of a site that has not come
        auto joined = SiteDriver::join(context,
                                       {.run = kRun,
                                        .self = SiteId(0),
                                        .num_sites = 1,
                                        .coordinator = endpoint,
                                        .budget = budget},
                                       {1, 2}, log);
        ASSERT_TRUE(joined);
        say(kRun, SiteId(0));  // in the name of one that is connected
        Vector w{3, 4};
        EXPECT_TRUE((*joined)->meet(w, 1));
        EXPECT_TRUE((*joined)->leave());
    });
    EXPECT_TRUE(coordinator->run({}));
    others.join();
}

}  // namespace
}  // namespace isthmus::outer
