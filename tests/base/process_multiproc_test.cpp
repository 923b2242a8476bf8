#include "base/process.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>

namespace isthmus {
namespace {

using namespace std::chrono_literals;
constexpr auto kSoon = 20s;  // a bound for what takes milliseconds on an idle machine

class Lines {
  public:
    std::function<void(std::string_view)> sink() {
        return [this](std::string_view line) {
            const std::lock_guard lock(mutex_);
            all.emplace_back(line);
            changed_.notify_all();
        };
    }
    bool wait_for_one() {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, kSoon, [&] { return !all.empty(); });
    }
    std::vector<std::string> all;  ///< read it after the child's end

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
};

std::unique_ptr<ChildProcess> shell(const std::string& script, Lines* lines = nullptr) {
    ProcessSpec spec{.program = "/bin/sh", .arguments = {"-c", script}};
    if (lines) spec.on_line = lines->sink();
    auto child = ChildProcess::start(std::move(spec));
    EXPECT_TRUE(child) << child.error().message;
    return std::move(child).value();
}

TEST(Process, OutputOfBothStreamsThenExitCode) {
    Lines lines;
    auto child = shell("echo one; echo two >&2; printf three; exit 3", &lines);
    const auto status = child->wait_within(kSoon);
    ASSERT_TRUE(status);
    EXPECT_EQ(status->code, 3);
    EXPECT_EQ(status->text(), "exit code 3");
    EXPECT_FALSE(status->ok());
    EXPECT_EQ(lines.all, (std::vector<std::string>{"one", "two", "three"}));
}

TEST(Process, MuchOutputArrivesWholeBeforeTheStatus) {
    Lines lines;
    auto child = shell("i=0; while [ $i -lt 5000 ]; do echo line $i; i=$((i+1)); done", &lines);
    ASSERT_TRUE(child->wait_within(kSoon));
    ASSERT_EQ(lines.all.size(), 5000u);
    EXPECT_EQ(lines.all[4321], "line 4321");
}

TEST(Process, VeryLongLinesComeInPieces) {
    Lines lines;
    auto child = shell("head -c 150000 /dev/zero | tr '\\0' x; echo; echo end", &lines);
    ASSERT_TRUE(child->wait_within(kSoon));
    ASSERT_EQ(lines.all.size(), 4u);
    EXPECT_EQ(lines.all[0].size(), 65536u);
    EXPECT_EQ(lines.all[0].size() + lines.all[1].size() + lines.all[2].size(), 150000u);
    EXPECT_EQ(lines.all[3], "end");
}

TEST(Process, EnvironmentIsAddedAndReplaced) {
    Lines lines;
    ::setenv("ISTHMUS_TEST_A", "ours", 1);
    ::setenv("ISTHMUS_TEST_B", "kept", 1);
    ProcessSpec spec{.program = "/bin/sh",
                     .arguments = {"-c", "echo $ISTHMUS_TEST_A $ISTHMUS_TEST_B $ISTHMUS_TEST_C"},
                     .environment = {{"ISTHMUS_TEST_A", "theirs"}, {"ISTHMUS_TEST_C", "new"}},
                     .on_line = lines.sink()};
    auto child = ChildProcess::start(std::move(spec));
    ASSERT_TRUE(child);
    ASSERT_TRUE((*child)->wait_within(kSoon));
    EXPECT_EQ(lines.all, std::vector<std::string>{"theirs kept new"});
}

TEST(Process, StdinIsEmpty) {
    Lines lines;
    auto child = shell("cat; echo done", &lines);
    ASSERT_TRUE(child->wait_within(kSoon));
    EXPECT_EQ(lines.all, std::vector<std::string>{"done"});
}

TEST(Process, MissingProgramIsAnError) {
    auto child = ChildProcess::start({.program = "/absent/program", .arguments = {}});
    ASSERT_FALSE(child);
    EXPECT_EQ(child.error().message,
              "cannot start /absent/program: No such file or directory (errno 2)");
}

TEST(Process, WaitHasABound) {
    auto child = shell("exec sleep 600");
    EXPECT_FALSE(child->wait_within(10ms));
    EXPECT_EQ(::kill(child->pid(), 0), 0);
}

TEST(Process, StopAsksFirst) {
    Lines lines;
    // `wait` lets the shell take the signal at once.
    auto child = shell("trap 'echo asked; exit 7' TERM; echo ready; sleep 600 & wait", &lines);
    ASSERT_TRUE(lines.wait_for_one());
    EXPECT_EQ(child->stop_within(kSoon).text(), "exit code 7");
    EXPECT_EQ(lines.all, (std::vector<std::string>{"ready", "asked"}));
}

TEST(Process, StopKillsWhoDoesNotListen) {
    Lines lines;
    auto child = shell("trap '' TERM; echo ready; while :; do sleep 600; done", &lines);
    ASSERT_TRUE(lines.wait_for_one());
    EXPECT_EQ(child->stop_within(20ms).text(), "killed by signal 9 (Killed)");
    child->send(SIGTERM);  // nothing, and nobody else is hit
}

/// True once nobody holds the pipe's other end any more.
bool closes_soon(int fd) {
    pollfd poll_fd{fd, 0, 0};  // only POLLHUP
    return ::poll(&poll_fd, 1, 20000) == 1;
}

TEST(Process, DestructorEndsTheChildAndItsChildren) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);  // inherited by the child and by its own children
    {
        auto child = shell("sleep 600 & sleep 600");
        ::close(ends[1]);
    }
    EXPECT_TRUE(closes_soon(ends[0])) << "a grandchild is still alive";
    ::close(ends[0]);
}

TEST(Process, ADeadChildsChildrenEndWithIt) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    Lines lines;
    auto child = shell("sleep 600 & echo gone", &lines);
    ::close(ends[1]);
    ASSERT_TRUE(child->wait_within(kSoon)) << "a grandchild that holds the output must not block";
    EXPECT_TRUE(closes_soon(ends[0]));
    ::close(ends[0]);
}

TEST(Process, DiesWithItsParent) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t parent = ::fork();
    if (parent == 0) {
        auto child = ChildProcess::start({.program = "/bin/sleep", .arguments = {"600"}});
        ::raise(child ? SIGKILL : SIGABRT);  // no destructor, no handler
    }
    ::close(ends[1]);
    int status = 0;
    ASSERT_EQ(::waitpid(parent, &status, 0), parent);
    EXPECT_EQ(WTERMSIG(status), SIGKILL);
    EXPECT_TRUE(closes_soon(ends[0])) << "the child outlived its parent";
    ::close(ends[0]);
}

TEST(Process, CtrlCInTheTerminalDoesNotReachTheChild) {
    auto child = shell("exec sleep 600");
    EXPECT_EQ(::getpgid(child->pid()), child->pid());
    EXPECT_NE(::getpgid(child->pid()), ::getpgrp());
}

}  // namespace
}  // namespace isthmus
