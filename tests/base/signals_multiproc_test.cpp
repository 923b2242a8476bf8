#include "base/signals.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace isthmus {
namespace {

TEST(StopFlag, FirstSignalOnlySetsTheFlag) {
    StopFlag flag;
    EXPECT_FALSE(flag.requested());
    EXPECT_EQ(flag.signal(), 0);
    ::raise(SIGINT);
    EXPECT_TRUE(flag.requested());
    EXPECT_EQ(flag.signal(), SIGINT);
    ::raise(SIGTERM);  // from a supervisor, after the terminal's Ctrl-C
    ::raise(SIGTERM);
    EXPECT_EQ(flag.signal(), SIGINT);
}

TEST(StopFlag, TermThenInterruptStillFinishesTheStep) {
    StopFlag flag;
    ::raise(SIGTERM);
    ::raise(SIGINT);
    EXPECT_EQ(flag.signal(), SIGTERM);
}

TEST(StopFlag, SecondInterruptExitsAtOnceWith130) {
    const pid_t child = ::fork();
    if (child == 0) {
        StopFlag flag;
        ::raise(SIGINT);
        if (flag.requested()) ::raise(SIGINT);
        ::_exit(1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 130);
}

TEST(StopFlag, PutsEarlierHandlersBackAndStartsAfresh) {
    { StopFlag flag; }
    struct sigaction now = {};
    ASSERT_EQ(::sigaction(SIGINT, nullptr, &now), 0);
    EXPECT_EQ(now.sa_handler, SIG_DFL);
    StopFlag again;
    EXPECT_FALSE(again.requested());
}

}  // namespace
}  // namespace isthmus
