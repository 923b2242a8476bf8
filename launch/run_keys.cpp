#include "launch/run_keys.hpp"

#include "base/error.hpp"

namespace isthmus::launch {

namespace {

net::KeyPair read_keys(const Path& file) {
    auto keys = net::read_key_file(file);
    if (!keys) throw fatal(ExitCode::kUsage, "{}", keys.error().message);
    return std::move(*keys);
}

}  // namespace

net::KeyPair coordinator_keys(const net::NetConfig& net) {
    if (net.keys.empty()) {
        if (net.coordinator_key.empty()) return {};
        throw fatal(
            ExitCode::kUsage,
            "net.coordinator_key is set, so sites expect a coordinator with keys, but net.keys "
            "does not say where coordinator.key is");
    }
    const Path file = Path(net.keys) / "coordinator.key";
    net::KeyPair keys = read_keys(file);
    if (keys.public_key != net.coordinator_key) {
        throw fatal(ExitCode::kUsage,
                    "{}: its public key is {}, but net.coordinator_key pins {}: sites would refuse "
                    "this coordinator",
                    file.string(), keys.public_key, net.coordinator_key);
    }
    return keys;
}

net::KeyPair site_keys(const net::NetConfig& net, const std::string& name,
                       const std::string& file) {
    const bool given = !file.empty() || !net.keys.empty();
    if (!given && net.coordinator_key.empty()) return {};
    if (!given) {
        throw fatal(ExitCode::kUsage,
                    "net.coordinator_key is set, but site {} has no key: give --key FILE, or set "
                    "net.keys to the folder that holds {}.key",
                    name, name);
    }
    if (net.coordinator_key.empty()) {
        throw fatal(ExitCode::kUsage,
                    "--key {}: net.coordinator_key is not set, so site {} would not know its "
                    "coordinator",
                    file, name);
    }
    return read_keys(file.empty() ? Path(net.keys) / (name + ".key") : Path(file));
}

AllowlistFile::AllowlistFile(const net::NetConfig& net, FileSystem& files, Log& log)
    : path_(Path(net.keys) / kAuthorizedKeysName), files_(files), log_(log), seen_(stamp()) {
    auto list = read();
    if (!list) throw fatal(ExitCode::kUsage, "{}", list.error().message);
    list_ = std::move(*list);
}

AllowlistFile::Stamp AllowlistFile::stamp() const {
    std::error_code error;
    const auto changed = std::filesystem::last_write_time(path_, error);
    if (error) return std::nullopt;
    const auto bytes = std::filesystem::file_size(path_, error);
    if (error) return std::nullopt;
    return std::pair(changed, bytes);
}

Result<net::Allowlist> AllowlistFile::read() const {
    const auto text = read_text(files_, path_, 1 << 20);
    if (!text) return text.error();
    const auto keys = net::parse_authorized_keys(*text, path_.string());
    if (!keys) return keys.error();
    return net::allowlist_of(*keys);
}

const net::Allowlist& AllowlistFile::now() {
    const Stamp current = stamp();
    if (current == seen_) return list_;
    seen_ = current;
    if (auto list = read()) {
        list_ = std::move(*list);
    } else {
        log_.warn("{}; the keys known before stay", list.error().message);
    }
    return list_;
}

}  // namespace isthmus::launch
