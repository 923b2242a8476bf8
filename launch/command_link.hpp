// Words of `isthmus link`: addresses. Rates, times and outages are net/config.hpp's.
#pragma once

#include <string>

#include "net/address.hpp"

namespace isthmus::launch {

/// "127.0.0.1:5000", "oslo.example:5000", "[::1]:5000"; `option` is named in the error.
/// ERRORS  throws Fatal(kUsage) with what is wrong and an example.
net::HostPort parse_host_port(const std::string& option, const std::string& text);

}  // namespace isthmus::launch
