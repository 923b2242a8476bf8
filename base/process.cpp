// fork and exec by hand: posix_spawn cannot set PR_SET_PDEATHSIG, and that is what makes sure that
// no child outlives us. Between fork and exec only async-signal-safe calls are made.
#include "base/process.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/check.hpp"
#include "base/descriptor.hpp"

namespace isthmus {

namespace {

constexpr std::size_t kLongestLineBytes = 64 << 10;

struct Pipe {
    Descriptor read, write;
};

Result<Pipe> make_pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
        return Error{fmt::format("cannot make a pipe: {}", std::generic_category().message(errno))};
    return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

/// Cuts a stream of bytes into lines.
class LineCutter {
  public:
    explicit LineCutter(const std::function<void(std::string_view)>& on_line) : on_line_(on_line) {}
    void take(std::string_view bytes) {
        rest_ += bytes;
        std::size_t start = 0;
        for (;;) {
            const std::size_t end = rest_.find('\n', start);
            const std::size_t length = (end == std::string::npos ? rest_.size() : end) - start;
            if (end == std::string::npos && length < kLongestLineBytes) break;
            const std::size_t piece = std::min(length, kLongestLineBytes);
            on_line_(std::string_view(rest_).substr(start, piece));
            start += piece;
            if (start < rest_.size() && start == end) ++start;
        }
        rest_.erase(0, start);
    }
    void end() {
        if (!rest_.empty()) on_line_(rest_);
        rest_.clear();
    }

  private:
    const std::function<void(std::string_view)>& on_line_;
    std::string rest_;
};

/// Everything the child needs between fork and exec, made before the fork.
struct ExecPlan {
    std::string program;
    std::vector<std::string> words, variables;
    std::vector<char*> argv, envp;
    int null_fd, output_fd, error_fd;  ///< output_fd -1: inherit
    pid_t parent;
};

std::vector<char*> pointers(std::vector<std::string>& words) {
    std::vector<char*> result;
    for (auto& word : words) result.push_back(word.data());
    result.push_back(nullptr);
    return result;
}

std::vector<std::string> merged_environment(
    const std::vector<std::pair<std::string, std::string>>& added) {
    std::vector<std::string> result;
    for (char** entry = environ; *entry; ++entry) {
        const std::string_view text(*entry);
        const std::string_view name = text.substr(0, text.find('='));
        const auto replaced = [&](const auto& pair) { return pair.first == name; };
        if (std::none_of(added.begin(), added.end(), replaced)) result.emplace_back(text);
    }
    for (const auto& [name, value] : added) result.push_back(name + "=" + value);
    return result;
}

[[noreturn]] void run_child(const ExecPlan& plan) {
    struct sigaction standard = {};
    standard.sa_handler = SIG_DFL;
    for (const int number : {SIGINT, SIGTERM, SIGPIPE}) ::sigaction(number, &standard, nullptr);
    sigset_t none;
    sigemptyset(&none);
    bool ready = ::setpgid(0, 0) == 0 && ::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0;
    // Had the parent died before prctl, nothing would ever tell us.
    if (::getppid() != plan.parent) ::_exit(1);
    ready = ready && ::dup2(plan.null_fd, STDIN_FILENO) >= 0;
    if (plan.output_fd >= 0) {
        ready = ready && ::dup2(plan.output_fd, STDOUT_FILENO) >= 0 &&
                ::dup2(plan.output_fd, STDERR_FILENO) >= 0;
    }
    if (ready && ::sigprocmask(SIG_SETMASK, &none, nullptr) == 0)
        ::execve(plan.program.c_str(), plan.argv.data(), plan.envp.data());
    const int error = errno;
    (void)!::write(plan.error_fd, &error, sizeof error);
    ::_exit(127);
}

/// Forks with all signals held back, so that no handler of ours runs in the child.
pid_t fork_child(const ExecPlan& plan) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const pid_t pid = ::fork();
    if (pid == 0) run_child(plan);
    const int error = errno;
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    errno = error;
    return pid;
}

}  // namespace

std::string ExitStatus::text() const {
    if (signal == 0) return fmt::format("exit code {}", code);
    const char* name = ::strsignal(signal);
    return fmt::format("killed by signal {} ({})", signal, name ? name : "unknown");
}

struct ChildProcess::Impl {
    pid_t pid = -1;
    std::function<void(std::string_view)> on_line;
    Descriptor output, ended;  ///< our end of its output; an eventfd set once it has ended
    std::mutex mutex;
    std::condition_variable changed;
    bool reaped = false;  ///< its pid may be somebody else's from now on
    std::optional<ExitStatus> status;
    std::thread reader, waiter;

