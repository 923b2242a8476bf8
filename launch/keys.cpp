#include "launch/keys.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "base/config.hpp"
#include "base/descriptor.hpp"
#include "base/error.hpp"
#include "net/keys.hpp"

namespace isthmus::launch {

namespace {

template <class T>
T good(Result<T> result) {
    if (!result) throw fatal(ExitCode::kInput, "{}", result.error().message);
    return std::move(result).value();
}

void check_name(const std::string& name) {
    if (net::is_key_name(name)) return;
    throw fatal(
        ExitCode::kUsage,
        "\"{}\" is not a site's name: letters, digits, '.', '_' and '-', at most 64, the first "
        "a letter or digit; not \"coordinator\" or \"revoked\"",
        name);
}

/// authorized_keys, read and replaced under a lock on its folder, so that two commands at a time do
/// not lose one another's line.
class KeyList {
  public:
    explicit KeyList(const Path& dir)
        : file_(dir / kAuthorizedKeysFile),
          folder_(::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
        if (folder_.get() < 0 || ::flock(folder_.get(), LOCK_EX) != 0)
            throw fatal(ExitCode::kInput, "{}: {}", dir.string(), std::strerror(errno));
        keys = good(net::parse_authorized_keys(good(read_text(*files_, file_)), file_.string()));
    }
    void save() { good(replace_file(*files_, file_, net::format_authorized_keys(keys))); }
    net::AuthorizedKey* live(const std::string& name) {
        const auto found = std::find_if(keys.begin(), keys.end(), [&](const auto& key) {
            return key.name == name && !key.revoked;
        });
        return found == keys.end() ? nullptr : &*found;
    }
    const Path& file() const { return file_; }

    std::vector<net::AuthorizedKey> keys;

  private:
    std::unique_ptr<FileSystem> files_ = posix_files();
    Path file_;
    Descriptor folder_;
};

/// Files that are removed again unless everything went well.
struct Made {
    std::vector<Path> files;
    bool keep = false;
    ~Made() {
        std::error_code ignored;
        if (!keep)
            for (const Path& file : files) std::filesystem::remove(file, ignored);
    }
};

}  // namespace

Path site_key_file(const Path& dir, const std::string& site) {
    return dir / (site + ".key");
}

std::string make_run_keys(const Path& dir, const std::vector<std::string>& sites) {
    if (sites.empty())
        throw fatal(ExitCode::kUsage, "keys need at least one site: --sites paris,oslo");
    std::set<std::string> names;
    for (const std::string& site : sites) {
        check_name(site);
        if (!names.insert(site).second)
            throw fatal(ExitCode::kUsage, "site {} is named twice", site);
    }
    const auto files = posix_files();
    if (files->exists(dir / kAuthorizedKeysFile)) {
        throw fatal(
            ExitCode::kInput,
            "{} exists already; isthmus keys add {} NAME lets one more in, or choose another "
            "folder",
            (dir / kAuthorizedKeysFile).string(), dir.string());
    }
    if (!files->exists(dir)) {
        good(files->make_folders(dir));
        // Names of sites are nobody else's business either.
        ::chmod(dir.c_str(), 0700);
    }
    Made made;
    const auto make = [&](const Path& path, const std::string& name) {
        net::KeyPair pair = net::make_key_pair();
        good(net::write_key_file(path, name, pair));
        made.files.push_back(path);
        return pair.public_key;
    };
    const std::string coordinator = make(dir / kCoordinatorKeyFile, "the coordinator");
    std::vector<net::AuthorizedKey> keys;
    for (const std::string& site : sites)
        keys.push_back(
            {.name = site, .public_key = make(site_key_file(dir, site), "site " + site)});
    good(replace_file(*files, dir / kAuthorizedKeysFile, net::format_authorized_keys(keys)));
    made.keep = true;
    return coordinator;
}

std::string add_site_key(const Path& dir, const std::string& name, const std::string& public_key) {
    check_name(name);
    if (!public_key.empty() && !net::is_key(public_key)) {
        throw fatal(ExitCode::kUsage,
                    "{}: not a public key of 40 characters; isthmus keys show FILE "
                    "prints one (quote it: it may hold $ and *)",
                    public_key);
    }
    KeyList list(dir);
    if (list.live(name) != nullptr) {
        throw fatal(ExitCode::kUsage, "{} has a key already; isthmus keys revoke {} {} first", name,
                    dir.string(), name);
    }
    for (const net::AuthorizedKey& key : list.keys) {
        if (key.public_key != public_key) continue;
        throw fatal(ExitCode::kUsage, "that key is {}'s already{}", key.name,
                    key.revoked ? ", and was revoked; make a new one" : "");
    }
    Made made;
    std::string key = public_key;
    if (key.empty()) {
        const net::KeyPair pair = net::make_key_pair();
        good(net::write_key_file(site_key_file(dir, name), "site " + name, pair));
        made.files.push_back(site_key_file(dir, name));
        key = pair.public_key;
    }
    list.keys.push_back({.name = name, .public_key = key});
    list.save();
    made.keep = true;
    return key;
}

void revoke_site_key(const Path& dir, const std::string& name) {
    KeyList list(dir);
    net::AuthorizedKey* key = list.live(name);
    if (key == nullptr) {
        std::vector<std::string> names;
        bool revoked = false;
        for (const net::AuthorizedKey& one : list.keys) {
            if (!one.revoked) names.push_back(one.name);
            revoked = revoked || one.name == name;
        }
        const std::string nearest = nearest_name(name, names);
        throw fatal(ExitCode::kUsage, "{}: {}{}", list.file().string(),
                    revoked ? name + "'s key is revoked already" : "no site " + name,
                    nearest.empty() ? "" : "; did you mean " + nearest + "?");
    }
    key->revoked = true;
    list.save();
}

std::string describe_keys(const Path& path) {
    std::error_code error;
    if (!std::filesystem::is_directory(path, error))
        return good(net::read_key_file(path)).public_key + "\n";
    const auto files = posix_files();
    std::string text;
    // A site's own folder holds no secret of the coordinator.
    if (files->exists(path / kCoordinatorKeyFile)) {
        text += fmt::format("{}  coordinator\n",
                            good(net::read_key_file(path / kCoordinatorKeyFile)).public_key);
    }
    const Path list = path / kAuthorizedKeysFile;
    const auto keys =
        good(net::parse_authorized_keys(good(read_text(*files, list)), list.string()));
    for (const net::AuthorizedKey& key : keys)
        text +=
            fmt::format("{}  {}{}\n", key.public_key, key.name, key.revoked ? " (revoked)" : "");
    return text;
}

}  // namespace isthmus::launch
