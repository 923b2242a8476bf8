// A whole run in one process: a coordinator and sites as threads, real sockets on loopback, models
// of a few hundred floats. Faults are made by ending a site's driver, or a coordinator, in the
// middle.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "base/random.hpp"
#include "outer/coordinator_driver.hpp"
#include "outer/site_driver.hpp"
#include "tests/support/temporary_folder.hpp"

namespace isthmus::outer::test {

using namespace std::chrono_literals;

/// f = sum of (w - target)^2 / 2 a parameter; an inner step is gradient descent with the samples'
/// noise, so every parameter depends on which samples were trained, and in what order.
class SmallModel : public ModelPort {
  public:
    explicit SmallModel(std::vector<std::int64_t> units) : units_(std::move(units)) {
        std::int64_t count = 0;
        for (auto u : units_) count += u;
        for (std::int64_t i = 0; i < count; ++i) {
            values.push_back(static_cast<float>(random_uniform(7, static_cast<std::uint64_t>(i))));
            moments.push_back(0.0f);
        }
    }
    std::uint32_t num_fragments() const override { return 1; }
    std::vector<std::int64_t> unit_elements(FragmentId) const override { return units_; }
    void read(FragmentId, std::int64_t offset, std::span<float> out) override {
        std::copy_n(values.begin() + offset, out.size(), out.begin());
    }
    void write(FragmentId, std::int64_t offset, std::span<const float> in) override {
        std::copy(in.begin(), in.end(), values.begin() + offset);
    }
    void written() override {}
    std::int64_t inner_state_bytes() const override {
        return static_cast<std::int64_t>(moments.size() * 4);
    }
    void read_inner_state(std::span<std::byte> out) override {
        std::memcpy(out.data(), moments.data(), out.size());
    }
    void write_inner_state(std::span<const std::byte> in) override {
        std::memcpy(moments.data(), in.data(), in.size());
    }
    void step(std::span<const SampleNumber> samples) {
        for (std::size_t i = 0; i < values.size(); ++i) {
            float gradient = values[i] - 0.25f;
            for (SampleNumber s : samples)
                gradient += 0.1f * static_cast<float>(random_normal(s.value, i));
            moments[i] = 0.5f * moments[i] + gradient;
            values[i] -= 0.05f * moments[i];
        }
    }
    std::vector<float> values, moments;

  private:
    std::vector<std::int64_t> units_;
};

struct SmallRun {
    std::vector<std::string> sites{"paris", "oslo"};
    std::vector<std::int64_t> meetings{2, 4, 6, 8};
    Codec codec = Codec::kFp32;
    OuterOptimizer optimizer;
    std::optional<Method> method;
    bool error_feedback = false;
    std::int64_t samples_per_step = 3;
    std::int64_t piece_elements = 256;
    std::vector<std::int64_t> units{700, 1, 0, 300};
    Budget budget{.round = 4000ms, .join = 20'000ms};
    int streams = 2;
    std::uint64_t full_digest_rounds = 2;
    std::map<std::string, std::vector<std::pair<std::string, std::string>>>
        config;  ///< of a site; else `shared`
    std::vector<std::pair<std::string, std::string>> shared{{"lr", "1"}};
    /// After each inner step of a site, on its thread. False: the site ends there, as if killed.
    std::function<bool(const std::string& site, std::int64_t step, SmallModel&)> after_step;
};

/// How one site's life ended.
struct SiteEnd {
    std::optional<StateName> finished;
    bool drained = false;
    std::string error;
    std::vector<float> values;
    std::vector<SiteDriver::RoundFigures> rounds;
};

/// Coordinator and sites of a SmallRun. Each site() runs on a thread of its own until it ends.
class Stage {
  public:
    explicit Stage(SmallRun run) : run_(std::move(run)), files_(posix_files()) {}
    ~Stage() {
        end_coordinator();
        join_sites();
    }

    /// Listens, or listens again with the journal that is there.
    void start_coordinator() {
        CoordinatorDriver::Options options;
        auto& c = options.coordinator;
        c.run = 11;
        c.sites = run_.sites;
        c.budget = run_.budget;
        c.meetings = run_.meetings;
        c.samples_per_step = run_.samples_per_step;
        c.codec = run_.codec;
        c.optimizer = run_.optimizer;
        c.method = run_.method;
        c.full_digest_rounds = run_.full_digest_rounds;
        c.config = run_.shared;
        options.journal = folder_.path() / "journal";
        options.nonce = 100 + ++coordinators_;
        options.on_commit = [this](const CommitRecord& commit, const CoordinatorState&) {
            const std::lock_guard lock(mutex_);
            commits_.push_back(commit);
            changed_.notify_all();
        };
        options.operations = [this] {
            const std::lock_guard lock(mutex_);
            return std::exchange(operations_, {});
        };
        stop_coordinator_ = false;
        auto created = CoordinatorDriver::create(context_, *files_, options, log_);
        ASSERT_TRUE(created) << created.error().message;
        coordinator_ = std::move(created).value();
        {
            const std::lock_guard lock(mutex_);
            endpoint_ = coordinator_->endpoint();
        }
        coordinator_thread_ = std::thread([this] {
            const Status status = coordinator_->run([this] { return stop_coordinator_.load(); });
            const std::lock_guard lock(mutex_);
            coordinator_end_ = status ? "" : status.error().message;
        });
    }
    /// As if it was told to stop (sites are told so).
    void end_coordinator() {
        stop_coordinator_ = true;
        if (coordinator_thread_.joinable()) coordinator_thread_.join();
        coordinator_.reset();
    }
    std::string coordinator_end() {
        if (coordinator_thread_.joinable()) coordinator_thread_.join();
        const std::lock_guard lock(mutex_);
        return coordinator_end_;
    }

