// Versions of the libraries this program runs with, as they say themselves at run time.
#pragma once

#include <string>
#include <vector>

namespace isthmus::launch {

struct LibraryVersion {
    std::string name;
    std::string version;
    std::string used_for;
};

/// oneDNN, ZeroMQ, libsodium, zlib, zstd, xxHash, CLI11, fmt. Those linked dynamically answer for
/// what is installed now, not for what was there at build time.
std::vector<LibraryVersion> library_versions();

}  // namespace isthmus::launch
