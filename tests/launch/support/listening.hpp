// Where another process listens, and plain TCP to it.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace isthmus::test {

/// The TCP ports (IPv4) that a process listens on.
inline std::vector<int> listening_ports(int pid) {
    std::set<std::string> inodes;
    for (const auto& fd :
         std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd")) {
        std::error_code error;
        const std::string to = std::filesystem::read_symlink(fd.path(), error).string();
        if (to.starts_with("socket:[")) inodes.insert(to.substr(8, to.size() - 9));
    }
    std::ifstream table("/proc/" + std::to_string(pid) + "/net/tcp");
    std::vector<int> ports;
    for (std::string line; std::getline(table, line);) {
        std::istringstream in(line);
        std::string number, local, remote, state, queues, timer, again, user, timeout, inode;
        in >> number >> local >> remote >> state >> queues >> timer >> again >> user >> timeout >>
            inode;
        constexpr const char* kListens = "0A";
        if (state == kListens && inodes.contains(inode))
            ports.push_back(std::stoi(local.substr(local.find(':') + 1), nullptr, 16));
    }
    return ports;
}

/// Waits for the first byte from a port of this machine, answers with these and closes.
inline void send_over_tcp(int port, std::string_view bytes) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    const timeval limit{.tv_sec = 20, .tv_usec = 0};
    EXPECT_EQ(::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    char first = 0;
    EXPECT_EQ(::recv(fd, &first, 1, 0), 1);
    EXPECT_EQ(::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
    ::close(fd);
}

}  // namespace isthmus::test
