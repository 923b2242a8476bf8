// Words of `isthmus link`: rates, times, addresses, outages.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "net/shaper.hpp"

namespace isthmus::launch {

/// All parsers: `option` is named in the error.
/// ERRORS  throw Fatal(kUsage) with what is wrong and an example.

/// "20mbit" -> 20'000'000; kbit, mbit, gbit, powers of ten; 1kbit .. 10gbit.
std::int64_t parse_rate(const std::string& option, const std::string& text);
/// "50ms", "1s", "250us"; 0 .. one day.
std::chrono::nanoseconds parse_duration(const std::string& option, const std::string& text);
/// "every=60s,for=5s"; for is shorter than every.
net::OutageSchedule parse_outage(const std::string& option, const std::string& text);

struct HostPort {
    std::string host;
    std::uint16_t port = 0;
};
/// "127.0.0.1:5000", "oslo.example:5000", "[::1]:5000".
HostPort parse_host_port(const std::string& option, const std::string& text);

}  // namespace isthmus::launch
