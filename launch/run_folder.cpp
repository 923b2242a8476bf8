#include "launch/run_folder.hpp"

#include "base/error.hpp"
#include "launch/records.hpp"

namespace isthmus::launch {

namespace {

void must(const Status& status, const char* advice) {
    if (!status) throw fatal(ExitCode::kResources, "{}: {}", status.error().message, advice);
}

/// Removes `name` below `folder` if it is there.
void remove_file(FileSystem& files, const Path& file) {
    if (files.exists(file)) must(files.remove(file), "remove it, or choose another --run folder");
}

/// The model first: a crash in between must not leave an old model beside a new configuration.
void clear_records(FileSystem& files, const Path& folder) {
    const Path model = folder / kModelName;
    if (files.exists(model)) {
        const auto entries = files.list(model);
        if (entries)
            for (const Path& file : *entries) remove_file(files, file);
    }
    for (const char* name : {kStepsName, kEvalsName, kDataName, kDoctorName, kRoundsName, kEndName,
                             kStatusName, kAddressName, kControlSocketName, kJournalName})
        remove_file(files, folder / name);
    for (const char* name : {kStepsName, kEvalsName, kRoundsName}) {
        for (int number = 1; files.exists(rotated_name(folder / name, number)); ++number)
            remove_file(files, rotated_name(folder / name, number));
    }
}

}  // namespace

void create_run_folder(FileSystem& files, const Path& folder, bool overwrite) {
    if (files.exists(folder)) {
        const auto entries = files.list(folder);
        if (!entries) {
            throw fatal(ExitCode::kUsage, "{}: choose another --run folder",
                        entries.error().message);
        }
        if (!entries->empty() && !overwrite) {
            throw fatal(ExitCode::kUsage,
                        "{} is in use: choose another folder with --run DIR, or give --overwrite "
                        "to replace that run",
                        folder.string());
        }
        if (!entries->empty() && !files.exists(folder / kConfigName)) {
            throw fatal(ExitCode::kUsage,
                        "{} is not empty and holds no {}, so it is no run: --overwrite replaces "
                        "only runs; choose another folder with --run DIR",
                        folder.string(), kConfigName);
        }
    }
    must(files.make_folders(folder), "choose another folder with --run DIR");
    const auto entries = files.list(folder);
    if (!entries) must(entries.error(), "the run needs a readable folder");
    for (const Path& entry : *entries)
        if (entry.filename().string().starts_with(kSitePrefix)) clear_records(files, entry);
    clear_records(files, folder);
}

Path site_folder(const Path& run_folder, const std::string& site) {
    return run_folder / (kSitePrefix + site);
}

void write_run_file(FileSystem& files, const Path& file, std::string_view content) {
    must(replace_file(files, file, content), "the run needs a writable folder with space");
}

Path find_model_folder(FileSystem& files, const Path& path) {
    if (files.exists(path / "config.json")) return path;
    if (files.exists(path / kModelName / "config.json")) return path / kModelName;
    if (!files.exists(path)) {
        throw fatal(ExitCode::kInput, "{}: no such folder; name a run or a Hugging Face folder",
                    path.string());
    }
    if (files.exists(path / kConfigName)) {
        throw fatal(ExitCode::kInput,
                    "{}: this run has no {}/ yet; it is written when the run ends or is stopped "
                    "with Ctrl-C",
                    path.string(), kModelName);
    }
    throw fatal(ExitCode::kInput,
                "{}: neither a Hugging Face folder (config.json and model.safetensors) nor a run",
                path.string());
}

}  // namespace isthmus::launch
