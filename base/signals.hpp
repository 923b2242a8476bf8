// Ctrl-C and SIGTERM as a flag that loops ask for between steps.
#pragma once

#include <memory>

namespace isthmus {

/// main builds one and passes `[&] { return flag.requested(); }` down. While it lives the first
/// SIGINT or SIGTERM only sets the flag; a second SIGINT ends the process at once with code 130 (a
/// second SIGTERM does not: a supervisor may send one after the terminal's Ctrl-C). THREAD
/// requested() from any thread. One object at a time in a process.
class StopFlag {
  public:
    StopFlag();
    ~StopFlag();  ///< puts the earlier handlers back
    StopFlag(const StopFlag&) = delete;
    StopFlag& operator=(const StopFlag&) = delete;

    bool requested() const;
    /// SIGINT, SIGTERM, or 0 before either came.
    int signal() const;

  private:
    struct Saved;
    std::unique_ptr<Saved> saved_;
};

}  // namespace isthmus
