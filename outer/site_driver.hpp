// Sockets and clock around the site's step function, on a thread of their own: beats go on while
// the training thread is deep in a step.
//
// The two threads share no tensor. At a cut the training thread moves its copy of the parameters
// into the network thread's mailbox and gets it back, filled with the new anchor, when the round is
// committed.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "base/log.hpp"
#include "net/frame.hpp"
#include "net/link.hpp"
#include "net/mailbox.hpp"
#include "outer/exchange.hpp"
#include "outer/site.hpp"

namespace isthmus::outer {

/// Memory: 12 bytes a parameter (anchor, cut, staged result) and the queues of exchange.hpp.
/// THREAD  all public functions by the training thread.
class SiteDriver {
  public:
    struct Options {
        net::RunId run;
        SiteId self;
        std::uint32_t num_sites = 1;
        std::string coordinator;  ///< endpoint
        Budget budget;
        float lr = 1.0f;
        std::uint64_t config_hash = 0;
        std::size_t chunk_elements = kChunkElements;
        std::function<bool()> stop =
            {};  ///< asked while waiting; true ends the run as "interrupted"
    };
    struct Met {
        Round round;  ///< rounds committed, this one included
        StateHash state{};
        std::uint64_t bytes_sent = 0;
    };

    /// Opens the sockets, starts the thread and waits until all sites are here.
    /// ERRORS why the run did not start: one line that names who is missing or differs.
    static Result<std::unique_ptr<SiteDriver>> join(net::Context&, const Options&,
                                                    std::vector<float> initial, Log&);
    /// Stops the thread; without leave() the others are told that this site has failed.
    ~SiteDriver();

    /// One round: `parameters` go in as the local ones and come out as the new anchor.
    /// ERRORS why the run has ended; `parameters` are then lost, which no one needs any more.
    Result<Met> meet(std::vector<float>& parameters, std::uint64_t samples);
    /// After each inner step. ERRORS why the run has ended meanwhile.
    Status made_step();
    /// The last round is over: says so to the others. ERRORS why that was not heard.
    Status leave();
    /// Ends the run for everyone; `reason` follows "site N left: ".
    void quit(const std::string& reason);

  private:
    struct CutParameters {
        std::vector<float> local;
        std::uint64_t samples = 0;
    };
    using Command = std::variant<CutParameters, Finish, Quit>;
    struct JoinedReply {};
    struct MetReply {
        Met met;
        std::vector<float> parameters;
    };
    using Reply = std::variant<JoinedReply, MetReply, End>;
    class Network;

    explicit SiteDriver(const Options&);
    /// Waits for what the network thread says next; asks `stop` meanwhile.
    Reply next_reply();

    Options options_;
    net::WakeUp wake_up_;
    net::Mailbox<Command> commands_;
    net::Mailbox<Reply> replies_;
    std::atomic<std::uint64_t> steps_{0};
    std::optional<End> end_;
    std::unique_ptr<Network> network_;
    std::thread thread_;
};

}  // namespace isthmus::outer
