// Reading: one file or a folder's shards, as one set of tensors.
#include "checkpoint/safetensors.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include "base/bf16.hpp"
#include "base/check.hpp"
#include "base/error.hpp"
#include "checkpoint/safetensors_header.hpp"

namespace isthmus::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors data is little endian");

constexpr const char* kSingleName = "model.safetensors";
constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr std::size_t kMaxShards = 512;              // each stays open
constexpr std::size_t kConvertElements = 64 * 1024;  // buffer of a converting read: 128 KiB

/// IEEE half to float, exact: both have the same kinds of values.
float half_to_float(std::uint16_t half) {
    const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
    const std::uint32_t exponent = (half >> 10) & 0x1fu;
    const std::uint32_t fraction = half & 0x3ffu;
    if (exponent == 0) {  // zero or subnormal: fraction x 2^-24
        const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
        return sign != 0 ? -magnitude : magnitude;
    }
    const std::uint32_t wide = exponent == 31 ? 255u : exponent + 127u - 15u;
    return std::bit_cast<float>(sign | (wide << 23) | (fraction << 13));
}

void read_or_throw(ReadableFile& file, std::uint64_t offset, std::span<std::byte> out) {
    const Status status = file.read_at(offset, out);
    if (!status) throw fatal(ExitCode::kInput, "{}", status.error().message);
}

/// One open file: its entries, and where its data begins.
struct Shard {
    std::unique_ptr<ReadableFile> file;
    std::uint64_t data_begin = 0;
    std::vector<TensorEntry> entries;
};

Shard open_shard(FileSystem& files, const Path& path) {
    auto opened = files.open(path);
    if (!opened) throw fatal(ExitCode::kInput, "{}", opened.error().message);
    Shard shard;
    shard.file = std::move(*opened);
    const std::uint64_t size = shard.file->size();
    if (size < kLengthBytes) {
        throw fatal(ExitCode::kInput, "{}: not a safetensors file: {} bytes long", path.string(),
                    size);
    }
    std::array<std::byte, kLengthBytes> raw{};
    read_or_throw(*shard.file, 0, raw);
    const auto length = std::bit_cast<std::uint64_t>(raw);
    if (length > kMaxHeaderBytes || length > size - kLengthBytes) {
        throw fatal(ExitCode::kInput,
                    "{}: not a safetensors file, or truncated: it claims a header of {} bytes, the "
                    "file has {} (and the limit is {})",
                    path.string(), length, size, kMaxHeaderBytes);
    }
    std::string header(length, '\0');
    read_or_throw(*shard.file, kLengthBytes, std::as_writable_bytes(std::span(header)));
    shard.data_begin = kLengthBytes + length;
    shard.entries = parse_header(header, size - shard.data_begin, path);
    return shard;
}

class Reader : public SafetensorsReader {
  public:
    /// Takes a shard's tensors in. ERRORS throws Fatal(kInput) for a name that an earlier shard
    /// has.
    void add(Shard shard, const Path& path) {
        for (TensorEntry& e : shard.entries) {
            if (!places_.emplace(e.name, Place{entries_.size(), shards_.size()}).second) {
                throw fatal(ExitCode::kInput, "{}: tensor \"{}\" is in another shard too",
                            path.string(), shown(e.name));
            }
            entries_.push_back(std::move(e));
        }
        shard.entries.clear();
        shards_.push_back(std::move(shard));
    }

    const std::vector<TensorEntry>& tensors() const override { return entries_; }
    const TensorEntry* find(const std::string& name) const override {
        const auto it = places_.find(name);
        return it == places_.end() ? nullptr : &entries_[it->second.entry];
    }

    void read(const TensorEntry& wanted, std::int64_t first, std::span<float> out) override {
        const auto it = places_.find(wanted.name);
        CHECK(it != places_.end(), "tensor {} is not of this file", wanted.name);
        const TensorEntry& entry = entries_[it->second.entry];
        const auto n = static_cast<std::int64_t>(out.size());
        CHECK(first >= 0 && n <= entry.count() && first <= entry.count() - n,
              "tensor {}: elements {} to {} of {}", entry.name, first, first + n, entry.count());
        if (entry.type == FileType::kOther) {
            throw fatal(ExitCode::kInput,
                        "tensor \"{}\" has type {}: only F32, F16 and BF16 can be read",
                        shown(entry.name), entry.type_name);
        }
        const Shard& shard = shards_[it->second.shard];
        const std::uint64_t element_bytes = type_bytes(entry.type_name);
        const std::uint64_t begin =
            shard.data_begin + entry.begin + static_cast<std::uint64_t>(first) * element_bytes;
        if (entry.type == FileType::kF32) {
            read_or_throw(*shard.file, begin, std::as_writable_bytes(out));
        } else {
            read_narrow(*shard.file, entry.type, begin, out);
        }
    }

