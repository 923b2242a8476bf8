// Addresses as people write them: what a link may listen on and connect to without keys, and who
// holds a port that is taken.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace isthmus::net {

struct HostPort {
    std::string host;
    std::uint16_t port = 0;
};
/// "127.0.0.1:5000", "oslo.example:5000", "[::1]:5000" (brackets are taken off).
/// ERRORS  not of that form, with an example.
Result<HostPort> parse_host_port(std::string_view text);

/// 127.0.0.0/8 and "localhost". A name that only happens to lead to this machine is not loopback.
bool is_loopback(std::string_view host);

inline constexpr std::string_view kTcp = "tcp://";
inline constexpr std::string_view kIpc = "ipc://";

/// Where a link listens.
struct ListenAddress {
    bool ipc = false;
    std::string path;  ///< ipc: of the socket
    std::string host;  ///< tcp: an IPv4 address
    std::uint16_t port = 0;
    bool local = false;            ///< only processes on this machine reach it
    std::string endpoint() const;  ///< for ZeroMQ
};
/// "ADDRESS:PORT" with an IPv4 address, "localhost", "*" (all of them) or an interface's name, or
/// "ipc://PATH". ERRORS  not of that form; no such interface (those there are, are named); IPv6.
Result<ListenAddress> parse_listen_address(std::string_view text);

/// Whether an endpoint to connect to is on this machine. ERRORS  not "tcp://HOST:PORT" or
/// "ipc://PATH"; port 0; IPv6.
Result<bool> check_endpoint(std::string_view endpoint);

/// Whether somebody may listen there: an ipc path with a listener, or a file that is no socket, is
/// taken (ZeroMQ would silently delete both). ERRORS  taken, by what.
Status check_ipc_path(const std::string& path);

/// "process 4711 (isthmus)", or, if the system does not tell us, how to find out.
std::string holder_of_port(std::uint16_t port);

}  // namespace isthmus::net
