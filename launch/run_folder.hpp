// The folder of a run: who may write into it, and what is found where.
//
//   config.toml    the whole configuration as it was resolved; `isthmus train` reads it back
//   doctor.json    the machine and the libraries (`isthmus doctor --json`)
//   data.json      the token file: path, fingerprint, tokenizer, sizes
//   steps.jsonl    one object a step (records.hpp documents the fields)
//   evals.jsonl    one object an evaluation
//   journal        of a coordinator: every decision, durable (base/append_log.hpp)
//   model/         at the end: a Hugging Face folder
// Of a run with several sites (coordinate.hpp, round_records.hpp):
//   site-NAME/     the same records for each site, rounds.jsonl and end.json
//   journal, rounds.jsonl, status.json, coordinator.address, ctl.sock
//                  the coordinator's
#pragma once

#include <string>

#include "base/files.hpp"

namespace isthmus::launch {

inline constexpr const char* kConfigName = "config.toml";
inline constexpr const char* kDoctorName = "doctor.json";
inline constexpr const char* kDataName = "data.json";
inline constexpr const char* kStepsName = "steps.jsonl";
inline constexpr const char* kEvalsName = "evals.jsonl";
inline constexpr const char* kJournalName = "journal";
inline constexpr const char* kModelName = "model";
inline constexpr const char* kSitePrefix = "site-";
inline constexpr const char* kRoundsName = "rounds.jsonl";
inline constexpr const char* kEndName = "end.json";
inline constexpr const char* kStatusName = "status.json";
inline constexpr const char* kAddressName = "coordinator.address";
inline constexpr const char* kControlSocketName = "ctl.sock";

/// Makes the folder. One that already holds anything is refused unless `overwrite`, which removes
/// the records and the model of the run before; a used folder without config.toml is no run and is
/// always refused. ERRORS  throws Fatal(kUsage) for a used folder, Fatal(kResources) when the disk
/// refuses.
void create_run_folder(FileSystem&, const Path& folder, bool overwrite);

/// The folder of one site in a run of several.
Path site_folder(const Path& run_folder, const std::string& site);

/// Writes a small file of the run atomically. ERRORS throws Fatal(kResources) naming it.
void write_run_file(FileSystem&, const Path& file, std::string_view content);

/// The Hugging Face folder meant by `path`: itself, or its model/ when it is a run.
/// ERRORS  throws Fatal(kInput) when neither holds a config.json.
Path find_model_folder(FileSystem&, const Path& path);

}  // namespace isthmus::launch
