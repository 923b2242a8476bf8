// The one place where exceptions end: builds what is passed down, runs the command, prints one line
// on failure.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "base/error.hpp"
#include "launch/command_line.hpp"

namespace {

// A signal handler reaches only globals; everybody else asks CommandContext::stop.
volatile std::sig_atomic_t num_signals = 0;

/// The first asks for an orderly end, of which the step in hand is part; who insists gets an
/// immediate one. Three, not two: a supervisor passes on what the terminal already sent.
void on_signal(int) {
    num_signals = num_signals + 1;
    if (num_signals >= 3) _exit(static_cast<int>(isthmus::ExitCode::kInterrupted));
}

void catch_signals() {
    struct sigaction action {};
    action.sa_handler = on_signal;
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESTART;
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
}

int fail(isthmus::ExitCode code, const char* message) {
    std::fflush(stdout);
    std::fprintf(stderr, "isthmus: %s\n", message);
    return static_cast<int>(code);
}

int run(const std::vector<std::string>& arguments) {
    using isthmus::ExitCode;
    try {
        const auto files = isthmus::posix_files();
        isthmus::Log log;
        isthmus::launch::CommandContext context{*files, log, [] { return num_signals > 0; },
                                                isatty(STDERR_FILENO) == 1};
        isthmus::launch::run_command_line(context, arguments);
        if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
            return fail(ExitCode::kResources, "stdout cannot be written: is the disk full?");
        return static_cast<int>(ExitCode::kOk);
    } catch (const isthmus::Fatal& error) {
        return fail(error.code(), error.what());
    } catch (const std::bad_alloc&) {
        return fail(ExitCode::kResources, "out of memory");
    } catch (const std::exception& error) {
        return fail(ExitCode::kInternal, error.what());
    }
}

}  // namespace

int main(int argc, char** argv) {
    catch_signals();
    return run({argv + 1, argv + argc});
}
