#include "net/shaper.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace isthmus::net {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

/// One wire with greedy senders and readers under a time that the test moves.
class World {
  public:
    World(const ShaperConfig& config, int num_flows) : shaper(config) {
        for (int i = 0; i < num_flows; ++i) flows.push_back(shaper.add_flow());
        arrived.resize(flows.size());
        sent.resize(flows.size());
    }

    /// Fills every flow and reads what arrived, event by event.
    void run_until(nanoseconds end) {
        while (now < end) {
            shaper.advance(now);
            for (std::size_t i = 0; i < flows.size(); ++i) {
                read(i);
                fill(i);
            }
            now = std::max(now + 1ns, std::min(end, shaper.next_event().value_or(end)));
        }
        shaper.advance(end);
        for (std::size_t i = 0; i < flows.size(); ++i) read(i);
    }

    std::size_t total() const {
        std::size_t sum = 0;
        for (const std::size_t bytes : arrived) sum += bytes;
        return sum;
    }

    Shaper shaper;
    nanoseconds now{0};
    std::vector<FlowId> flows;
    std::vector<std::size_t> arrived, sent;
    bool greedy = true;

  private:
    static std::byte pattern(std::size_t i, std::size_t at) {
        return static_cast<std::byte>(at * 7 + at / 251 + i);
    }
    void read(std::size_t i) {
        const auto bytes = shaper.ready(flows[i]);
        for (const std::byte b : bytes) ASSERT_EQ(b, pattern(i, arrived[i]++));
        shaper.consume(flows[i], bytes.size());
    }
    void fill(std::size_t i) {
        if (!greedy) return;
        std::vector<std::byte> bytes(shaper.room(flows[i]));
        for (auto& b : bytes) b = pattern(i, sent[i]++);
        shaper.push(flows[i], bytes, now);
    }
};

ShaperConfig config_of(std::int64_t rate, nanoseconds latency) {
    ShaperConfig config;
    config.bits_per_second = rate;
    config.latency = latency;
    return config;
}

std::vector<std::byte> some(std::size_t bytes) {
    return std::vector<std::byte>(bytes);
}

