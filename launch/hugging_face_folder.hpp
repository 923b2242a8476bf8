// A Hugging Face folder as parameters: joins inner/'s names and layout with checkpoint/'s files.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/files.hpp"
#include "base/ids.hpp"
#include "checkpoint/safetensors.hpp"
#include "inner/model/config.hpp"
#include "inner/model/layout.hpp"

namespace isthmus::launch {

/// A model in a folder, opened and checked, its tensors not read yet.
struct ModelFolder {
    inner::ModelConfig config;  ///< resolved
    inner::Layout layout;
    std::vector<std::string>
        notes;  ///< what is worth a line in the log (dropout that is not applied)
    /// Fills a unit's flat buffer. REQUIRES out.size() == layout[id].count. May be called in any
    /// order, and again. Memory beside `out`: a few MB at most. ERRORS throws Fatal(kInput): read
    /// error, with file and offset.
    std::function<void(UnitId, std::span<float> out)> read_unit;
};

/// Reads config.json and the headers; every tensor's name, type and shape is checked here.
/// ERRORS throws Fatal(kInput), one line: see from_hugging_face and SafetensorsReader::open;
/// besides a tensor that is missing, unknown, of another shape, or no float.
ModelFolder load_model_folder(FileSystem&, const Path& folder);

/// Writes model.safetensors, then config.json. Until config.json is in place the folder does not
/// load, and an older model in it is kept until the new file is complete. `parameters` gives a
/// unit's flat buffer. REQUIRES a layout of `config`. ERRORS throws Fatal(kUsage) (see
/// to_hugging_face), Fatal(kResources) naming path and errno.
void save_model_folder(FileSystem&, const Path& folder, const inner::ModelConfig& config,
                       const inner::Layout& layout,
                       const std::function<std::span<const float>(UnitId)>& parameters,
                       checkpoint::FileType type = checkpoint::FileType::kF32);

}  // namespace isthmus::launch
