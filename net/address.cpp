#include "net/address.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>

namespace isthmus::net {

namespace {

/// IPv4 address of the interface, or "" with the names of all that have one.
std::string interface_address(const std::string& name, std::string& known) {
    ifaddrs* first = nullptr;
    if (::getifaddrs(&first) != 0) return "";
    const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(first, &::freeifaddrs);
    std::set<std::string> names;
    for (const ifaddrs* at = first; at != nullptr; at = at->ifa_next) {
        if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != AF_INET) continue;
        if (name == at->ifa_name) {
            char text[INET_ADDRSTRLEN] = {};
            const auto* address = reinterpret_cast<const sockaddr_in*>(at->ifa_addr);
            ::inet_ntop(AF_INET, &address->sin_addr, text, sizeof text);
            return text;
        }
        names.insert(at->ifa_name);
    }
    for (const std::string& one : names) known += (known.empty() ? "" : ", ") + one;
    return "";
}

bool is_ipv4(const std::string& host) {
    in_addr address{};
    return ::inet_pton(AF_INET, host.c_str(), &address) == 1;
}

/// Inodes of sockets that listen on the port, from /proc/net/tcp: "sl local:port remote:port state
/// ...".
std::set<std::string> listening_inodes(std::uint16_t port) {
    std::set<std::string> inodes;
    for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
        std::ifstream in(table);
        std::string line;
        std::getline(in, line);
        while (std::getline(in, line)) {
            std::istringstream fields(line);
            std::string slot, local, remote, state, queues, timer, retransmits, uid, timeout, inode;
            fields >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> uid >>
                timeout >> inode;
            const std::size_t colon = local.rfind(':');
            if (state != "0A" || colon == std::string::npos) continue;
            if (local.substr(colon + 1) == fmt::format("{:04X}", port)) inodes.insert(inode);
        }
    }
    return inodes;
}

}  // namespace

Result<HostPort> parse_host_port(std::string_view text) {
    HostPort result;
    const std::size_t colon = text.rfind(':');
    bool right = colon != std::string_view::npos && colon > 0;
    if (right) {
        const char* end = text.data() + text.size();
        const auto [rest, error] = std::from_chars(text.data() + colon + 1, end, result.port);
        right = error == std::errc() && rest == end;
        result.host = text.substr(0, colon);
    }
    if (right && result.host.starts_with('[') && result.host.ends_with(']')) {
        result.host = result.host.substr(1, result.host.size() - 2);
    } else if (right && result.host.find(':') != std::string::npos) {
        right = false;  // an IPv6 address without brackets
    }
    if (!right || result.host.empty()) {
        return Error{fmt::format(
            "{}: not HOST:PORT with a port up to 65535; write 127.0.0.1:5000 or [::1]:5000", text)};
    }
    return result;
}

bool is_loopback(std::string_view host) {
    if (host == "localhost") return true;
    in_addr address{};
    return ::inet_pton(AF_INET, std::string(host).c_str(), &address) == 1 &&
           (ntohl(address.s_addr) >> 24) == 127;
}

std::string ListenAddress::endpoint() const {
    if (ipc) return std::string(kIpc) + path;
    return fmt::format("{}{}:{}", kTcp, host, port == 0 ? "*" : std::to_string(port));
}

Result<ListenAddress> parse_listen_address(std::string_view text) {
    ListenAddress result;
    if (text.starts_with(kIpc)) {
        result.ipc = result.local = true;
        result.path = text.substr(kIpc.size());
        if (result.path.empty() || result.path.size() >= sizeof sockaddr_un::sun_path)
            return Error{fmt::format("{}: not ipc://PATH with a path of 1 to {} bytes", text,
                                     sizeof sockaddr_un::sun_path - 1)};
        return result;
    }
    auto parsed = parse_host_port(text);
    if (!parsed) return parsed.error();
    result.port = parsed->port;
    std::string& host = result.host = parsed->host;
    if (host.find(':') != std::string::npos)
        return Error{fmt::format("{}: IPv6 is not supported; give an IPv4 address", text)};
    if (host == "localhost") host = "127.0.0.1";
    if (host == "*") host = "0.0.0.0";
    if (!is_ipv4(host)) {
        std::string known;
        const std::string address = interface_address(host, known);
        if (address.empty()) {
            return Error{
                fmt::format("{}: {} is neither an IPv4 address nor an interface of this "
                            "machine; it has {}",
                            text, host, known.empty() ? "none" : known)};
        }
        host = address;
    }
    result.local = is_loopback(host);
    return result;
}

Result<bool> check_endpoint(std::string_view endpoint) {
    if (endpoint.starts_with(kIpc) && endpoint.size() > kIpc.size()) return true;
    const bool tcp = endpoint.starts_with(kTcp);
    const auto parsed = parse_host_port(tcp ? endpoint.substr(kTcp.size()) : endpoint);
    if (!tcp || !parsed) {
        return Error{fmt::format("{}: not an endpoint; write tcp://HOST:PORT or ipc://PATH",
                                 endpoint.empty() ? "\"\"" : endpoint)};
    }
    if (parsed->port == 0) {
        return Error{fmt::format(
            "{}: port 0 cannot be connected to; give the port that the other side listens on",
            endpoint)};
    }
    if (parsed->host.find(':') != std::string::npos)
        return Error{
            fmt::format("{}: IPv6 is not supported; give a name or an IPv4 address", endpoint)};
    if (parsed->host == "*" || parsed->host == "0.0.0.0")
        return Error{fmt::format("{}: {} is for listening; give the address of one machine",
                                 endpoint, parsed->host)};
    return is_loopback(parsed->host);
}

Status check_ipc_path(const std::string& path) {
    struct stat info {};
    if (::lstat(path.c_str(), &info) != 0) return Done{};
    if (!S_ISSOCK(info.st_mode))
        return Error{fmt::format("ipc://{}: there is a file that is no socket", path)};
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    const int probe = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (probe < 0) return Error{fmt::format("ipc://{}: {}", path, std::strerror(errno))};
    const int connected =
        ::connect(probe, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    // EAGAIN: its queue of connections is full, so somebody listens.
    const bool taken = connected == 0 || errno == EAGAIN;
    ::close(probe);
    if (!taken) return Done{};
    return Error{
        fmt::format("ipc://{}: address in use: another process listens there "
                    "(ss -lxp shows which); stop it or choose another path",
                    path)};
}

std::string holder_of_port(std::uint16_t port) {
    const std::set<std::string> inodes = listening_inodes(port);
    std::error_code error;
    using Folder = std::filesystem::directory_iterator;
    for (Folder process("/proc", error), end; !error && process != end; process.increment(error)) {
        const std::string pid = process->path().filename().string();
        if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
        std::error_code closed;  // another user's, or gone by now
        for (Folder file(process->path() / "fd", closed); !closed && file != end;
             file.increment(closed)) {
            std::error_code gone;
            const std::string target = std::filesystem::read_symlink(file->path(), gone).string();
            if (!target.starts_with("socket:[")) continue;
            if (!inodes.contains(target.substr(8, target.size() - 9))) continue;
            std::string name;
            std::ifstream comm(process->path() / "comm");
            std::getline(comm, name);
            return fmt::format("process {} ({})", pid, name);
        }
    }
    return fmt::format("a process that we may not see (as root: ss -ltnp 'sport = :{}')", port);
}

}  // namespace isthmus::net
