#include "net/keys.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <set>
#include <sstream>

#include "base/check.hpp"
#include "base/descriptor.hpp"

namespace isthmus::net {

namespace {

constexpr std::size_t kKeyCharacters = 40;
constexpr std::size_t kKeyBytes = 32;
constexpr std::size_t kMostFileBytes = 64 << 10;
constexpr std::size_t kMostNameCharacters = 64;

Error system_error(const Path& path) {
    return Error{fmt::format("{}: {}", path.string(), std::strerror(errno))};
}

Status write_all(int fd, std::string_view text, const Path& path) {
    while (!text.empty()) {
        const ssize_t n = ::write(fd, text.data(), text.size());
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return system_error(path);
        text.remove_prefix(static_cast<std::size_t>(n));
    }
    if (::fsync(fd) != 0) return system_error(path);
    return Done{};
}

Result<std::string> read_all(int fd, const Path& path) {
    std::string text(kMostFileBytes + 1, '\0');
    std::size_t size = 0;
    while (size < text.size()) {
        const ssize_t n = ::read(fd, text.data() + size, text.size() - size);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return system_error(path);
        if (n == 0) break;
        size += static_cast<std::size_t>(n);
    }
    if (size > kMostFileBytes)
        return Error{fmt::format("{}: too long for a key file", path.string())};
    text.resize(size);
    return text;
}

/// Words between blanks.
std::vector<std::string> words_of(const std::string& line) {
    std::istringstream in(line);
    std::vector<std::string> words;
    for (std::string word; in >> word;) words.push_back(word);
    return words;
}

Result<KeyPair> parse_key_file(const std::string& text, const Path& path) {
    KeyPair keys;
    std::istringstream in(text);
    int number = 0;
    for (std::string line; std::getline(in, line);) {
        ++number;
        const auto words = words_of(line);
        if (words.empty() || words[0].starts_with('#')) continue;
        const bool is_public = words[0] == "public";
        std::string& key = is_public ? keys.public_key : keys.secret_key;
        // The line is not quoted: it may hold a secret.
        if ((!is_public && words[0] != "secret") || words.size() != 3 || words[1] != "=" ||
            !is_key(words[2]) || !key.empty()) {
            return Error{
                fmt::format("{}:{}: not a line of a key file; it holds one \"public = KEY\" "
                            "and one \"secret = KEY\"",
                            path.string(), number)};
        }
        key = words[2];
    }
    if (keys.public_key.empty() || keys.secret_key.empty()) {
        return Error{fmt::format("{}: not a key file: no \"{} = KEY\"", path.string(),
                                 keys.public_key.empty() ? "public" : "secret")};
    }
    return keys;
}

}  // namespace

KeyPair make_key_pair() {
    char public_key[kKeyCharacters + 1] = {}, secret_key[kKeyCharacters + 1] = {};
    CHECK(zmq_curve_keypair(public_key, secret_key) == 0, "this libzmq was built without CURVE");
    return {public_key, secret_key};
}

bool is_key(std::string_view text) {
    if (text.size() != kKeyCharacters) return false;
    std::uint8_t bytes[kKeyBytes];
    return zmq_z85_decode(bytes, std::string(text).c_str()) != nullptr;
}

Status write_key_file(const Path& path, std::string_view name, const KeyPair& keys) {
    CHECK(is_key(keys.public_key) && is_key(keys.secret_key));
    Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (file.get() < 0) {
        if (errno != EEXIST) return system_error(path);
        return Error{fmt::format("{}: exists already; a key is never overwritten, remove it first",
                                 path.string())};
    }
    const std::string text = fmt::format(
        "# Key pair of {}. Whoever has the secret line is {}: it stays on that machine.\n"
        "public = {}\nsecret = {}\n",
        name, name, keys.public_key, keys.secret_key);
    Status written = write_all(file.get(), text, path);
    if (written && ::close(file.release()) != 0) written = system_error(path);
    if (!written) {
        ::unlink(path.c_str());
        return written;
    }
    const Path folder = path.has_parent_path() ? path.parent_path() : Path(".");
    const Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (opened.get() < 0 || ::fsync(opened.get()) != 0) return system_error(folder);
    return Done{};
}

Result<KeyPair> read_key_file(const Path& path) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (file.get() < 0) return system_error(path);
    // Of the file that was opened, so that nobody can swap it between the look and the read.
    struct stat info {};
    if (::fstat(file.get(), &info) != 0) return system_error(path);
    if (!S_ISREG(info.st_mode)) return Error{fmt::format("{}: not a file", path.string())};
    if ((info.st_mode & 077) != 0) {
        return Error{fmt::format("{}: mode {:04o} lets others at a secret key; chmod 600 {}",
                                 path.string(), info.st_mode & 07777, path.string())};
    }
    const auto text = read_all(file.get(), path);
    if (!text) return text.error();
    auto keys = parse_key_file(*text, path);
    if (!keys) return keys;
    char public_key[kKeyCharacters + 1] = {};
    if (zmq_curve_public(public_key, keys->secret_key.c_str()) != 0 ||
        keys->public_key != public_key) {
        return Error{
            fmt::format("{}: the public key does not belong to the secret one", path.string())};
    }
    return keys;
}

bool is_key_name(std::string_view name) {
    const auto letter = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    };
    if (name.empty() || name.size() > kMostNameCharacters || !letter(name[0])) return false;
    if (name == "revoked" || name == "coordinator") return false;
    return std::all_of(name.begin(), name.end(),
                       [&](char c) { return letter(c) || c == '.' || c == '_' || c == '-'; });
}

Result<std::vector<AuthorizedKey>> parse_authorized_keys(std::string_view text,
                                                         std::string_view origin) {
    std::vector<AuthorizedKey> keys;
    std::set<std::string> live, seen;
    std::istringstream in{std::string(text)};
    int number = 0;
    for (std::string line; std::getline(in, line);) {
        ++number;
        auto words = words_of(line);
        if (words.empty() || words[0].starts_with('#')) continue;
        const auto wrong = [&](const std::string& what) {
            return Error{fmt::format("{}:{}: {}", origin, number, what)};
        };
        AuthorizedKey key;
        key.revoked = words[0] == "revoked";
        if (key.revoked) words.erase(words.begin());
        if (words.size() != 2) return wrong("not \"NAME KEY\" or \"revoked NAME KEY\"");
        key.name = words[0];
        key.public_key = words[1];
        if (!is_key_name(key.name)) return wrong(key.name + " is not a site's name");
        if (!is_key(key.public_key))
            return wrong(key.public_key + " is not a public key (40 characters of Z85)");
        if (!seen.insert(key.public_key).second) return wrong("the key stands here twice");
        if (!key.revoked && !live.insert(key.name).second)
            return wrong(key.name + " has a key already; revoke one of them");
        keys.push_back(std::move(key));
    }
    return keys;
}

std::string format_authorized_keys(const std::vector<AuthorizedKey>& keys) {
    std::string text =
        "# Who may join: NAME PUBLIC_KEY, or revoked NAME PUBLIC_KEY. The coordinator reads it "
        "again "
        "while it runs.\n";
    for (const AuthorizedKey& key : keys)
        text += fmt::format("{}{} {}\n", key.revoked ? "revoked " : "", key.name, key.public_key);
    return text;
}

Allowlist allowlist_of(const std::vector<AuthorizedKey>& keys) {
    Allowlist list;
    for (const AuthorizedKey& key : keys)
        if (!key.revoked) list[key.public_key] = key.name;
    return list;
}

}  // namespace isthmus::net
