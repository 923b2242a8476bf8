// Child processes, each of which has an end: when it is told to, when its owner goes, when we die.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files.hpp"
#include "base/result.hpp"

namespace isthmus {

/// How a process ended.
struct ExitStatus {
    int code = 0;    ///< of exit(); meaningless when a signal ended it
    int signal = 0;  ///< that ended it, or 0
    bool ok() const { return code == 0 && signal == 0; }
    /// "exit code 3", "killed by signal 9 (Killed)"
    std::string text() const;
};

struct ProcessSpec {
    Path program;                        ///< a file; PATH is not searched
    std::vector<std::string> arguments;  ///< after the program's name
    /// Added to our own environment, or in place of a variable there.
    std::vector<std::pair<std::string, std::string>> environment = {};
    /// Called with each line of its stdout and stderr, without the newline (longer ones than 64 KiB
    /// in pieces), by a thread of this object: must not throw. Empty: the child inherits both.
    std::function<void(std::string_view line)> on_line = {};
};

/// A running child, the leader of a process group of its own: Ctrl-C in a terminal reaches only us,
/// and its own children end with it. Its stdin is empty. If we die, the kernel kills it. THREAD
/// start() from a thread that lives as long as the child is to live (Linux ties "parent died"
///         to that thread); everything else from any one thread at a time.
class ChildProcess {
  public:
    /// ERRORS  the program cannot be started: names it and errno.
    static Result<std::unique_ptr<ChildProcess>> start(ProcessSpec);
    /// Kills it if it still runs.
    ~ChildProcess();
    ChildProcess(const ChildProcess&) = delete;
    ChildProcess& operator=(const ChildProcess&) = delete;

    int pid() const;
    /// Its status once it has ended and all its output has been passed on.
    std::optional<ExitStatus> wait_within(std::chrono::milliseconds);
    /// To the child and its group; nothing if it has ended.
    void send(int signal);
    /// SIGTERM, then, after `grace`, SIGKILL. Returns when it has ended.
    ExitStatus stop_within(std::chrono::milliseconds grace);

  private:
    struct Impl;
    explicit ChildProcess(std::unique_ptr<Impl>);
    std::unique_ptr<Impl> impl_;
};

}  // namespace isthmus
