// `isthmus ctl`: how an operator's words reach the coordinator of a run on the same machine.
//
// The coordinator listens on RUN/ctl.sock, a socket of the file system: who may write into the
// run's folder may operate it. One message asks ("drain paris"), one answers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "base/files.hpp"
#include "base/log.hpp"
#include "net/link.hpp"
#include "outer/coordinator_driver.hpp"

namespace isthmus::launch {

/// "pause", "resume", "drain SITE", "drop SITE".
/// ERRORS  no such word, a site where none belongs or none where one does.
Result<outer::Operate> parse_operation(const std::string& words);

/// What is answered: what will happen, as far as it can be known at once.
std::string answer_of(const outer::Operate&);

/// The coordinator's side.
/// THREAD  one.
class OperatorDesk {
  public:
    /// ERRORS  the socket cannot be made.
    static Result<std::unique_ptr<OperatorDesk>> open(net::Context&, const Path& run_folder);
    /// Sites that operations may name; others are refused at once.
    void know(std::vector<std::string> sites) { sites_ = std::move(sites); }
    /// What was asked since the last call. Answers go through the desk, which must still be there.
    std::vector<outer::CoordinatorDriver::Options::Operation> take();

  private:
    OperatorDesk(Descriptor folder, std::unique_ptr<net::Link> link)
        : folder_(std::move(folder)), link_(std::move(link)) {}
    Descriptor folder_;
    std::unique_ptr<net::Link> link_;
    std::vector<std::string> sites_;
};

/// The operator's side: asks and waits for the answer.
/// ERRORS  no coordinator serves this folder; none answered within the time; its own refusal.
Result<std::string> ask_coordinator(const Path& run_folder, const std::string& words,
                                    std::chrono::milliseconds limit);

}  // namespace isthmus::launch
