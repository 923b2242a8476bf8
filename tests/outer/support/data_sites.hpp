// Sites of one process that exchange over real sockets on loopback, driven by one loop: what a
// site's network thread does, without the step functions.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>

#include "base/random.hpp"
#include "outer/exchange.hpp"
#include "outer/outer_step.hpp"
#include "outer/state_transfer.hpp"
#include "tests/outer/support/vector_port.hpp"

namespace isthmus::outer::test {

using namespace std::chrono_literals;

/// With some inner state.
class PortWithMoments : public VectorPort {
  public:
    using VectorPort::VectorPort;
    std::int64_t inner_state_bytes() const override {
        return static_cast<std::int64_t>(moments.size());
    }
    void read_inner_state(std::span<std::byte> out) override {
        std::copy(moments.begin(), moments.end(), out.begin());
    }
    void write_inner_state(std::span<const std::byte> in) override {
        moments.assign(in.begin(), in.end());
    }
    std::vector<std::byte> moments;
};

struct SitesOptions {
    std::uint32_t sites = 2;
    Codec codec = Codec::kFp32;
    OuterOptimizer optimizer = {};
    std::vector<std::int64_t> units{3000, 129, 5000};
    std::int64_t piece_elements = 512;
    std::size_t inner_bytes = 0;
    int streams = 2;
    std::size_t window_bytes = 64 << 10;
    std::size_t cache_bytes = 1 << 20;
    std::chrono::milliseconds ask_again = 200ms, silence = 3000ms;
    /// Answers are held back and shuffled with this seed; 0: they are taken as they come.
    std::uint64_t disorder = 0;
    std::function<std::string(SiteId from, const PeerInfo& to)> route = {};
};

struct DataSite {
    DataSite(const SitesOptions& o, std::uint32_t number, net::Context& context, Log& log)
        : id(number),
          layout(o.units, o.piece_elements),
          port(o.units, start_values(layout)),
          state(layout, {.optimizer = o.optimizer, .codec = o.codec, .seed = 11}, port),
          donor(layout) {
        port.moments.resize(o.inner_bytes);
        DataPlane::Options options{.run = net::RunId(5), .self = name()};
        options.streams = o.streams;
        options.window_bytes = o.window_bytes;
        options.ask_again = o.ask_again;
        if (o.route) {
            options.route = [route = o.route, me = id](const PeerInfo& p) { return route(me, p); };
        }
        auto plane = DataPlane::create(
            context, options, [this](const Want& w) { return serve(w); }, log);
        CHECK(plane.has_value());
        data = std::move(*plane);
        exchange = std::make_unique<RoundExchange>(
            state, port, *data,
            RoundExchange::Options{.peer_silence = o.silence, .cache_bytes = o.cache_bytes});
        fetch = std::make_unique<StateFetch>(state, port, *data, o.silence);
    }

    static std::vector<float> start_values(const FragmentLayout& layout) {
        std::vector<float> values(static_cast<std::size_t>(layout.num_elements()));
        for (std::size_t i = 0; i < values.size(); ++i)
            values[i] = static_cast<float>(random_normal(3, i));
        return values;
    }
    std::string name() const { return fmt::format("site{}", id.value); }
    PeerInfo info() const { return {id, name(), data->endpoint(), ""}; }
    CutId cut() const { return {.site = id, .incarnation = 1, .counter = cuts}; }

    /// Moves the parameters, as training does, and offers the cut.
    void train() {
        ++cuts;
        for (std::size_t i = 0; i < port.values.size(); ++i) {
            port.values[i] +=
                0.1f * static_cast<float>(random_normal(100 * (id.value + 1) + cuts, i));
        }
        exchange->offer(cut());
    }
    Served serve(const Want& w) {
        ++served;
        const bool round =
            std::holds_alternative<CutItem>(w.item) || std::holds_alternative<MeanItem>(w.item);
        return round ? exchange->serve(w) : donor.serve(w);
    }

    SiteId id;
    FragmentLayout layout;
    PortWithMoments port;
    OuterState state;
    Donor donor;
    std::unique_ptr<DataPlane> data;
    std::unique_ptr<RoundExchange> exchange;
    std::unique_ptr<StateFetch> fetch;
    std::uint64_t cuts = 0, served = 0;
    bool alive = true;  ///< false: its loop stands, as a dead process's does
    std::optional<SiteEvent> outcome, fetched;
    std::vector<DataPlane::Arrived> held;
};

class DataSites {
  public:
    explicit DataSites(const SitesOptions& o) : options(o) {
        for (std::uint32_t i = 0; i < o.sites; ++i)
            sites.push_back(std::make_unique<DataSite>(o, i, context_, log_));
        connect();
    }
    DataSite& operator[](std::size_t i) { return *sites[i]; }

    void connect() {
        for (const auto& site : sites) {
            std::vector<PeerInfo> peers;
            for (const auto& other : sites) {
                if (other->id != site->id) peers.push_back(other->info());
            }
            site->data->set_peers(peers);
        }
    }

    /// Turns the loop until `done`; false after a bound that is far beyond what it takes.
    bool run_until(const std::function<bool()>& done) {
        const auto end = std::chrono::steady_clock::now() + 60s;
        while (!done()) {
            if (std::chrono::steady_clock::now() > end) return false;
            turn();
        }
        return true;
    }