  private:
    struct Place {
        std::size_t entry = 0;
        std::size_t shard = 0;
    };

    static void read_narrow(ReadableFile& file, FileType type, std::uint64_t begin,
                            std::span<float> out) {
        std::vector<std::uint16_t> raw(std::min(out.size(), kConvertElements));
        for (std::size_t done = 0; done < out.size(); done += raw.size()) {
            const std::size_t n = std::min(raw.size(), out.size() - done);
            read_or_throw(file, begin + 2 * done, std::as_writable_bytes(std::span(raw).first(n)));
            for (std::size_t i = 0; i < n; ++i) {
                out[done + i] =
                    type == FileType::kF16 ? half_to_float(raw[i]) : to_float(bf16{raw[i]});
            }
        }
    }

    std::vector<TensorEntry> entries_;
    std::unordered_map<std::string, Place> places_;
    std::vector<Shard> shards_;
};

/// A shard is a plain file name: an index must not lead outside its folder.
void check_shard_name(const std::string& name, const Path& index) {
    const bool plain = !name.empty() && name != "." && name != ".." && name.size() < 256 &&
                       name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
    if (!plain) {
        throw fatal(ExitCode::kInput, "{}: the shard name \"{}\" is not a plain file name",
                    index.string(), shown(name));
    }
}

/// Shard -> tensors that the index says it holds.
std::map<std::string, std::vector<std::string>> read_index(FileSystem& files, const Path& path) {
    auto text = read_text(files, path);
    if (!text) throw fatal(ExitCode::kInput, "{}", text.error().message);
    const auto json = nlohmann::json::parse(*text, nullptr, false);
    if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object()) {
        throw fatal(ExitCode::kInput, "{}: not an index: no \"weight_map\" object in it",
                    path.string());
    }
    std::map<std::string, std::vector<std::string>> shards;
    for (const auto& [tensor, shard] : json["weight_map"].items()) {
        if (!shard.is_string()) {
            throw fatal(ExitCode::kInput, "{}: the shard of tensor \"{}\" is not text",
                        path.string(), shown(tensor));
        }
        check_shard_name(shard.get<std::string>(), path);
        shards[shard.get<std::string>()].push_back(tensor);
    }
    if (shards.empty() || shards.size() > kMaxShards) {
        throw fatal(ExitCode::kInput, "{}: names {} shards (1 to {} can be read)", path.string(),
                    shards.size(), kMaxShards);
    }
    return shards;
}

std::unique_ptr<Reader> open_sharded(FileSystem& files, const Path& folder) {
    const Path index = folder / kIndexName;
    auto reader = std::make_unique<Reader>();
    for (const auto& [name, tensors] : read_index(files, index)) {
        const Path path = folder / name;
        if (!files.exists(path)) {
            throw fatal(ExitCode::kInput, "{}: the index names this shard, but it is missing",
                        path.string());
        }
        Shard shard = open_shard(files, path);
        std::set<std::string_view> held;
        for (const TensorEntry& e : shard.entries) held.insert(e.name);
        for (const std::string& tensor : tensors) {
            if (held.count(tensor) == 0) {
                throw fatal(ExitCode::kInput,
                            "{}: the index puts tensor \"{}\" here, but it is not", path.string(),
                            tensor);
            }
        }
        reader->add(std::move(shard), path);
    }
    return reader;
}

std::unique_ptr<Reader> open_single(FileSystem& files, const Path& path) {
    auto reader = std::make_unique<Reader>();
    reader->add(open_shard(files, path), path);
    return reader;
}

}  // namespace

std::unique_ptr<SafetensorsReader> SafetensorsReader::open(FileSystem& files, const Path& path) {
    if (files.exists(path / kSingleName)) return open_single(files, path / kSingleName);
    if (files.exists(path / kIndexName)) return open_sharded(files, path);
    if (path.extension() == ".safetensors" && files.exists(path)) return open_single(files, path);
    throw fatal(ExitCode::kInput,
                "{}: neither a .safetensors file nor a folder that holds {} or {}", path.string(),
                kSingleName, kIndexName);
}

}  // namespace isthmus::checkpoint
