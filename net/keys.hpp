// Who is who: CURVE key pairs (Curve25519, RFC 7748, as ZeroMQ uses them), key files, and the list
// of those who may join, in the manner of ssh's authorized_keys.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.hpp"
#include "base/result.hpp"

namespace isthmus::net {

/// Z85 text, 40 characters each.
struct KeyPair {
    std::string public_key, secret_key;
    bool empty() const { return public_key.empty(); }
};
KeyPair make_key_pair();
/// 40 characters that are Z85 of 32 bytes.
bool is_key(std::string_view);

/// A key file: comment lines that begin with '#', then "public = KEY" and "secret = KEY". Mode
/// 0600. ERRORS  the file exists already; the system's reason.
Status write_key_file(const Path&, std::string_view name, const KeyPair&);
/// ERRORS  missing; not a key file (line named); readable or writable by others (mode named, and
/// the chmod that mends it); a public key that does not belong to the secret one.
Result<KeyPair> read_key_file(const Path&);

/// A name that can stand in authorized_keys and before ".key": letters, digits, '.', '_', '-', at
/// most 64, the first a letter or digit; neither "revoked" nor "coordinator".
bool is_key_name(std::string_view);

/// One line of an authorized_keys file: "NAME KEY", or "revoked NAME KEY" once it may no more.
struct AuthorizedKey {
    std::string name, public_key;
    bool revoked = false;
};
/// ERRORS  line named: no name, no key, a key twice, a name with two keys that are not revoked.
Result<std::vector<AuthorizedKey>> parse_authorized_keys(std::string_view text,
                                                         std::string_view origin);
std::string format_authorized_keys(const std::vector<AuthorizedKey>&);

/// public key -> name, of those not revoked.
using Allowlist = std::map<std::string, std::string>;
Allowlist allowlist_of(const std::vector<AuthorizedKey>&);

}  // namespace isthmus::net
