#include "outer/data_plane.hpp"

#include <gtest/gtest.h>

#include <map>

#include "base/record.hpp"
#include "net/keys.hpp"
#include "outer/data_server.hpp"

namespace isthmus::outer {
namespace {

using namespace std::chrono_literals;

constexpr net::RunId kRun{5};

std::vector<std::byte> content(std::uint32_t index, std::size_t bytes = 1000) {
    std::vector<std::byte> out(bytes);
    for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::byte>(index * 31 + i * 7);
    return out;
}

Want want(std::uint32_t index) {
    return {CutItem{{.site = SiteId(1), .incarnation = 1, .counter = 1}}, index};
}

/// One end: asks, and serves content(index) unless `answer` says otherwise.
struct End {
    End(net::Context& context, std::string name, DataPlane::Options options = {}) {
        options.run = kRun;
        options.self = name;
        if (options.ask_again == 1000ms) options.ask_again = 150ms;
        auto made = DataPlane::create(
            context, options,
            [this](const Want& w) -> Served {
                ++asked[w.index];
                if (answer) {
                    const Served said = answer(w);
                    if (!std::holds_alternative<std::span<const std::byte>>(said)) return said;
                }
                bytes = content(w.index, item_bytes);
                return std::span<const std::byte>(bytes);
            },
            log);
        CHECK(made.has_value(), "{}", made.error().message);
        data = std::move(*made);
        info = {SiteId(name == "oslo" ? 1u : 2u), name, data->endpoint(), ""};
    }
    Log log{"test", LogLevel::kError};
    std::map<std::uint32_t, int> asked;
    std::function<Served(const Want&)> answer;
    std::size_t item_bytes = 1000;
    std::vector<std::byte> bytes;
    std::unique_ptr<DataPlane> data;
    PeerInfo info;
    std::vector<DataPlane::Arrived> arrived;
};

TimePoint now() {
    return std::chrono::steady_clock::now();
}

/// Turns both loops until `done`; false after a bound far beyond what it takes.
bool run_until(std::vector<End*> ends, const std::function<bool()>& done,
               std::chrono::milliseconds limit = 30s) {
    const TimePoint end = now() + limit;
    while (!done()) {
        if (now() > end) return false;
        std::vector<net::Interest> interests;
        bool busy = false;
        for (End* e : ends) {
            for (auto& a : e->data->pump(now())) e->arrived.push_back(std::move(a));
            e->data->add_interests(interests);
            busy = busy || e->data->busy();
        }
        net::wait(interests, nullptr, busy ? 0ms : 10ms);
    }
    return true;
}

void meet(End& a, End& b) {
    a.data->set_peers({b.info});
    b.data->set_peers({a.info});
}

TEST(DataPlane, BringsWhatWasAskedForOnce) {
    net::Context context;
    End oslo(context, "oslo"), paris(context, "paris");
    meet(oslo, paris);
    for (std::uint32_t i = 0; i < 200; ++i) oslo.data->ask(paris.info.site, want(i), 1000);
    oslo.data->ask(paris.info.site, want(7), 1000);  // asked already
    ASSERT_TRUE(run_until({&oslo, &paris}, [&] { return oslo.arrived.size() >= 200; }));
    std::map<std::uint32_t, int> seen;
    for (const auto& a : oslo.arrived) {
        EXPECT_TRUE(a.found);
        EXPECT_EQ(a.from, paris.info.site);
        EXPECT_EQ(a.bytes, content(a.want.index));
        EXPECT_EQ(++seen[a.want.index], 1);
    }
    EXPECT_EQ(seen.size(), 200u);
    EXPECT_EQ(oslo.data->traffic().items_received, 200u);
    EXPECT_EQ(oslo.data->traffic().bytes_received, 200'000u);
    EXPECT_EQ(paris.data->traffic().bytes_sent, 200'000u);
    EXPECT_FALSE(oslo.data->busy());
}

TEST(DataPlane, NoMoreThanTheWindowIsUnderWay) {
    net::Context context;
    DataPlane::Options options;
    options.window_bytes = 10'000;
    End oslo(context, "oslo", options), paris(context, "paris");
    meet(oslo, paris);
    for (std::uint32_t i = 0; i < 100; ++i) oslo.data->ask(paris.info.site, want(i), 1000);
    ASSERT_TRUE(run_until({&oslo, &paris}, [&] { return oslo.arrived.size() == 100; }));
    EXPECT_EQ(oslo.data->traffic().peak_in_flight_bytes, 10'000u);
    // Two at least, however large they are.
    for (std::uint32_t i = 100; i < 110; ++i) oslo.data->ask(paris.info.site, want(i), 50'000);
    ASSERT_TRUE(run_until({&oslo, &paris}, [&] { return oslo.arrived.size() == 110; }));
    EXPECT_EQ(oslo.data->traffic().peak_in_flight_bytes, 100'000u);
}

TEST(DataPlane, NotFoundAndNotYet) {
    net::Context context;
    End oslo(context, "oslo"), paris(context, "paris");
    meet(oslo, paris);
    bool there = false;
    paris.answer = [&](const Want& w) -> Served {
        if (w.index == 1) return NoSuchItem{};
        if (w.index == 2 && !there) return NotYet{};
        return std::span<const std::byte>();
    };
    for (std::uint32_t i = 0; i < 3; ++i) oslo.data->ask(paris.info.site, want(i), 1000);
    ASSERT_TRUE(run_until({&oslo, &paris}, [&] { return oslo.arrived.size() == 2; }));
    for (const auto& a : oslo.arrived) EXPECT_EQ(a.found, a.want.index == 0);
    // It is asked again meanwhile and still answered once, and its owner is not silent.
    ASSERT_TRUE(run_until({&oslo, &paris}, [&] { return oslo.data->traffic().asked_again >= 2; }));
    EXPECT_TRUE(oslo.data->silent_peers(now(), 1000ms).empty());
    const auto sent = paris.data->traffic().items_sent;
    there = true;
    paris.data->may_serve_now();
    EXPECT_TRUE(paris.data->busy());
    ASSERT_TRUE(run_until({&oslo, &paris}, [&] { return oslo.arrived.size() == 3; }));
    EXPECT_EQ(oslo.arrived.back().bytes, content(2));
    EXPECT_EQ(paris.data->traffic().items_sent, sent + 1);
}

TEST(DataPlane, AsksAgainWithGrowingPatienceAndNamesTheSilent) {
    net::Context context;
    End oslo(context, "oslo"), paris(context, "paris");
    meet(oslo, paris);
    for (std::uint32_t i = 0; i < 3; ++i) oslo.data->ask(paris.info.site, want(i), 1000);
    // paris' loop stands. After 150 ms it is asked again, then after 300 ms.
    EXPECT_FALSE(run_until(
        {&oslo}, [] { return false; }, 1200ms));
    const auto again = oslo.data->traffic().asked_again;
    EXPECT_GE(again, 3u);
    EXPECT_LE(again, 9u);
    EXPECT_EQ(oslo.data->silent_peers(now(), 500ms), std::vector{paris.info.site});
    ASSERT_TRUE(run_until({&oslo, &paris}, [&] { return oslo.arrived.size() >= 3; }));
    EXPECT_EQ(oslo.arrived.size(), 3u);
    EXPECT_TRUE(oslo.data->silent_peers(now(), 500ms).empty());
}

TEST(DataPlane, ItsOwnPauseIsNobodysSilence) {
    net::Context context;
    End oslo(context, "oslo"), paris(context, "paris");
    meet(oslo, paris);
    oslo.data->ask(paris.info.site, want(0), 1000);
    const TimePoint start = now();
    oslo.data->pump(start);
    EXPECT_EQ(oslo.data->silent_peers(start + 5s, 1s), std::vector{paris.info.site});
    oslo.data->pump(start + 5s);
    EXPECT_TRUE(oslo.data->silent_peers(start + 5s, 1s).empty());
}

TEST(DataPlane, WhoIsNoPeerIsNotAnsweredAndHasNothing) {
    net::Context context;
    End oslo(context, "oslo"), paris(context, "paris");
    oslo.data->set_peers({paris.info});
    oslo.data->ask(paris.info.site, want(0), 1000);
    oslo.data->ask(SiteId(9), want(1), 1000);
    EXPECT_TRUE(oslo.data->busy());
    ASSERT_TRUE(run_until({&oslo, &paris}, [&] { return oslo.data->traffic().asked_again > 0; }));
    ASSERT_EQ(oslo.arrived.size(), 1u);
    EXPECT_EQ(oslo.arrived[0].from, SiteId(9));
    EXPECT_FALSE(oslo.arrived[0].found);
    EXPECT_TRUE(paris.asked.empty());
    paris.data->set_peers({oslo.info});
    ASSERT_TRUE(run_until({&oslo, &paris}, [&] { return oslo.arrived.size() == 2; }));
    EXPECT_TRUE(oslo.arrived[1].found);
    // Let go with wants out: these come back.
    paris.answer = [](const Want&) -> Served { return NotYet{}; };
    oslo.data->ask(paris.info.site, want(2), 1000);
    ASSERT_TRUE(run_until({&oslo, &paris}, [&] { return paris.asked.count(2) > 0; }));
    oslo.data->set_peers({});
    ASSERT_TRUE(run_until({&oslo, &paris}, [&] { return oslo.arrived.size() == 3; }));
    EXPECT_FALSE(oslo.arrived[2].found);
}

TEST(DataPlane, WhatIsForgottenDoesNotArrive) {
    net::Context context;
    End oslo(context, "oslo"), paris(context, "paris");
    meet(oslo, paris);
    for (std::uint32_t i = 0; i < 10; ++i) oslo.data->ask(paris.info.site, want(i), 1000);
    oslo.data->pump(now());
    oslo.data->forget([](const Want& w) { return w.index % 2 == 0; });
    ASSERT_TRUE(run_until({&oslo, &paris}, [&] { return oslo.arrived.size() == 5; }));
    oslo.data->ask(paris.info.site, want(0), 1000);
    ASSERT_TRUE(run_until({&oslo, &paris}, [&] { return oslo.arrived.size() == 6; }));
    oslo.data->ask(paris.info.site, want(3), 1000);
    oslo.data->forget_all();
    EXPECT_FALSE(oslo.data->busy());
    for (const auto& a : oslo.arrived) EXPECT_TRUE(a.want.index == 0 || a.want.index % 2 == 1);
}

TEST(DataPlane, GarbageIsDroppedAndTheRestGoesOn) {
    net::Context context;
    End oslo(context, "oslo"), paris(context, "paris");
    meet(oslo, paris);
    auto stranger =
        net::Link::connect(context, net::LinkKind::kClient, paris.data->endpoint()).value();
    const auto payload = pack(AskedBy{"oslo", want(3)});
    auto frame = net::make_frame(kRun, {.kind = kWant, .sender = SiteId(0), .payload = payload});
    frame.back() ^= std::byte{1};
    stranger->send(frame);                                                        // damaged
    stranger->send(net::make_frame(net::RunId(6), {kWant, SiteId(0), payload}));  // another run
    stranger->send(net::make_frame(kRun, {kItem, SiteId(0), payload}));           // an answer
    stranger->send(net::make_frame(kRun, {kWant, SiteId(0), std::span(payload).first(9)}));
    stranger->send(content(1, 30));
    stranger->send(net::make_frame(kRun, {kWant, SiteId(0), pack(AskedBy{"lima", want(4)})}));
    for (std::uint32_t i = 10; i < 20; ++i) oslo.data->ask(paris.info.site, want(i), 1000);
    ASSERT_TRUE(run_until({&oslo, &paris}, [&] { return oslo.arrived.size() == 10; }));
    EXPECT_EQ(paris.asked.count(3) + paris.asked.count(4), 0u);
}

/// A server that damages its first answers.
TEST(DataPlane, ADamagedAnswerIsAskedForAgain) {
    net::Context context;
    End oslo(context, "oslo");
    auto server = net::Link::listen(context, net::LinkKind::kServer).value();
    oslo.data->set_peers({{SiteId(2), "paris", server->endpoint(), ""}});
    for (std::uint32_t i = 0; i < 3; ++i) oslo.data->ask(SiteId(2), want(i), 1000);
    int answers = 0;
    const TimePoint end = now() + 30s;
    while (oslo.arrived.size() < 3 && now() < end) {
        for (auto& a : oslo.data->pump(now())) oslo.arrived.push_back(std::move(a));
        while (auto message = server->receive()) {
            const auto asked =
                unpack<AskedBy>(message->bytes().subspan(net::kFrameHeaderBytes)).value();
            const auto name = pack(asked.want);
            std::vector<std::byte> payload{static_cast<std::byte>(name.size()), std::byte{0}};
            payload.insert(payload.end(), name.begin(), name.end());
            const auto bytes = content(asked.want.index);
            payload.insert(payload.end(), bytes.begin(), bytes.end());
            auto frame = net::make_frame(kRun, {kItem, SiteId(0), payload});
            if (++answers <= 4) frame[frame.size() - 5] ^= std::byte{4};
            server->send(frame, {}, message->from());
        }
        std::vector<net::Interest> interests{{.link = server.get()}};
        oslo.data->add_interests(interests);
        net::wait(interests, nullptr, 10ms);
    }
    ASSERT_EQ(oslo.arrived.size(), 3u);
    for (const auto& a : oslo.arrived) EXPECT_EQ(a.bytes, content(a.want.index));
    EXPECT_GE(oslo.data->traffic().asked_again, 4u);
}

/// With keys the name is the key's, whatever a frame says.
TEST(DataPlane, KeysNameWhoAsks) {
    net::Context context;
    const net::KeyPair oslo_keys = net::make_key_pair(), paris_keys = net::make_key_pair(),
                       lima_keys = net::make_key_pair();
    context.allow({{oslo_keys.public_key, "oslo"},
                   {paris_keys.public_key, "paris"},
                   {lima_keys.public_key, "lima"}});
    DataPlane::Options with_oslo, with_paris, with_lima;
    with_oslo.keys = oslo_keys;
    with_paris.keys = paris_keys;
    with_lima.keys = lima_keys;
    End oslo(context, "oslo", with_oslo), paris(context, "paris", with_paris);
    // It says that it is oslo; its key is lima's, who is allowed in but no peer of paris.
    End lima(context, "oslo", with_lima);
    oslo.info.public_key = oslo_keys.public_key;
    paris.info.public_key = paris_keys.public_key;
    meet(oslo, paris);
    lima.data->set_peers({paris.info});
    lima.data->ask(paris.info.site, want(1), 1000);
    oslo.data->ask(paris.info.site, want(2), 1000);
    ASSERT_TRUE(run_until({&oslo, &paris, &lima}, [&] {
        return oslo.arrived.size() == 1 && lima.data->traffic().asked_again >= 1;
    }));
    EXPECT_EQ(paris.asked.count(1), 0u);
    EXPECT_TRUE(lima.arrived.empty());
}

TEST(DataPlane, EndpointIsWhatIsAdvertised) {
    net::Context context;
    DataPlane::Options options;
    options.advertise = "data.example.org";
    End oslo(context, "oslo", options);
    EXPECT_TRUE(oslo.data->endpoint().starts_with("tcp://data.example.org:"));
    EXPECT_GT(oslo.data->endpoint().size(), std::string("tcp://data.example.org:").size());
    options.advertise = "data.example.org:77";
    EXPECT_EQ(End(context, "oslo", options).data->endpoint(), "tcp://data.example.org:77");
}

}  // namespace
}  // namespace isthmus::outer
