// Faults of links and transfers that broke other training systems, over real sockets. Numbers are
// rows of the list of scenarios.
#include <atomic>
#include <thread>

#include "net/config.hpp"
#include "net/thin_link.hpp"
#include "tests/outer/support/data_sites.hpp"

namespace isthmus::outer {
namespace {

using test::DataSite;
using test::DataSites;
using test::SitesOptions;
using namespace std::chrono_literals;

/// A proxy in front of a site's data port: shaped, and can be cut like one that closes idle
/// connections.
class Proxy {
  public:
    Proxy(std::string endpoint, net::ShaperConfig shape) : shape_(shape) {
        to_ = static_cast<std::uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1)));
        open();
    }
    ~Proxy() { close(); }
    std::string endpoint() const { return fmt::format("tcp://127.0.0.1:{}", port_); }
    /// Resets every connection; new ones are taken.
    void cut() {
        close();
        open();
    }

  private:
    void open() {
        net::ThinLinkOptions options;
        options.listen_port = port_;
        options.to_host = "127.0.0.1";
        options.to_port = to_;
        options.shape = shape_;
        link_ = std::make_unique<net::ThinLink>(options);
        port_ = link_->port();
        stop_ = false;
        thread_ = std::thread([this] { link_->run([this] { return stop_.load(); }); });
    }
    void close() {
        stop_ = true;
        thread_.join();
        link_.reset();
    }

    net::ShaperConfig shape_;
    std::uint16_t to_ = 0, port_ = 0;
    std::unique_ptr<net::ThinLink> link_;
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

net::ShaperConfig shape(std::int64_t bits_per_second, std::chrono::nanoseconds latency) {
    net::ShaperConfig s;
    s.bits_per_second = bits_per_second;
    s.latency = latency;
    return s;
}

/// Every way to another site leads through a proxy of its own.
struct Proxied {
    explicit Proxied(SitesOptions options, net::ShaperConfig config) : sites(with_routes(options)) {
        for (const auto& site : sites.sites)
            proxies.push_back(std::make_unique<Proxy>(site->data->endpoint(), config));
        for (const auto& site : sites.sites) site->data->set_peers({});  // without proxies
        sites.connect();
    }
    SitesOptions& with_routes(SitesOptions& options) {
        options.route = [this](SiteId, const PeerInfo& to) {
            return to.site.value < proxies.size() ? proxies[to.site.value]->endpoint()
                                                  : to.endpoint;
        };
        return options;
    }
    void expect_round(std::vector<std::uint32_t> who, Method method) {
        for (std::uint32_t i : who) sites[i].train();
        const Begin begin = sites.begin(method, who, ++counter);
        ASSERT_TRUE(sites.exchange(begin));
        for (std::uint32_t i : who) {
            const auto result = sites[i].exchange->staged(begin.attempt);
            ASSERT_TRUE(result);
            sites[i].state.apply(*result, sites[i].id, sites[i].port);
            sites[i].exchange->discard();
            EXPECT_EQ(sites[i].state.name(), sites[0].state.name());
        }
    }
    std::vector<std::unique_ptr<Proxy>> proxies;
    DataSites sites;
    std::uint32_t counter = 0;
};

