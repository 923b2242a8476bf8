#include "launch/library_versions.hpp"

#include <dnnl.h>
#include <fmt/core.h>
#include <sodium.h>
#include <xxhash.h>
#include <zlib.h>
#include <zmq.h>
#include <zstd.h>
#include <CLI/Version.hpp>

namespace isthmus::launch {

namespace {

std::string dotted(unsigned major, unsigned minor, unsigned patch) {
    return fmt::format("{}.{}.{}", major, minor, patch);
}

}  // namespace

std::vector<LibraryVersion> library_versions() {
    const dnnl_version_t* dnnl = dnnl_version();
    int zmq[3] = {0, 0, 0};
    zmq_version(&zmq[0], &zmq[1], &zmq[2]);
    const unsigned xxhash = XXH_versionNumber();
    return {
        {"oneDNN",
         dotted(static_cast<unsigned>(dnnl->major), static_cast<unsigned>(dnnl->minor),
                static_cast<unsigned>(dnnl->patch)),
         "matrix products on the processor"},
        {"ZeroMQ",
         dotted(static_cast<unsigned>(zmq[0]), static_cast<unsigned>(zmq[1]),
                static_cast<unsigned>(zmq[2])),
         "links between sites"},
        {"libsodium", sodium_version_string(), "hashes of parameters between sites"},
        {"zlib", zlibVersion(), "reading .gz and .dz text"},
        {"zstd", ZSTD_versionString(), "reading .zst text"},
        {"xxHash", dotted(xxhash / 10000, xxhash / 100 % 100, xxhash % 100), "checksums of files"},
        {"CLI11", CLI11_VERSION, "the command line"},
        {"fmt", dotted(FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100), "text"},
    };
}

}  // namespace isthmus::launch
