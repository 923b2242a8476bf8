// The safetensors format: u64 header length, JSON header, data. Reader refuses before it allocates.
// Format: huggingface.co/docs/safetensors (version 0.x, unchanged since).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/files.hpp"

namespace isthmus::checkpoint {

enum class FileType { kF32, kF16, kBF16, kOther };

struct TensorEntry {
    std::string name;
    FileType type = FileType::kF32;
    std::string type_name;  ///< as written: "F32", "I64", ...
    std::vector<std::int64_t> dims;
    std::uint64_t begin = 0, end = 0;  ///< bytes from the data's start
    std::int64_t count() const;
};

/// One .safetensors file, or a folder's: model.safetensors, or the sharded kind with
/// model.safetensors.index.json.
class SafetensorsReader {
  public:
    /// ERRORS throws Fatal(kInput) naming file and what lies: header length beyond the file or 100
    /// MB, bad JSON, unknown type, dims x size != range, overlap, gap, range outside the file,
    /// duplicate name, a shard that the index names but the folder lacks, an index that leads
    /// outside the folder.
    static std::unique_ptr<SafetensorsReader> open(FileSystem&, const Path& file_or_folder);
    virtual ~SafetensorsReader() = default;
    virtual const std::vector<TensorEntry>& tensors() const = 0;
    virtual const TensorEntry* find(const std::string& name) const = 0;
    /// Elements [first, first + out.size()) of a tensor as fp32 (F32, F16, BF16).
    /// ERRORS throws Fatal(kInput): read error with file and offset; a type that is no float.
    virtual void read(const TensorEntry&, std::int64_t first, std::span<float> out) = 0;
};

/// Writes one file: the header first, then tensors in the order declared, each by pieces. Appears
/// under its name by rename after fsync.
class SafetensorsWriter {
  public:
    struct Tensor {
        std::string name;
        FileType type = FileType::kF32;  ///< kF32 or kBF16
        std::vector<std::int64_t> dims;
    };
    /// ERRORS throws Fatal(kResources) naming path and errno (disk full, read-only).
    static std::unique_ptr<SafetensorsWriter> create(
        FileSystem&, const Path&, std::vector<Tensor>,
        std::vector<std::pair<std::string, std::string>> metadata = {});
    virtual ~SafetensorsWriter() = default;
    /// The next values of the current tensor, in order; converts to the declared type.
    virtual void write(std::span<const float> values) = 0;
    /// CHECKs that every element was written; fsync, `before_rename` (no disk space is needed from
    /// here on), rename, fsync of the folder.
    virtual void finish(const std::function<void()>& before_rename = {}) = 0;
};

}  // namespace isthmus::checkpoint