// 48: a proxy on the way closes idle connections, here between rounds and, harder, within one. They
// are built up again without anyone being asked to.
TEST(DataScenario, ConnectionsThatAProxyClosesAreBuiltUpAgain) {
    SitesOptions options{.sites = 2};
    options.units = {60'000};
    Proxied p(options, shape(40'000'000, 1ms));
    for (int round = 0; round < 3; ++round) {
        p.expect_round({0, 1}, Method::kAllGather);
        for (const auto& proxy : p.proxies) proxy->cut();
    }
    for (std::uint32_t i : {0u, 1u}) p.sites[i].train();
    const Begin begin = p.sites.begin(Method::kAllGather, {0, 1}, 9);
    const auto now = std::chrono::steady_clock::now();
    for (const auto& site : p.sites.sites) site->exchange->begin(begin, site->id, now);
    const auto before = p.sites[0].data->traffic().items_received;
    ASSERT_TRUE(
        p.sites.run_until([&] { return p.sites[0].data->traffic().items_received >= before + 5; }));
    for (const auto& proxy : p.proxies) proxy->cut();
    ASSERT_TRUE(p.sites.run_until([&] { return p.sites[0].outcome && p.sites[1].outcome; }));
    for (const auto& site : p.sites.sites)
        EXPECT_TRUE(std::holds_alternative<Exchanged>(*site->outcome));
}

// 26: 50 mbit/s and a round trip of 200 ms. The rate is filled: parallel streams and a window of
// more than what is under way.
TEST(DataScenario, AHighRoundTripTimeDoesNotThrottle) {
    SitesOptions options{.sites = 2};
    options.units = {2'000'000};  // 8 MB each way: 1.28 s
    options.piece_elements = 16 << 10;
    options.window_bytes = 8 << 20;
    options.ask_again = 2s;
    options.silence = 10s;
    Proxied p(options, shape(50'000'000, 100ms));
    p.expect_round({0, 1}, Method::kAllGather);  // builds connections up
    for (std::uint32_t i : {0u, 1u}) p.sites[i].train();
    const auto start = std::chrono::steady_clock::now();
    const Begin begin = p.sites.begin(Method::kAllGather, {0, 1}, 2);
    ASSERT_TRUE(p.sites.exchange(begin));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    const double wire = 8e6 * 8 / 50e6;
    // One stream with a window of 64 KiB would take 25 s. Two round trips, and a busy machine.
    EXPECT_LT(took.count(), 1.5 * wire + 0.4);
    EXPECT_EQ(p.sites[0].data->traffic().asked_again, 0u);
}

// 28: a transfer at a hundredth of the rate, several times as long as the time of silence, lives
// because it moves.
TEST(DataScenario, ASlowTransferThatMovesIsNotMissing) {
    SitesOptions options{.sites = 2};
    options.units = {60'000};  // 240 kB each way at 1 mbit/s: 1.9 s
    options.silence = 500ms;
    options.window_bytes = 16 << 10;
    Proxied p(options, shape(1'000'000, 5ms));
    const auto start = std::chrono::steady_clock::now();
    p.expect_round({0, 1}, Method::kAllGather);
    EXPECT_GT(std::chrono::steady_clock::now() - start, 3 * options.silence);
}

// 15, 22: a model of many tensors, among them empty, one-dimensional and odd ones.
TEST(DataScenario, ManyTensorsOfEverySizeComplete) {
    for (Codec codec : {Codec::kFp32, Codec::kBf16, Codec::kInt8}) {
        SitesOptions options{.sites = 2, .codec = codec};
        options.units.clear();
        for (std::int64_t i = 0; i < 1200; ++i) options.units.push_back(i % 7 == 0 ? 0 : i % 131);
        DataSites sites(options);
        for (const auto& site : sites.sites) site->train();
        const Begin begin = sites.begin(Method::kAllGather, {0, 1});
        ASSERT_TRUE(sites.exchange(begin));
        for (const auto& site : sites.sites) {
            const auto result = site->exchange->staged(begin.attempt);
            ASSERT_TRUE(result) << name(codec);
            EXPECT_EQ(DataSites::mean_of(*result, site->layout), sites.expected_mean(begin));
        }
    }
}

// 23: two sites whose models differ in size (which joining refuses). The exchange fails, naming the
// other one; nobody crashes, nothing is staged.
TEST(DataScenario, PeersOfDifferentSizesFailTheExchange) {
    SitesOptions options{.sites = 2};
    DataSites sites(options);
    SitesOptions other = options;
    other.units.back() -= 128;
    DataSites smaller(other);
    sites[0].data->set_peers({smaller[1].info()});
    smaller[1].data->set_peers({sites[0].info()});
    sites[0].train();
    smaller[1].train();
    Begin begin = sites.begin(Method::kAllGather, {0, 1});
    begin.participants[1].peer = smaller[1].info();
    begin.participants[1].cut = smaller[1].cut();
    const auto now = std::chrono::steady_clock::now();
    sites[0].exchange->begin(begin, SiteId(0), now);
    begin.from = smaller[1].state.name();
    smaller[1].exchange->begin(begin, SiteId(1), now);
    const auto end = now + 30s;
    while (!sites[0].outcome && std::chrono::steady_clock::now() < end) {
        sites.turn();
        smaller.turn();
    }
    ASSERT_TRUE(sites[0].outcome);
    const auto* failed = std::get_if<ExchangeFailed>(&*sites[0].outcome);
    ASSERT_TRUE(failed);
    EXPECT_EQ(failed->missing, std::vector{SiteId(1)});
    EXPECT_EQ(failed->why, "piece 16 of site 1 has 1056 bytes, here it has 1568") << failed->why;
    EXPECT_FALSE(sites[0].exchange->staged(begin.attempt));
}

// 27, 45: two interfaces. State moves over the one that `net.listen` names, with the port that was
// bound, and nothing listens on another.
TEST(DataScenario, DataListensOnTheNamedInterfaceAndSaysTheBoundPort) {
    net::NetConfig config;
    config.listen = {"oslo 127.0.0.2:0"};
    const auto listen = config.listen_of("oslo");
    net::Context context;
    Log log("test", LogLevel::kError);
    DataPlane::Options options{.run = net::RunId(5), .self = "oslo"};
    options.listen = listen.address;
    options.advertise = listen.advertise;
    const auto plane = DataPlane::create(
        context, options, [](const Want&) -> Served { return NoSuchItem{}; }, log);
    ASSERT_TRUE(plane) << plane.error().message;
    const std::string endpoint = (*plane)->endpoint();
    ASSERT_TRUE(endpoint.starts_with("tcp://127.0.0.2:")) << endpoint;
    const std::string port = endpoint.substr(endpoint.rfind(':') + 1);
    EXPECT_NE(port, "0");
    // The same port of another address is free.
    const auto listens = [&](const std::string& address) {
        return net::Link::listen(context, net::LinkKind::kServer, {}, address + ":" + port)
            .has_value();
    };
    EXPECT_TRUE(listens("127.0.0.1"));
    EXPECT_FALSE(listens("127.0.0.2"));
}

}  // namespace
}  // namespace isthmus::outer
