#include "launch/hugging_face_folder.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "base/check.hpp"
#include "base/error.hpp"
#include "inner/model/hugging_face.hpp"

namespace isthmus::launch {
namespace {

using checkpoint::FileType;
using checkpoint::SafetensorsReader;
using checkpoint::SafetensorsWriter;
using checkpoint::TensorEntry;
using inner::TensorName;

constexpr std::int64_t kBlockElements = 1 << 18;  // transposed tensors pass through 1 MiB blocks

std::string dims_text(const std::vector<std::int64_t>& dims) {
    std::string text = "[";
    for (const std::int64_t d : dims) {
        text += (text.size() > 1 ? ", " : "") + std::to_string(d);
    }
    return text + "]";
}

/// Older folders, and those of a base model, leave out "transformer." or "model.".
std::string without_root(const std::string& name) {
    for (const std::string_view root : {"transformer.", "model."}) {
        if (name.starts_with(root)) return name.substr(root.size());
    }
    return name;
}

/// A tensor of the model and the entry that holds it.
struct Source {
    TensorName tensor;
    const TensorEntry* entry = nullptr;
};

Source find_source(const SafetensorsReader& reader, TensorName tensor, const Path& folder) {
    const TensorEntry* entry = reader.find(tensor.name);
    if (entry == nullptr) entry = reader.find(without_root(tensor.name));
    if (entry == nullptr) {
        throw fatal(ExitCode::kInput, "{}: tensor \"{}\" is missing", folder.string(), tensor.name);
    }
    if (entry->dims != tensor.dims) {
        throw fatal(ExitCode::kInput, "{}: tensor \"{}\" has shape {}, but config.json asks for {}",
                    folder.string(), entry->name, dims_text(entry->dims), dims_text(tensor.dims));
    }
    if (entry->type == FileType::kOther) {
        throw fatal(ExitCode::kInput,
                    "{}: tensor \"{}\" has type {}: only F32, F16 and BF16 can be read",
                    folder.string(), entry->name, entry->type_name);
    }
    return {std::move(tensor), entry};
}

void refuse_unknown(const SafetensorsReader& reader, const std::vector<Source>& sources,
                    const inner::ModelConfig& config, const Path& folder) {
    std::set<std::string_view> known;
    for (const Source& s : sources) known.insert(s.entry->name);
    for (const TensorEntry& e : reader.tensors()) {
        if (known.count(e.name) == 0 && !inner::is_redundant_tensor(config, e.name)) {
            throw fatal(ExitCode::kInput,
                        "{}: tensor \"{}\" belongs to nothing that config.json describes",
                        folder.string(), e.name);
        }
    }
}

/// The file's [in, out] into our [out, in], by blocks of the file's rows.
void read_transposed(SafetensorsReader& reader, const Source& source, std::span<float> out) {
    const std::int64_t in = source.tensor.dims[0], width = source.tensor.dims[1];
    const std::int64_t rows = std::clamp<std::int64_t>(kBlockElements / width, 1, in);
    std::vector<float> block(static_cast<std::size_t>(rows * width));
    for (std::int64_t first = 0; first < in; first += rows) {
        const std::int64_t n = std::min(rows, in - first);
        reader.read(*source.entry, first * width,
                    std::span(block).first(static_cast<std::size_t>(n * width)));
        for (std::int64_t o = 0; o < width; ++o) {
            for (std::int64_t i = 0; i < n; ++i) {
                out[static_cast<std::size_t>(o * in + first + i)] =
                    block[static_cast<std::size_t>(i * width + o)];
            }
        }
    }
}

void write_transposed(SafetensorsWriter& writer, const TensorName& tensor,
                      std::span<const float> values) {
    const std::int64_t in = tensor.dims[0], width = tensor.dims[1];
    const std::int64_t rows = std::clamp<std::int64_t>(kBlockElements / width, 1, in);
    std::vector<float> block(static_cast<std::size_t>(rows * width));
    for (std::int64_t first = 0; first < in; first += rows) {
        const std::int64_t n = std::min(rows, in - first);
        for (std::int64_t o = 0; o < width; ++o) {
            for (std::int64_t i = 0; i < n; ++i) {
                block[static_cast<std::size_t>(i * width + o)] =
                    values[static_cast<std::size_t>(o * in + first + i)];
            }
        }
        writer.write(std::span<const float>(block).first(static_cast<std::size_t>(n * width)));
    }
}

std::size_t count(const TensorName& t) {
    std::int64_t n = 1;
    for (const std::int64_t d : t.dims) n *= d;
    return static_cast<std::size_t>(n);
}

std::string read_config_text(FileSystem& files, const Path& folder) {
    const Path path = folder / "config.json";
    if (!files.exists(path)) {
        throw fatal(ExitCode::kInput, "{}: no config.json in it, so not a (finished) model folder",
                    folder.string());
    }
    auto text = read_text(files, path);
    if (!text) throw fatal(ExitCode::kInput, "{}", text.error().message);
    return std::move(*text);
}

void throw_unless(const Status& status) {
    if (!status) throw fatal(ExitCode::kResources, "{}", status.error().message);
}

/// A config.json of another model must not describe the new tensors, not even for a moment.
void remove_other_config(FileSystem& files, const Path& path, const std::string& text) {
    if (!files.exists(path)) return;
    const auto old = read_text(files, path);
    if (old && *old == text) return;
    throw_unless(files.remove(path));
    throw_unless(files.sync_folder(path.parent_path()));
}

/// config.json as a temporary file, so that putting it in place later needs no disk space.
class StagedConfig {
  public:
    StagedConfig(FileSystem& files, Path path, const std::string& text)
        : files_(files), path_(std::move(path)), temporary_(path_) {
        temporary_ += ".tmp";
        auto file = files_.create(temporary_);
        if (!file) throw fatal(ExitCode::kResources, "{}", file.error().message);
        staged_ = true;
        Status status = (*file)->append(std::as_bytes(std::span(text)));
        if (status) status = (*file)->sync();
        if (status) status = (*file)->close();
        if (!status) discard();
        throw_unless(status);
    }
    ~StagedConfig() { discard(); }
    StagedConfig(const StagedConfig&) = delete;
    StagedConfig& operator=(const StagedConfig&) = delete;

