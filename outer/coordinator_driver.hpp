// Sockets and clock around the coordinator's step function.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/log.hpp"
#include "net/frame.hpp"
#include "net/link.hpp"
#include "outer/coordinator.hpp"

namespace isthmus::outer {

/// THREAD  one thread.
class CoordinatorDriver {
  public:
    struct Options {
        net::RunId run;
        std::uint32_t num_sites = 1;
        Budget budget;
    };
    /// Listens. ERRORS the system's reason.
    static Result<std::unique_ptr<CoordinatorDriver>> create(net::Context&, const Options&, Log&);
    /// What sites connect to.
    const std::string& endpoint() const { return link_->endpoint(); }
    /// Until all sites are done, or the reason why the run ended early. `stop` is asked at least
    /// five times a second; when it says true the sites are told and the reason is "interrupted".
    Status run(const std::function<bool()>& stop);

  private:
    CoordinatorDriver(const Options& options, Log& log) : options_(options), log_(log) {}
    void hear(const net::Message&);
    void act(const CoordinatorActions&);

    Options options_;
    Log& log_;
    std::unique_ptr<net::Link> link_;
    CoordinatorState state_;
    std::map<SiteId, net::PeerId> connections_;  ///< over which a site said its last HELLO
    std::optional<End> end_;
};

}  // namespace isthmus::outer