TEST(Shaper, CarriesItsRateToATenthOfAPercent) {
    // 3 mbit does not divide into whole nanoseconds a byte.
    for (const std::int64_t rate : {500'000, 3'000'000, 20'000'000, 100'000'000}) {
        World world(config_of(rate, 50ms), 1);
        world.run_until(2050ms);
        const double expected = static_cast<double>(rate) / 8 * 2;
        // 0.1 %, and the quantum that is under way at the end.
        EXPECT_NEAR(static_cast<double>(world.total()), expected, expected * .001 + 1500) << rate;
    }
}

TEST(Shaper, AQuantumArrivesAfterItsTimeOnTheWireAndTheLatency) {
    Shaper shaper(config_of(8'000'000, 50ms));  // a byte a microsecond
    const FlowId flow = shaper.add_flow();
    EXPECT_EQ(shaper.next_event(), std::nullopt);
    shaper.push(flow, some(1000), 10ms);
    shaper.advance(10ms);
    shaper.advance(61ms - 1ns);
    EXPECT_TRUE(shaper.ready(flow).empty());
    EXPECT_EQ(shaper.next_event(), 61ms);
    shaper.advance(61ms);
    EXPECT_EQ(shaper.ready(flow).size(), 1000u);
}

TEST(Shaper, AnIdleWireSavesNothingUp) {
    Shaper shaper(config_of(8'000'000, 0ms));
    const FlowId flow = shaper.add_flow();
    shaper.advance(10s);
    shaper.push(flow, some(3000), 10s);
    shaper.advance(10s + 1499us);
    EXPECT_EQ(shaper.ready(flow).size(), 0u);
    shaper.advance(10s + 2999us);
    EXPECT_EQ(shaper.ready(flow).size(), 1500u);
    shaper.advance(10s + 3ms);
    EXPECT_EQ(shaper.ready(flow).size(), 3000u);
}

TEST(Shaper, FlowsShareTheRateEvenly) {
    for (int num_flows = 1; num_flows <= 8; ++num_flows) {
        World world(config_of(20'000'000, 5ms), num_flows);
        world.run_until(1005ms);
        const double expected = 2'500'000;
        EXPECT_NEAR(static_cast<double>(world.total()), expected, expected * .001 + 1500);
        for (const std::size_t bytes : world.arrived)
            EXPECT_NEAR(static_cast<double>(bytes), expected / num_flows, 3000) << num_flows;
    }
}

TEST(Shaper, JitterDelaysWithinItsBoundAndNeverReorders) {
    ShaperConfig config = config_of(8'000'000, 20ms);
    config.jitter = 10ms;
    config.seed = 3;
    World world(config, 2);  // the world compares every byte with its place
    world.run_until(1030ms);
    EXPECT_GE(world.total(), 1'000'000u - 3000);
    nanoseconds least = 1s, most = 0s;
    Shaper shaper(config);
    const FlowId flow = shaper.add_flow();
    for (int i = 0; i < 100; ++i) {
        const nanoseconds start = i * 1s;
        shaper.push(flow, some(1), start);
        shaper.advance(start);
        const nanoseconds took = *shaper.next_event() - start - 1us;
        shaper.advance(start + 40ms);
        EXPECT_EQ(shaper.ready(flow).size(), 1u);
        shaper.consume(flow, 1);
        least = std::min(least, took);
        most = std::max(most, took);
    }
    EXPECT_GE(least, 20ms);
    EXPECT_LT(least, 22ms);
    EXPECT_LE(most, 30ms);
    EXPECT_GT(most, 28ms);
}

TEST(Shaper, NothingPassesInAnOutageAndAllGoesOnAfterIt) {
    ShaperConfig config = config_of(8'000'000, 50ms);
    config.outage = {1s, 200ms};
    World world(config, 2);
    world.run_until(1s);
    const std::size_t before = world.total();
    EXPECT_NEAR(static_cast<double>(before), 950'000, 950 + 1500);
    world.run_until(1200ms);
    EXPECT_EQ(world.total(), before);
    world.run_until(2s);
    EXPECT_NEAR(static_cast<double>(world.total()), 1'750'000, 1750 + 1500);
    world.run_until(4s);  // two more outages
    EXPECT_NEAR(static_cast<double>(world.total()), 3'350'000, 3350 + 1500);
}

TEST(OutageSchedule, UpAndWallTimeInvertEachOther) {
    const OutageSchedule outage{10s, 3s};
    EXPECT_EQ(outage.up_time(9s), 9s);
    EXPECT_EQ(outage.up_time(12s), 10s);
    EXPECT_EQ(outage.up_time(20s), 17s);
    EXPECT_EQ(outage.up_time(25s), 19s);
    for (nanoseconds up = 0s; up < 60s; up += 250ms) {
        EXPECT_EQ(outage.up_time(outage.wall_time(up)), up);
        EXPECT_LT(outage.up_time(outage.wall_time(up) - 1ns), up);
    }
}

TEST(Shaper, AFarEndThatDoesNotReadStopsItsOwnFlowAlone) {
    Shaper shaper(config_of(20'000'000, 50ms));
    const FlowId stuck = shaper.add_flow(), other = shaper.add_flow();
    std::size_t taken = 0, arrived = 0;
    for (nanoseconds now = 0s; now < 2s; now += 1ms) {
        shaper.advance(now);
        arrived += shaper.ready(other).size();
        shaper.consume(other, shaper.ready(other).size());
        taken += shaper.room(stuck);
        shaper.push(stuck, some(shaper.room(stuck)), now);
        shaper.push(other, some(shaper.room(other)), now);
    }
    EXPECT_EQ(taken, shaper.limit_bytes());
    EXPECT_LE(shaper.limit_bytes(), 20'000'000 / 8 * 120 / 1000);  // rate x (latency + 70 ms)
    EXPECT_GT(arrived, 4'500'000u);
    shaper.remove_flow(stuck);
    shaper.advance(2100ms);
    EXPECT_GT(shaper.room(other), 0u);
}

TEST(Shaper, TheEndTravelsBehindTheLastByte) {
    Shaper shaper(config_of(8'000'000, 50ms));
    const FlowId flow = shaper.add_flow();
    shaper.push(flow, some(1000), 0ms);
    shaper.push_end(flow, 0ms);
    EXPECT_EQ(shaper.room(flow), 0u);
    shaper.advance(51ms - 1ns);
    EXPECT_FALSE(shaper.end_arrived(flow));
    shaper.advance(51ms);
    EXPECT_FALSE(shaper.end_arrived(flow));  // its bytes are not read yet
    shaper.consume(flow, 1000);
    EXPECT_TRUE(shaper.end_arrived(flow));
    EXPECT_EQ(shaper.next_event(), std::nullopt);

    const FlowId empty = shaper.add_flow();
    shaper.push_end(empty, 1s);
    shaper.advance(1050ms - 1ns);
    EXPECT_FALSE(shaper.end_arrived(empty));
    shaper.advance(1050ms);
    EXPECT_TRUE(shaper.end_arrived(empty));
}

}  // namespace
}  // namespace isthmus::net