    void commit() {
        throw_unless(files_.rename(temporary_, path_));
        staged_ = false;
        throw_unless(files_.sync_folder(path_.parent_path()));
    }

  private:
    /// An error is already on its way to the user.
    void discard() {
        if (staged_) (void)files_.remove(temporary_).has_value();
        staged_ = false;
    }

    FileSystem& files_;
    Path path_, temporary_;
    bool staged_ = false;
};

}  // namespace

ModelFolder load_model_folder(FileSystem& files, const Path& folder) {
    ModelFolder model;
    model.config = inner::from_hugging_face(read_config_text(files, folder),
                                            (folder / "config.json").string(), &model.notes);
    model.layout = inner::make_layout(model.config);
    std::shared_ptr<SafetensorsReader> reader = SafetensorsReader::open(files, folder);
    std::vector<Source> sources;
    for (TensorName& t : inner::hugging_face_tensors(model.config, model.layout)) {
        sources.push_back(find_source(*reader, std::move(t), folder));
    }
    refuse_unknown(*reader, sources, model.config, folder);

    std::vector<std::int64_t> unit_counts;
    for (const inner::Unit& u : model.layout.units) unit_counts.push_back(u.count);
    model.read_unit = [reader, sources = std::move(sources), unit_counts = std::move(unit_counts)](
                          UnitId id, std::span<float> out) {
        CHECK(static_cast<std::int64_t>(out.size()) == unit_counts.at(id.value));
        for (const Source& s : sources) {
            if (s.tensor.unit != id) continue;
            const auto part =
                out.subspan(static_cast<std::size_t>(s.tensor.offset), count(s.tensor));
            if (s.tensor.transposed) {
                read_transposed(*reader, s, part);
            } else {
                reader->read(*s.entry, 0, part);
            }
        }
    };
    return model;
}

void save_model_folder(FileSystem& files, const Path& folder, const inner::ModelConfig& config,
                       const inner::Layout& layout,
                       const std::function<std::span<const float>(UnitId)>& parameters,
                       FileType type) {
    const std::string config_text = inner::to_hugging_face(config);
    const std::vector<TensorName> names = inner::hugging_face_tensors(config, layout);
    std::vector<SafetensorsWriter::Tensor> tensors;
    for (const TensorName& t : names) tensors.push_back({t.name, type, t.dims});

    throw_unless(files.make_folders(folder));
    auto writer = SafetensorsWriter::create(files, folder / "model.safetensors", std::move(tensors),
                                            {{"format", "pt"}});
    for (const TensorName& t : names) {
        const auto values =
            parameters(t.unit).subspan(static_cast<std::size_t>(t.offset), count(t));
        if (t.transposed) {
            write_transposed(*writer, t, values);
        } else {
            writer->write(values);
        }
    }
    StagedConfig config_file(files, folder / "config.json", config_text);
    writer->finish([&] { remove_other_config(files, folder / "config.json", config_text); });
    config_file.commit();
}

}  // namespace isthmus::launch
