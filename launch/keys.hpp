// The folder of a run's keys: coordinator.key, SITE.key for each site, authorized_keys.
#pragma once

#include <string>
#include <vector>

#include "base/files.hpp"

namespace isthmus::launch {

inline constexpr const char* kCoordinatorKeyFile = "coordinator.key";
inline constexpr const char* kAuthorizedKeysFile = "authorized_keys";
/// SITE.key
Path site_key_file(const Path& dir, const std::string& site);

/// Makes the folder (if missing), a pair for the coordinator and each site, and the list that lets
/// these sites in; returns the coordinator's public key. Nothing that is there is overwritten.
/// ERRORS  throws Fatal: no sites, a name twice or not fit for a file (kUsage); a file of that name
/// is there already, the system's reason (kInput). What was made before the error is removed.
std::string make_run_keys(const Path& dir, const std::vector<std::string>& sites);

/// Lets a site in: with the given public key, or with a new pair in NAME.key. A coordinator that
/// runs notices. Returns the public key. ERRORS  throws Fatal: the name has a key already, the key
/// is known already, the system's reason.
std::string add_site_key(const Path& dir, const std::string& name, const std::string& public_key);

/// Marks the site's key as one that may join no more. ERRORS  throws Fatal: no such site.
void revoke_site_key(const Path& dir, const std::string& name);

/// What a key file, or all files of a folder, hold for others to know: no secrets.
/// ERRORS  throws Fatal(kInput).
std::string describe_keys(const Path& file_or_folder);

}  // namespace isthmus::launch