    /// Passes lines on until the output's end, or until the child has ended and what it wrote is
    /// read: a grandchild that left the group may hold the pipe open for ever.
    void read_output() {
        LineCutter lines(on_line);
        std::array<char, 16384> buffer;
        for (bool last = false;;) {
            pollfd fds[2] = {{output.get(), POLLIN, 0}, {ended.get(), POLLIN, 0}};
            if (::poll(fds, 2, last ? 0 : -1) < 0 && errno != EINTR) break;
            if (fds[0].revents != 0) {
                const ssize_t n = ::read(output.get(), buffer.data(), buffer.size());
                if (n < 0 && errno == EINTR) continue;
                if (n <= 0) break;
                lines.take({buffer.data(), static_cast<std::size_t>(n)});
            } else if (last) {
                break;
            }
            last = fds[1].revents != 0;
        }
        lines.end();
    }

    void wait_for_end() {
        siginfo_t info = {};
        // WNOWAIT keeps the pid ours until `reaped` says so under the lock, so that send() cannot
        // hit a stranger.
        while (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT) != 0)
            CHECK(errno == EINTR, "waitid: {}", std::generic_category().message(errno));
        ExitStatus how;
        if (info.si_code == CLD_EXITED) {
            how.code = info.si_status;
        } else {
            how.signal = info.si_status;
        }
        {
            const std::lock_guard lock(mutex);
            ::kill(-pid, SIGKILL);  // its own children, if any are left
            while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
            }
            reaped = true;
        }
        const std::uint64_t one = 1;
        CHECK(::write(ended.get(), &one, sizeof one) == sizeof one);
        if (reader.joinable()) reader.join();
        const std::lock_guard lock(mutex);
        status = how;
        changed.notify_all();
    }
};

ChildProcess::ChildProcess(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

ChildProcess::~ChildProcess() {
    send(SIGKILL);
    impl_->waiter.join();
}

Result<std::unique_ptr<ChildProcess>> ChildProcess::start(ProcessSpec spec) {
    const auto failure = [&](int error) {
        return Error{fmt::format("cannot start {}: {} (errno {})", spec.program.string(),
                                 std::generic_category().message(error), error)};
    };
    auto impl = std::make_unique<Impl>();
    auto output = make_pipe(), trouble = make_pipe();
    if (!output || !trouble) return failure(errno);
    impl->ended = Descriptor(::eventfd(0, EFD_CLOEXEC));
    const Descriptor null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (impl->ended.get() < 0 || null.get() < 0) return failure(errno);

    ExecPlan plan{.program = spec.program.string(),
                  .words = {spec.program.string()},
                  .variables = merged_environment(spec.environment),
                  .argv = {},
                  .envp = {},
                  .null_fd = null.get(),
                  .output_fd = spec.on_line ? output->write.get() : -1,
                  .error_fd = trouble->write.get(),
                  .parent = ::getpid()};
    plan.words.insert(plan.words.end(), spec.arguments.begin(), spec.arguments.end());
    plan.argv = pointers(plan.words);
    plan.envp = pointers(plan.variables);

    impl->pid = fork_child(plan);
    if (impl->pid < 0) return failure(errno);
    output->write.reset();
    trouble->write.reset();
    int error = 0;
    ssize_t told;
    do told = ::read(trouble->read.get(), &error, sizeof error);  // closed by a successful exec
    while (told < 0 && errno == EINTR);
    if (told == sizeof error) {
        while (::waitpid(impl->pid, nullptr, 0) < 0 && errno == EINTR) {
        }
        return failure(error);
    }
    Impl* state = impl.get();
    if (spec.on_line) {
        state->on_line = std::move(spec.on_line);
        state->output = std::move(output->read);
        state->reader = std::thread([state] { state->read_output(); });
    }
    state->waiter = std::thread([state] { state->wait_for_end(); });
    return std::unique_ptr<ChildProcess>(new ChildProcess(std::move(impl)));
}

int ChildProcess::pid() const {
    return impl_->pid;
}

std::optional<ExitStatus> ChildProcess::wait_within(std::chrono::milliseconds limit) {
    std::unique_lock lock(impl_->mutex);
    impl_->changed.wait_for(lock, limit, [&] { return impl_->status.has_value(); });
    return impl_->status;
}

void ChildProcess::send(int signal) {
    const std::lock_guard lock(impl_->mutex);
    if (!impl_->reaped) ::kill(-impl_->pid, signal);
}

ExitStatus ChildProcess::stop_within(std::chrono::milliseconds grace) {
    send(SIGTERM);
    if (const auto status = wait_within(grace)) return *status;
    send(SIGKILL);
    std::unique_lock lock(impl_->mutex);
    impl_->changed.wait(lock, [&] { return impl_->status.has_value(); });
    return *impl_->status;
}

}  // namespace isthmus
