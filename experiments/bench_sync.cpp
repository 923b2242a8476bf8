// One process of a measured sync: a coordinator, or a site whose "model" is a run of floats that
// takes no time to train, so that what is left is the outer loop alone. bench_sync.sh starts them
// in network namespaces and collects the lines; bench_sync.py adds limits and the peer.
//
//   bench_sync coordinator --sites 3 --codec int8 --rounds 6 --listen ADDR:0 --keys DIR --folder
//   DIR bench_sync site --name site0 ...        prints a JSON line a round
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.hpp"
#include "base/random.hpp"
#include "net/config.hpp"
#include "net/keys.hpp"
#include "net/thin_link.hpp"
#include "outer/coordinator_driver.hpp"
#include "outer/site_driver.hpp"

namespace isthmus {
namespace {

struct Arguments {
    std::string name = "site0", codec = "int8", method = "auto", listen = "127.0.0.1:0", keys,
                folder = ".";
    std::string rate, latency = "0ms";
    std::vector<std::string> rates;  ///< "site0 25mbit"
    std::int64_t sites = 2, rounds = 6, parameters = 4'951'296, streams = 2, window_mb = 8;
    double budget_s = 60;
};

/// Parameters in units of a transformer's size; a step moves every one of them a little.
class Floats : public outer::ModelPort {
  public:
    Floats(std::int64_t count, std::uint64_t site) : site_(site) {
        const std::int64_t unit = 788'992;
        for (; count > unit; count -= unit) units_.push_back(unit);
        units_.push_back(count);
        for (std::int64_t u : units_) values_.resize(values_.size() + static_cast<std::size_t>(u));
        for (std::size_t i = 0; i < values_.size(); ++i) {
            values_[i] = static_cast<float>(random_uniform(1, i)) - 0.5f;
        }
    }
    std::uint32_t num_fragments() const override { return 1; }
    std::vector<std::int64_t> unit_elements(FragmentId) const override { return units_; }
    void read(FragmentId, std::int64_t offset, std::span<float> out) override {
        std::copy_n(values_.begin() + offset, out.size(), out.begin());
    }
    void write(FragmentId, std::int64_t offset, std::span<const float> in) override {
        std::copy(in.begin(), in.end(), values_.begin() + offset);
    }
    void written() override {}
    std::int64_t inner_state_bytes() const override { return 0; }
    void read_inner_state(std::span<std::byte>) override {}
    void write_inner_state(std::span<const std::byte>) override {}
    void step(std::uint64_t number) {
        const float push = static_cast<float>(random_uniform(site_ + 2, number)) * 1e-3f;
        for (std::size_t i = 0; i < values_.size(); ++i) {
            values_[i] +=
                push *
                static_cast<float>(static_cast<std::int32_t>(i * 2654435761u + number) >> 8) *
                0x1p-24f;
        }
    }

  private:
    std::uint64_t site_;
    std::vector<std::int64_t> units_;
    std::vector<float> values_;
};

std::vector<std::string> site_names(std::int64_t sites) {
    std::vector<std::string> names;
    for (std::int64_t i = 0; i < sites; ++i) names.push_back(fmt::format("site{}", i));
    return names;
}

template <class T>
T need(Result<T> result) {
    if (!result) throw fatal(ExitCode::kResources, "{}", result.error().message);
    return std::move(result).value();
}

net::KeyPair key_of(const Arguments& a, const std::string& name) {
    if (a.keys.empty()) return {};
    return need(net::read_key_file(Path(a.keys) / (name + ".key")));
}

constexpr std::uint64_t kRun = 0x62656e6368;

void coordinate(const Arguments& a, Log& log) {
    const auto files = posix_files();
    net::Context context;
    outer::CoordinatorDriver::Options options;
    auto& c = options.coordinator;
    c.run = kRun;
    c.sites = site_names(a.sites);
    c.budget.round = std::chrono::milliseconds(static_cast<std::int64_t>(a.budget_s * 1000));
    for (std::int64_t r = 1; r <= a.rounds; ++r) c.meetings.push_back(r);
    c.codec = need(outer::codec_named(a.codec));
    if (a.method == "owners") c.method = outer::Method::kOwners;
    if (a.method == "all-gather") c.method = outer::Method::kAllGather;
    c.full_digest_rounds = 0;
    for (const std::string& rate : a.rates) {
        const auto space = rate.find(' ');
        c.rates[rate.substr(0, space)] =
            static_cast<double>(net::parse_rate(rate.substr(space + 1), "--rates")) / 8.0;
    }
    options.listen = a.listen;
    options.keys = key_of(a, "coordinator");
    options.journal = Path(a.folder) / "journal";
    options.nonce = random_bits(static_cast<std::uint64_t>(::getpid()), kRun);
    if (!a.keys.empty()) {
        options.allowlist = [&] {
            const Path file = Path(a.keys) / "authorized_keys";
            return net::allowlist_of(
                need(net::parse_authorized_keys(need(read_text(*files, file)), file.string())));
        };
    }
    auto driver = need(outer::CoordinatorDriver::create(context, *files, options, log));
    need(replace_file(*files, Path(a.folder) / "address", driver->endpoint() + "\n"));
    need(driver->run({}));
}

/// Emulated links, each with a thread; end with the process's work.
class Links {
  public:
    ~Links() {
        stop_ = true;
        for (std::thread& t : threads_) t.join();
    }
    std::string through(const std::string& endpoint, const net::ShaperConfig& shape) {
        const auto colon = endpoint.rfind(':');
        links_.push_back(std::make_unique<net::ThinLink>(net::ThinLinkOptions{
            .to_host = endpoint.substr(6, colon - 6),
            .to_port = static_cast<std::uint16_t>(std::stoi(endpoint.substr(colon + 1))),
            .shape = shape}));
        threads_.emplace_back(
            [this, link = links_.back().get()] { link->run([this] { return stop_.load(); }); });
        return fmt::format("tcp://127.0.0.1:{}", links_.back()->port());
    }

