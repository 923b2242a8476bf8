#include "base/signals.hpp"

#include <signal.h>
#include <unistd.h>

#include <atomic>

#include "base/check.hpp"
#include "base/error.hpp"

namespace isthmus {

namespace {

// A handler gets nothing but the signal's number, so what it writes has to be static. Only StopFlag
// reads it.
std::atomic<int> first_signal{0};
std::atomic<bool> interrupted{false};
std::atomic<bool> installed{false};
static_assert(std::atomic<int>::is_always_lock_free, "a handler must not take a lock");

void on_signal(int number) {
    if (number == SIGINT && interrupted.exchange(true))
        _exit(static_cast<int>(ExitCode::kInterrupted));
    int none = 0;
    first_signal.compare_exchange_strong(none, number);
}

}  // namespace

struct StopFlag::Saved {
    struct sigaction interrupt, terminate;
};

StopFlag::StopFlag() : saved_(std::make_unique<Saved>()) {
    CHECK(!installed.exchange(true), "two StopFlags in one process");
    first_signal = 0;
    interrupted = false;
    struct sigaction action = {};
    action.sa_handler = on_signal;
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESTART;  // the flag is asked for between steps; reads and writes go on
    CHECK(sigaction(SIGINT, &action, &saved_->interrupt) == 0);
    CHECK(sigaction(SIGTERM, &action, &saved_->terminate) == 0);
}

StopFlag::~StopFlag() {
    sigaction(SIGINT, &saved_->interrupt, nullptr);
    sigaction(SIGTERM, &saved_->terminate, nullptr);
    installed = false;
}

bool StopFlag::requested() const {
    return signal() != 0;
}
int StopFlag::signal() const {
    return first_signal.load();
}

}  // namespace isthmus
