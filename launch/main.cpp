// The one place where exceptions end: builds what is passed down, runs the command, prints one line
// on failure.
#include <unistd.h>

#include <cstdio>
#include <new>

#include "base/error.hpp"
#include "base/signals.hpp"
#include "launch/command_line.hpp"

namespace {

int fail(isthmus::ExitCode code, const char* message) {
    std::fflush(stdout);
    std::fprintf(stderr, "isthmus: %s\n", message);
    return static_cast<int>(code);
}

int run(const isthmus::StopFlag& stop, const std::vector<std::string>& arguments) {
    using isthmus::ExitCode;
    try {
        const auto files = isthmus::posix_files();
        isthmus::Log log;
        isthmus::launch::CommandContext context{*files, log, [&] { return stop.requested(); },
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
    const isthmus::StopFlag stop;
    return run(stop, {argv + 1, argv + argc});
}