    void turn() {
        bool busy = false;
        std::vector<net::Interest> interests;
        for (const auto& s : sites) {
            if (!s->alive) continue;
            busy = pump(*s) || busy;
            s->data->add_interests(interests);
        }
        net::wait(interests, nullptr, busy ? 0ms : 20ms);
    }

    /// All alive sites begin; `done` when each has its outcome.
    bool exchange(const Begin& begin) {
        for (const auto& s : sites) {
            s->outcome.reset();
            if (takes_part(begin, s->id) && s->alive)
                s->exchange->begin(begin, s->id, std::chrono::steady_clock::now());
        }
        return run_until([&] {
            return std::all_of(sites.begin(), sites.end(), [&](const auto& s) {
                return !s->alive || !takes_part(begin, s->id) || s->outcome;
            });
        });
    }

    static bool takes_part(const Begin& begin, SiteId id) {
        return std::any_of(begin.participants.begin(), begin.participants.end(),
                           [&](const Participant& p) { return p.peer.site == id; });
    }

    /// An attempt of these sites; weights 1, 2, 3, ... of the site's number, equal shares.
    Begin begin(Method method, const std::vector<std::uint32_t>& who, std::uint32_t counter = 1) {
        Begin b;
        b.attempt.coordinator = 1;
        b.attempt.counter = counter;
        b.from = sites[who[0]]->state.name();
        b.codec = options.codec;
        b.optimizer = options.optimizer;
        b.method = method;
        b.seed = 11;
        for (std::uint32_t i : who) {
            b.participants.push_back({.peer = sites[i]->info(),
                                      .cut = sites[i]->cut(),
                                      .weight = static_cast<float>(i + 1),
                                      .share = 1.0f / static_cast<float>(who.size())});
        }
        return b;
    }

    /// The encoded mean's decoded values, by piece, as its definition says: decode(encode(x)) of
    /// every site, weighted, in ascending order; encoded once more by owners.
    std::vector<float> expected_mean(const Begin& b) {
        std::vector<float> mean;
        const FragmentLayout& layout = sites[0]->layout;
        for (std::uint32_t i = 0; i < layout.num_pieces(); ++i) {
            const Piece& piece = layout.piece(i);
            const auto n = static_cast<std::size_t>(piece.count);
            std::vector<float> sum(n, 0.0f), x(n);
            std::vector<std::byte> bytes(encoded_bytes(b.codec, piece.count));
            std::vector<float> weights;
            for (const Participant& p : b.participants) {
                if (p.weight == 0) continue;
                DataSite& s = *sites[p.peer.site.value];
                s.state.encode_input(i, s.id, s.port, bytes);
                decode(b.codec, bytes, x);
                for (std::size_t k = 0; k < n; ++k) sum[k] += p.weight * x[k];
                weights.push_back(p.weight);
            }
            for (float& v : sum) v /= total_weight(weights);
            if (b.method == Method::kOwners) {
                encode(b.codec, sum, rounding_key(b.seed, b.from.round, FragmentId(0), kMeanSite),
                       piece.offset, bytes);
                decode(b.codec, bytes, sum);
            }
            mean.insert(mean.end(), sum.begin(), sum.end());
        }
        return mean;
    }

    static std::vector<float> mean_of(const RoundResult& result, const FragmentLayout& layout) {
        std::vector<float> mean(static_cast<std::size_t>(layout.num_elements()));
        std::vector<float> scratch(mean.size());
        for (std::uint32_t i = 0; i < layout.num_pieces(); ++i) {
            const auto out =
                std::span(mean).subspan(static_cast<std::size_t>(layout.piece(i).offset),
                                        static_cast<std::size_t>(layout.piece(i).count));
            result.mean(i, out, scratch);
        }
        return mean;
    }

    SitesOptions options;

  private:
    bool pump(DataSite& s) {
        const auto now = std::chrono::steady_clock::now();
        auto arrived = in_disorder(s, s.data->pump(now));
        arrived = s.exchange->pump(std::move(arrived), now);
        arrived = s.fetch->pump(std::move(arrived), now);
        EXPECT_TRUE(arrived.empty());
        const bool more = s.exchange->encode_ahead();
        if (auto outcome = s.exchange->take_outcome()) s.outcome = std::move(outcome);
        if (auto fetched = s.fetch->take_outcome()) s.fetched = std::move(fetched);
        return more || s.data->busy() || !s.held.empty();
    }

    /// Holds back a random part and shuffles the rest.
    std::vector<DataPlane::Arrived> in_disorder(DataSite& s, std::vector<DataPlane::Arrived> a) {
        if (options.disorder == 0) return a;
        for (auto& item : a) s.held.push_back(std::move(item));
        std::vector<DataPlane::Arrived> now;
        for (std::size_t i = 0; i < s.held.size();) {
            if (random_uniform(options.disorder, draws_++) < 0.3) {
                std::swap(s.held[i], s.held.back());
                now.push_back(std::move(s.held.back()));
                s.held.pop_back();
            } else {
                ++i;
            }
        }
        return now;
    }

    net::Context context_;
    Log log_{"test", LogLevel::kError};
    std::uint64_t draws_ = 0;

  public:
    std::vector<std::unique_ptr<DataSite>> sites;
};

}  // namespace isthmus::outer::test
