// `isthmus keys new | show | add | revoke`.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "base/error.hpp"
#include "launch/command.hpp"
#include "launch/keys.hpp"

namespace isthmus::launch {
namespace {

struct Words {
    Path path;
    std::string name, public_key;
    std::vector<std::string> sites;
};

void print(const std::string& text) {
    std::fputs(text.c_str(), stdout);
}

void add_new(CLI::App& keys, const std::shared_ptr<Words>& words) {
    auto* command = keys.add_subcommand(
        "new",
        "Keys of a run: a pair for the coordinator and each site, and the list of who may join");
    command->add_option("dir", words->path, "folder; made if missing")
        ->required()
        ->type_name("DIR");
    command->add_option("--sites", words->sites, "names, separated by commas")
        ->required()
        ->delimiter(',')
        ->type_name("NAME,...");
    command->footer(
        "Prints the coordinator's public key: net.coordinator_key of the run's configuration.\n"
        "Each site needs its own NAME.key (mode 0600) and no other secret.");
    command->callback([words] { print(make_run_keys(words->path, words->sites) + "\n"); });
}

void add_show(CLI::App& keys, const std::shared_ptr<Words>& words) {
    auto* command = keys.add_subcommand("show", "Public keys of a key file or of a folder");
    command->add_option("path", words->path, "a key file, or a folder of keys")
        ->required()
        ->type_name("FILE|DIR");
    command->callback([words] { print(describe_keys(words->path)); });
}

void add_add(CLI::App& keys, const std::shared_ptr<Words>& words) {
    auto* command = keys.add_subcommand("add", "Lets one more site in, while the run goes on");
    command->add_option("dir", words->path, "the run's folder of keys")
        ->required()
        ->type_name("DIR");
    command->add_option("name", words->name, "of the site")->required()->type_name("NAME");
    command
        ->add_option("public_key", words->public_key,
                     "of a pair that the site made; without it, NAME.key is made here")
        ->type_name("PUBLIC_KEY");
    command->footer("Prints the site's public key.");
    command->callback(
        [words] { print(add_site_key(words->path, words->name, words->public_key) + "\n"); });
}

void add_revoke(CLI::App& keys, const std::shared_ptr<Words>& words) {
    auto* command =
        keys.add_subcommand("revoke", "Lets a site in no more; a coordinator that runs notices");
    command->add_option("dir", words->path, "the run's folder of keys")
        ->required()
        ->type_name("DIR");
    command->add_option("name", words->name, "of the site")->required()->type_name("NAME");
    command->callback([words] { revoke_site_key(words->path, words->name); });
}

}  // namespace

void add_keys_command(CLI::App& app, CommandContext&) {
    auto* keys = app.add_subcommand("keys", "Who may join a run: key pairs and the list of names");
    keys->require_subcommand(1);
    const auto words = std::make_shared<Words>();
    add_new(*keys, words);
    add_show(*keys, words);
    add_add(*keys, words);
    add_revoke(*keys, words);
}

}  // namespace isthmus::launch
