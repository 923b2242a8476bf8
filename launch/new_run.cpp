#include "launch/new_run.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "launch/keys.hpp"

namespace isthmus::launch {

namespace {

/// As TOML writes it.
std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        out += c;
    }
    return out + '"';
}

std::string list(const std::vector<std::string>& items) {
    std::string out;
    for (const std::string& item : items) out += (out.empty() ? "" : ", ") + quoted(item);
    return "[" + out + "]";
}

Path file_of(const NewRun& run) {
    const Path file = run.file;
    return file.extension() == ".toml" ? file : Path(run.file + ".toml");
}

std::string outer_text(const NewRun& run) {
    return fmt::format(
        "\n[outer]\n"
        "# Each trains alone and meets the others after so many steps. More steps: less traffic.\n"
        "sites = {}\n"
        "sync_every_steps = 30\n"
        "# How parameters' changes travel: fp32 (4 bytes each), bf16 (2), int8 (about 1).\n"
        "codec = \"int8\"\n"
        "# Rounds after the first go on with so few sites when others are lost.\n"
        "min_sites = 1\n",
        list(run.sites));
}

std::string net_text(const NewRun& run, const std::string& keys,
                     const std::string& coordinator_key) {
    return fmt::format(
        "\n[net]\n"
        "# Who may join stands in authorized_keys there; a site on another machine needs this "
        "file,\n"
        "# its own NAME.key and nothing else of the folder.\n"
        "keys = {}\n"
        "coordinator_key = {}\n"
        "# Sites on several machines: where the coordinator and each site's data port are "
        "reached.\n"
        "# coordinator = [\"coordinator.example:7000\"]\n"
        "# coordinator_listen = \"*:7000\"\n"
        "# listen = [\"{} *:7001 {}.example:7001\"]\n"
        "# What is waited for may stand still for so long (seconds); other limits follow from it.\n"
        "round_budget_s = 60.0\n"
        "\n"
        "# An emulated thin link between the sites of one machine:\n"
        "# [link]\n"
        "# rate = \"20mbit\"\n"
        "# latency = \"50ms\"\n",
        quoted(keys), quoted(coordinator_key), run.sites.front(), run.sites.front());
}

void refuse_if_there(FileSystem& files, const Path& path) {
    if (!files.exists(path)) return;
    throw fatal(ExitCode::kUsage, "{} is there already: choose another name, or remove it",
                path.string());
}

}  // namespace

std::string new_run_text(const NewRun& run, const std::string& name, const std::string& keys,
                         const std::string& coordinator_key) {
    const std::string file = file_of(run).string();
    const bool several = run.sites.size() > 1;
    std::string text = fmt::format("#   isthmus train {}\n", file);
    if (several) {
        text += fmt::format(
            "# or, one process each and in any order:\n"
            "#   isthmus coordinator {}\n",
            file);
        for (const std::string& site : run.sites)
            text += fmt::format("#   isthmus site {} --name {}\n", file, site);
    }
    text += "# Every key with its help: isthmus config --defaults\n\n";
    text += fmt::format("name = {}\n", quoted(name));
    text += "# What `isthmus data prepare` or `data import` wrote.\n";
    text += fmt::format("data = {}\n", quoted(run.data));
    if (!run.run_folder.empty()) text += fmt::format("run_folder = {}\n", quoted(run.run_folder));
    text += fmt::format(
        "\n[model]\n"
        "preset = {}\n"
        "\n[train]\n"
        "steps = 1000\n"
        "# Sequences a step of one site.\n"
        "batch = 16\n"
        "eval_every = 200\n"
        "\n[optim]\n"
        "lr = 2e-3\n"
        "warmup_steps = 100\n",
        quoted(run.model));
    if (several) text += outer_text(run) + net_text(run, keys, coordinator_key);
    return text;
}

Path write_new_run(FileSystem& files, const NewRun& run) {
    const Path file = file_of(run);
    const std::string name = file.stem().string();
    const bool several = run.sites.size() > 1;
    const Path keys = file.parent_path() / (name + ".keys");
    refuse_if_there(files, file);
    if (several) refuse_if_there(files, keys);

    // Refuses what cannot be, before anything is written. The key is a stand-in: none is made yet.
    RunConfig config;
    load_config(describe_of(config), new_run_text(run, name, "", ""), file.string());
    config.resolve();

    std::string coordinator_key;
    if (several) coordinator_key = make_run_keys(keys, run.sites);
    const std::string text = new_run_text(run, name, keys.string(), coordinator_key);
    if (const Status written = replace_file(files, file, text); !written)
        throw fatal(ExitCode::kResources, "{}", written.error().message);
    return file;
}

}  // namespace isthmus::launch
