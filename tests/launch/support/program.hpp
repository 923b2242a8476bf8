// Our program as a child process: what it says, how it ends, who its children are.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <sstream>

#include "base/check.hpp"
#include "base/process.hpp"

namespace isthmus::test {

/// A bound for what takes a second on an idle machine.
inline constexpr std::chrono::seconds kSoon{60};

/// A program of ours and what it has written so far.
class Program {
  public:
    using Environment = std::vector<std::pair<std::string, std::string>>;
    explicit Program(std::vector<std::string> arguments, Environment environment = {}) {
        environment.emplace_back("OMP_NUM_THREADS", "1");
        auto started = ChildProcess::start({.program = ISTHMUS_PROGRAM,
                                            .arguments = std::move(arguments),
                                            .environment = std::move(environment),
                                            .on_line = [this](std::string_view line) {
                                                const std::lock_guard lock(mutex_);
                                                text_ += std::string(line) + "\n";
                                                changed_.notify_all();
                                            }});
        CHECK(started, "{}", started.error().message);
        process_ = std::move(started).value();
    }
    /// Waits until it has written this.
    testing::AssertionResult says(const std::string& what) {
        std::unique_lock lock(mutex_);
        const bool said =
            changed_.wait_for(lock, kSoon, [&] { return text_.find(what) != std::string::npos; });
        if (said) return testing::AssertionSuccess();
        return testing::AssertionFailure() << "no \"" << what << "\" in:\n" << text_;
    }
    ExitStatus end() {
        const auto status = process_->wait_within(kSoon);
        if (status) return *status;
        ADD_FAILURE() << "still running after " << kSoon.count() << " s:\n" << text();
        return process_->stop_within(std::chrono::milliseconds(0));
    }
    std::string text() {
        const std::lock_guard lock(mutex_);
        return text_;
    }
    std::string last_line() {
        std::istringstream lines(text());
        std::string last;
        for (std::string line; std::getline(lines, line);) last = line;
        return last;
    }
    ChildProcess& process() { return *process_; }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::string text_;
    std::unique_ptr<ChildProcess> process_;
};

inline std::string read_proc(int pid, const std::string& what) {
    std::ifstream file(fmt::format("/proc/{}/{}", pid, what), std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    std::string out = text.str();
    std::replace(out.begin(), out.end(), '\0', ' ');
    return out;
}

/// Children of any of a process's threads.
inline std::vector<int> children_of(int pid) {
    std::vector<int> children;
    for (const auto& task :
         std::filesystem::directory_iterator(fmt::format("/proc/{}/task", pid))) {
        std::ifstream file(task.path() / "children");
        for (int child = 0; file >> child;) children.push_back(child);
    }
    return children;
}

/// The child of `pid` whose command line contains `what`.
inline int child_with(int pid, const std::string& what) {
    for (int child : children_of(pid)) {
        if (read_proc(child, "cmdline").find(what) != std::string::npos) return child;
    }
    ADD_FAILURE() << "no child of " << pid << " with " << what;
    return 0;
}

/// Whether all have ended, within a bound.
inline testing::AssertionResult all_gone(const std::vector<int>& pids) {
    for (int pid : pids) {
        const auto descriptor = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
        if (descriptor < 0) continue;  // gone
        pollfd waited{.fd = descriptor, .events = POLLIN, .revents = 0};
        const int ended =
            ::poll(&waited, 1, static_cast<int>(kSoon / std::chrono::milliseconds(1)));
        ::close(descriptor);
        if (ended != 1) {
            return testing::AssertionFailure() << pid << " lives: " << read_proc(pid, "cmdline");
        }
    }
    return testing::AssertionSuccess();
}

}  // namespace isthmus::test