    void start_site(const std::string& name) {
        const std::uint64_t life = ++lives_;
        threads_.emplace_back([this, name, life] {
            SiteEnd end = live(name, life);
            const std::lock_guard lock(mutex_);
            ends_[name].push_back(std::move(end));
            changed_.notify_all();
        });
    }
    void join_sites() {
        for (std::thread& t : threads_) t.join();
        threads_.clear();
    }
    /// Waits until the coordinator has journaled so many commits.
    bool commits(std::size_t count) {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, 30s, [&] { return commits_.size() >= count; });
    }
    void operate(Operate::What what, const std::string& site = {}) {
        const std::lock_guard lock(mutex_);
        operations_.push_back({{what, site}, [](const std::string&) {}});
    }
    std::vector<CommitRecord> commit_records() {
        const std::lock_guard lock(mutex_);
        return commits_;
    }
    /// The last life of a site. REQUIRES join_sites().
    const SiteEnd& end_of(const std::string& name) { return ends_.at(name).back(); }
    const Path& folder() const { return folder_.path(); }

  private:
    SiteEnd live(const std::string& name, std::uint64_t life) {
        SiteEnd end;
        SmallModel model(run_.units);
        net::Context context;
        Log log(name, LogLevel::kError);
        SiteDriver::Options options;
        options.run = net::RunId(11);
        options.name = name;
        options.find_coordinator = [this]() -> std::vector<std::string> {
            const std::lock_guard lock(mutex_);
            if (endpoint_.empty()) return {};
            return {endpoint_};
        };
        options.budget = run_.budget;
        options.state = {.optimizer = run_.optimizer,
                         .codec = run_.codec,
                         .error_feedback = run_.error_feedback,
                         .seed = 0};
        options.full_digest_rounds = run_.full_digest_rounds;
        options.piece_elements = run_.piece_elements;
        options.data.streams = run_.streams;
        options.incarnation = life;
        options.nonce = 1000 + life;
        options.config = run_.config.contains(name) ? run_.config.at(name) : run_.shared;
        auto started = SiteDriver::start(context, options, model, log);
        if (!started) {
            end.error = started.error().message;
            return end;
        }
        auto driver = std::move(started).value();
        auto next = driver->begin();
        std::vector<SampleNumber> samples(static_cast<std::size_t>(run_.samples_per_step));
        std::int64_t step = 0;
        while (true) {
            for (auto& round : driver->take_rounds()) end.rounds.push_back(round);
            if (!next) {
                end.error = next.error().message;
                return end;
            }
            if (const auto* work = std::get_if<SiteDriver::Work>(&*next)) step = work->from_step;
            if (const auto* finished = std::get_if<SiteDriver::Finished>(&*next)) {
                end.finished = finished->state;
                end.drained = finished->drained;
                end.values = model.values;
                const Status status = driver->finish();
                if (!status) end.error = status.error().message;
                return end;
            }
            driver->next_samples(samples);
            model.step(samples);
            ++step;
            if (run_.after_step && !run_.after_step(name, step, model)) {
                end.error = "killed";
                return end;
            }
            next = driver->after_step({.loss = 1,
                                       .seconds = 1e-3,
                                       .tokens = samples.size(),
                                       .samples = samples.size(),
                                       .skipped = false});
        }
    }

    SmallRun run_;
    isthmus::test::TemporaryFolder folder_;
    std::unique_ptr<FileSystem> files_;
    net::Context context_;
    Log log_{"coordinator", LogLevel::kError};
    std::unique_ptr<CoordinatorDriver> coordinator_;
    std::thread coordinator_thread_;
    std::atomic<bool> stop_coordinator_{false};
    std::uint64_t coordinators_ = 0;
    std::atomic<std::uint64_t> lives_{0};
    std::vector<std::thread> threads_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::string endpoint_, coordinator_end_;
    std::vector<CommitRecord> commits_;
    std::vector<CoordinatorDriver::Options::Operation> operations_;
    std::map<std::string, std::vector<SiteEnd>> ends_;
};

}  // namespace isthmus::outer::test
