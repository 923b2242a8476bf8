#include "outer/site_driver.hpp"

#include <thread>

#include "base/check.hpp"
#include "outer/samples.hpp"
#include "outer/site_network.hpp"

namespace isthmus::outer {

namespace {

constexpr std::chrono::milliseconds kAskStop{200};

}  // namespace

/// What the training thread owns.
struct SiteDriver::Impl {
    Impl(const Options& o, ModelPort& p, Log& l) : options(o), port(p), log(l) {}

    Options options;
    ModelPort& port;
    Log& log;
    SiteShared shared;
    std::unique_ptr<SiteNetwork> network;
    std::thread thread;
    SampleCursor cursor;
    std::optional<End> end;

    std::int64_t step = 0;  ///< of the run, made
    std::int64_t left = 0;  ///< to make before the next meeting
    Meeting meeting;
    std::int64_t interval_steps = 0;
    std::uint64_t tokens = 0;  ///< trained since a commit counted
    std::uint64_t interval_tokens = 0;
    double interval_s = 0, loss = 0;

    Result<Next> lend(std::optional<Cut> cut) {
        shared.commands.put(Lend{step, std::move(cut)});
        while (true) {
            if (auto reply = shared.replies.take_within(kAskStop)) return take(std::move(*reply));
            if (options.stop && options.stop()) {
                quit("interrupted");
                return Error{"interrupted"};
            }
        }
    }

    Result<Next> take(SiteReply reply) {
        if (auto* e = std::get_if<End>(&reply)) {
            end = *e;
            return Error{e->reason};
        }
        if (auto* finished = std::get_if<FinishedReply>(&reply)) return Next(finished->finished);
        const WorkReply& work = std::get<WorkReply>(reply);
        if (work.void_samples) {
            cursor.reset();
            tokens = 0;
        }
        if (work.counted) {
            cursor.taken_over();
            tokens = 0;
        }
        cursor.grant(work.assignment.samples);
        step = work.assignment.from_step;
        left = work.assignment.num_steps;
        meeting = work.assignment.meeting;
        shared.step = step;
        interval_steps = 0;
        interval_tokens = 0;
        interval_s = 0;
        return Next(Work{.from_step = step, .num_steps = left, .changed = work.changed});
    }

    Cut cut() {
        Cut cut{.trained = cursor.trained(),
                .skipped = cursor.skipped(),
                .tokens = tokens,
                .figures = {},
                .full_digest = {}};
        cut.figures.steps_per_s =
            interval_s > 0 ? static_cast<double>(interval_steps) / interval_s : 0;
        cut.figures.tokens_per_s =
            interval_s > 0 ? static_cast<double>(interval_tokens) / interval_s : 0;
        cut.figures.loss = loss;
        cut.figures.train_s = interval_s;
        return cut;
    }

    Result<Next> after_step(const StepFigures& f) {
        if (end) return Error{end->reason};
        CHECK(left > 0, "a step beyond the assignment");
        ++step;
        --left;
        ++interval_steps;
        interval_s += f.seconds;
        loss = f.loss;
        if (f.skipped) {
            cursor.mark_skipped(f.samples);
        } else {
            tokens += f.tokens;
            interval_tokens += f.tokens;
        }
        shared.step = step;
        shared.loss = loss;
        shared.tokens_per_s = f.seconds > 0 ? static_cast<double>(f.tokens) / f.seconds : 0;
        shared.steps.fetch_add(1);
        if (shared.want_inner.exchange(false)) {
            InnerCopy copy{
                .bytes = std::vector<std::byte>(static_cast<std::size_t>(port.inner_state_bytes())),
                .step = step};
            port.read_inner_state(copy.bytes);
            shared.commands.put(std::move(copy));
        }
        if (options.on_phase) options.on_phase(left == 0 ? "cut" : "training", meeting.value);
        if (left == 0) return lend(cut());
        if (shared.hold) return lend(std::nullopt);
        return Next(GoOn{});
    }

    void quit(const std::string& reason) {
        if (end) return;
        shared.commands.put(Quit{reason});
        // The thread answers at once, or has ended for another reason already.
        while (!end) {
            if (auto reply = shared.replies.take_within(kAskStop)) {
                if (const auto* e = std::get_if<End>(&*reply)) end = *e;
            }
        }
    }
};

SiteDriver::SiteDriver(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<SiteDriver>> SiteDriver::start(net::Context& context, const Options& options,
                                                      ModelPort& port, Log& log) {
    CHECK(port.num_fragments() == 1, "several fragments are not exchanged yet");
    auto impl = std::make_unique<Impl>(options, port, log);
    auto network = SiteNetwork::create(context, impl->options, port, impl->shared, log);
    if (!network) return network.error();
    impl->network = std::move(*network);
    impl->thread = std::thread([n = impl->network.get()] { n->run(); });
    return std::unique_ptr<SiteDriver>(new SiteDriver(std::move(impl)));
}

SiteDriver::~SiteDriver() {
    impl_->quit("it failed");
    impl_->thread.join();
}

Result<SiteDriver::Next> SiteDriver::begin() {
    if (impl_->end) return Error{impl_->end->reason};
    return impl_->lend(std::nullopt);
}

void SiteDriver::next_samples(std::span<SampleNumber> out) {
    impl_->cursor.next(out);
}

Result<SiteDriver::Next> SiteDriver::after_step(const StepFigures& figures) {
    return impl_->after_step(figures);
}

std::vector<SiteDriver::RoundFigures> SiteDriver::take_rounds() {
    const std::lock_guard lock(impl_->shared.rounds_mutex);
    return std::exchange(impl_->shared.rounds, {});
}

Status SiteDriver::finish() {
    if (!impl_->end) {
        impl_->shared.commands.put(Finish{});
        while (!impl_->end) {
            if (auto reply = impl_->shared.replies.take_within(kAskStop)) {
                if (const auto* e = std::get_if<End>(&*reply)) impl_->end = *e;
            } else if (impl_->options.stop && impl_->options.stop()) {
                impl_->quit("interrupted");
            }
        }
    }
    if (!impl_->end->good) return Error{impl_->end->reason};
    return Done{};
}

void SiteDriver::quit(const std::string& reason) {
    impl_->quit(reason);
}

}  // namespace isthmus::outer