  private:
    std::atomic<bool> stop_{false};
    std::vector<std::unique_ptr<net::ThinLink>> links_;
    std::vector<std::thread> threads_;
};

void train(const Arguments& a, Log& log) {
    const auto files = posix_files();
    const auto number = static_cast<std::uint64_t>(std::stoi(a.name.substr(4)));
    Floats model(a.parameters, number);
    Links links;
    net::Context context;
    outer::SiteDriver::Options options;
    options.run = net::RunId(kRun);
    options.name = a.name;
    options.find_coordinator = [&]() -> std::vector<std::string> {
        const auto text = read_text(*files, Path(a.folder) / "address");
        if (!text || text->empty()) return {};
        return {text->substr(0, text->size() - 1)};
    };
    if (!a.keys.empty()) {
        const net::KeyPair coordinator = key_of(a, "coordinator");
        options.coordinator_key = coordinator.public_key;
    }
    options.budget.round = std::chrono::milliseconds(static_cast<std::int64_t>(a.budget_s * 1000));
    options.state = {.optimizer = {},
                     .codec = need(outer::codec_named(a.codec)),
                     .error_feedback = false,
                     .seed = 0};
    options.full_digest_rounds = 0;
    options.data.listen = a.listen;
    options.data.keys = key_of(a, a.name);
    options.data.streams = static_cast<int>(a.streams);
    options.data.window_bytes = static_cast<std::size_t>(a.window_mb) << 20;
    options.incarnation = number + 1;
    options.nonce = random_bits(static_cast<std::uint64_t>(::getpid()), number);
    if (!a.rate.empty()) {
        const net::ShaperConfig shape{.bits_per_second = net::parse_rate(a.rate, "--rate"),
                                      .latency = net::parse_duration(a.latency, "--latency"),
                                      .jitter = std::chrono::nanoseconds(0),
                                      .outage = {},
                                      .seed = 0};
        options.data.route = [&, shape](const outer::PeerInfo& peer) {
            return links.through(peer.endpoint, shape);
        };
        options.route_coordinator = [&, shape](const std::string& endpoint) {
            return links.through(endpoint, shape);
        };
    }
    auto driver = need(outer::SiteDriver::start(context, options, model, log));
    auto next = need(driver->begin());
    std::uint64_t step = 0;
    std::vector<SampleNumber> samples(1);
    while (!std::holds_alternative<outer::SiteDriver::Finished>(next)) {
        driver->next_samples(samples);
        model.step(step++);
        next = need(driver->after_step(
            {.loss = 1, .seconds = 1e-3, .tokens = 1, .samples = 1, .skipped = false}));
        for (const auto& round : driver->take_rounds()) {
            rusage usage{};
            getrusage(RUSAGE_SELF, &usage);
            const double cpu =
                static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
            const nlohmann::json line{{"site", a.name},
                                      {"round", round.round.value},
                                      {"seconds", round.figures.exchange_s + round.figures.wait_s -
                                                      round.barrier_s + round.figures.apply_s},
                                      {"exchange_s", round.figures.exchange_s},
                                      {"apply_s", round.figures.apply_s},
                                      {"bytes_sent", round.figures.bytes_sent},
                                      {"bytes_received", round.figures.bytes_received},
                                      {"attempts", round.attempts},
                                      {"held_bytes", round.bytes_held_peak},
                                      {"cpu_s", cpu},
                                      {"peak_bytes", usage.ru_maxrss * 1024},
                                      {"state", outer::hex(round.state.hash)}};
            std::printf("%s\n", line.dump().c_str());
            std::fflush(stdout);
        }
    }
    need(driver->finish());
}

}  // namespace
}  // namespace isthmus

int main(int argc, char** argv) {
    using namespace isthmus;
    CLI::App app("measures the outer loop without a model; see bench_sync.sh");
    Arguments a;
    CLI::App* coordinator = app.add_subcommand("coordinator");
    CLI::App* site = app.add_subcommand("site");
    app.require_subcommand(1);
    for (CLI::App* command : {coordinator, site}) {
        command->add_option("--name", a.name);
        command->add_option("--sites", a.sites);
        command->add_option("--rounds", a.rounds);
        command->add_option("--codec", a.codec);
        command->add_option("--method", a.method);
        command->add_option("--parameters", a.parameters);
        command->add_option("--listen", a.listen, "ADDRESS:PORT");
        command->add_option("--keys", a.keys, "folder; without it nothing is encrypted");
        command->add_option("--folder", a.folder, "shared by all");
        command->add_option("--rate", a.rate, "emulated link, with --latency");
        command->add_option("--latency", a.latency);
        command->add_option("--rates", a.rates, "\"site0 25mbit\": configured rates");
        command->add_option("--streams", a.streams);
        command->add_option("--window-mb", a.window_mb);
        command->add_option("--budget-s", a.budget_s);
    }
    CLI11_PARSE(app, argc, argv);
    Log log(site->parsed() ? a.name : "coordinator", LogLevel::kWarn);
    try {
        site->parsed() ? train(a, log) : coordinate(a, log);
    } catch (const Fatal& e) {
        std::fprintf(stderr, "bench_sync: %s: %s\n", a.name.c_str(), e.what());
        return 1;
    }
}
