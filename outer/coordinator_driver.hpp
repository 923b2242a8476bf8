// Sockets, clock and journal around the coordinator's step function.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.hpp"
#include "base/log.hpp"
#include "net/frame.hpp"
#include "net/link.hpp"
#include "outer/coordinator.hpp"

namespace isthmus::outer {

/// THREAD  one.
class CoordinatorDriver {
  public:
    struct Options {
        CoordinatorOptions coordinator;  ///< `self` is filled from the journal and `nonce`
        std::string listen = "127.0.0.1:0";
        net::KeyPair keys;        ///< empty: loopback only
        Path journal;             ///< file; its folder exists
        std::uint64_t nonce = 0;  ///< random: of this incarnation, and of a new journal's id
        /// The names that may join now; asked at least once a second. Empty function: the named
        /// sites (no keys).
        std::function<net::Allowlist()> allowlist = {};
        /// What an operator wants; asked at least five times a second. The answer line goes back
        /// through `answer`.
        struct Operation {
            Operate operate;
            std::function<void(const std::string&)> answer;
        };
        std::function<std::vector<Operation>()> operations = {};
        std::function<void(const CoordinatorState&, TimePoint now)> on_look =
            {};  ///< twice a second, and after each event that said something loud
        std::function<void(const CommitRecord&, const CoordinatorState&)> on_commit = {};
        /// Hears after each event in which phase the open meeting is (name_of), "commit" before
        /// one is written and "committed" before it is told: for tests that make it fail there.
        std::function<void(std::string_view phase, std::uint64_t meeting)> on_phase = {};
    };
    /// Opens or makes the journal, replays it, listens. ERRORS  the system's reason; a journal that
    /// is damaged, held by another process, or of another run.
    static Result<std::unique_ptr<CoordinatorDriver>> create(net::Context&, FileSystem&,
                                                             const Options&, Log&);
    ~CoordinatorDriver();
    /// What sites connect to.
    const std::string& endpoint() const;
    /// Until all sites are done, or the reason why the run ended early. `stop` is asked at least
    /// five times a second; when it says true the sites are told and the reason is "interrupted". A
    /// journal that cannot be written ends it at once, and nobody is told anything that depends on
    /// the record: sites wait for a coordinator that is started again.
    Status run(const std::function<bool()>& stop);

  private:
    struct Impl;
    explicit CoordinatorDriver(std::unique_ptr<Impl>);
    std::unique_ptr<Impl> impl_;
};

}  // namespace isthmus::outer
