// Which keys a process of a run uses, and whom the coordinator lets in.
//
// The folder net.keys holds coordinator.key, one NAME.key for each site that runs on this machine,
// and, at the coordinator, authorized_keys. A process needs only its own key file.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/log.hpp"
#include "net/config.hpp"
#include "net/keys.hpp"

namespace isthmus::launch {

inline constexpr const char* kAuthorizedKeysName = "authorized_keys";

/// Empty if the run has no keys (then only loopback is listened on and connected to).
/// ERRORS  throws Fatal(kUsage): key files that are missing or readable by others, a
/// coordinator.key that is not the one that net.coordinator_key pins, keys for one side only.
net::KeyPair coordinator_keys(const net::NetConfig&);
/// `file`: instead of net.keys/NAME.key; may be empty.
net::KeyPair site_keys(const net::NetConfig&, const std::string& name, const std::string& file);

/// authorized_keys, read anew when it has changed.
/// THREAD  one.
class AllowlistFile {
  public:
    /// ERRORS  throws Fatal(kUsage) when it cannot be read at first.
    AllowlistFile(const net::NetConfig&, FileSystem&, Log&);
    /// A file that cannot be read now, or has a bad line, leaves the list as it was, which is said.
    const net::Allowlist& now();

  private:
    /// Tells versions of the file apart; nothing: it cannot be looked at.
    using Stamp = std::optional<std::pair<std::filesystem::file_time_type, std::uintmax_t>>;
    Stamp stamp() const;
    Result<net::Allowlist> read() const;
    Path path_;
    FileSystem& files_;
    Log& log_;
    Stamp seen_;
    net::Allowlist list_;
};

}  // namespace isthmus::launch
