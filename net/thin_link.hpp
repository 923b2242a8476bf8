// An emulated thin link: a TCP proxy whose two directions each are one Shaper, shared by all
// connections. A full flow is not read from, so back-pressure reaches its sender through TCP.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "net/shaper.hpp"

namespace isthmus::net {

struct ThinLinkOptions {
    std::string listen_address = "127.0.0.1";  ///< a numeric IP address
    std::uint16_t listen_port = 0;             ///< 0: the system chooses
    std::string to_host;                       ///< a name or an address
    std::uint16_t to_port = 0;
    ShaperConfig shape;  ///< of each direction
    /// One line each about what a user should know: the far end refuses, connections run out.
    std::function<void(const std::string&)> say = [](const std::string&) {};
};

/// Connections of its two ends are paired one to one: whoever connects to the link is connected to
/// `to`. A side that ends its half is passed on behind its last byte; a reset ends both at once,
/// and so does a peer whose host is gone (TCP keepalive, about a minute).
/// THREAD  all calls from one, which also is the one that moves the bytes.
/// ERRORS  the constructor throws Fatal: kResources for an address in use (names it and who may
/// hold it), kUsage for one that cannot be listened on or a host that has no address.
class ThinLink {
  public:
    explicit ThinLink(const ThinLinkOptions&);
    ~ThinLink();  ///< resets what is still connected
    ThinLink(const ThinLink&) = delete;
    ThinLink& operator=(const ThinLink&) = delete;

    /// The bound one. Connections are taken from here on and served once run() runs.
    std::uint16_t port() const;
    /// Moves bytes until `stop` says true; asked at least every 50 ms.
    void run(const std::function<bool()>& stop);

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace isthmus::net
