#include "checkpoint/safetensors_header.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.hpp"

namespace isthmus::checkpoint {
namespace {

constexpr std::size_t kMaxDims = 16;

FileType file_type(std::string_view name) {
    if (name == "F32") return FileType::kF32;
    if (name == "F16") return FileType::kF16;
    if (name == "BF16") return FileType::kBF16;
    return FileType::kOther;
}

/// Takes the parser's events one by one, so that no document is built and nothing nests deeper than
/// the format does: {"name": {"dtype": text, "shape": [n...], "data_offsets": [begin, end]}, ...}.
class HeaderHandler : public nlohmann::json_sax<nlohmann::json> {
  public:
    std::vector<TensorEntry> take() { return std::move(entries_); }
    const std::string& error() const { return error_; }

    bool start_object(std::size_t) override {
        if (state_ == State::kStart) return enter(State::kRoot);
        if (state_ == State::kRoot) return enter(metadata_ ? State::kMetadata : State::kEntry);
        return refuse("an object where none belongs");
    }
    bool key(string_t& name) override {
        if (state_ == State::kRoot) return start_entry(name);
        if (state_ == State::kMetadata) return true;
        return start_field(name);
    }
    bool end_object() override {
        if (state_ == State::kEntry) return finish_entry();
        return enter(state_ == State::kMetadata ? State::kRoot : State::kDone);
    }
    bool start_array(std::size_t) override {
        if (state_ == State::kEntry && field_ == kShape) return enter(State::kShapeArray);
        if (state_ == State::kEntry && field_ == kOffsets) return enter(State::kOffsetsArray);
        return refuse("a list where none belongs");
    }
    bool end_array() override {
        if (state_ == State::kOffsetsArray && offsets_ != 2) {
            return refuse("data_offsets are not two numbers");
        }
        return enter(State::kEntry);
    }
    bool string(string_t& value) override {
        if (state_ == State::kMetadata) return true;
        if (state_ != State::kEntry || field_ != kType) return refuse("text where none belongs");
        TensorEntry& e = entries_.back();
        e.type_name = value;
        e.type = file_type(value);
        if (type_bytes(value) == 0) return refuse("unknown type \"" + shown(value) + "\"");
        return true;
    }
    bool number_unsigned(number_unsigned_t value) override {
        if (state_ == State::kShapeArray) return add_dim(value);
        if (state_ == State::kOffsetsArray) return add_offset(value);
        return refuse("a number where none belongs");
    }
    bool number_integer(number_integer_t) override { return refuse("a negative number"); }
    bool number_float(number_float_t, const string_t&) override {
        return refuse("a number that is not a whole one below 2^64");
    }
    bool null() override { return refuse("null where none belongs"); }
    bool boolean(bool) override { return refuse("a truth value where none belongs"); }
    bool binary(binary_t&) override { return refuse("binary data"); }
    bool parse_error(std::size_t position, const std::string&,
                     const nlohmann::detail::exception&) override {
        error_ = fmt::format("bad JSON near byte {} of the header", position);
        return false;
    }

  private:
    enum class State { kStart, kRoot, kMetadata, kEntry, kShapeArray, kOffsetsArray, kDone };
    enum Field : unsigned { kNone = 0, kType = 1, kShape = 2, kOffsets = 4, kAll = 7 };

    bool enter(State next) {
        state_ = next;
        return true;
    }
    bool refuse(const std::string& what) {
        error_ = state_ >= State::kEntry && !entries_.empty()
                     ? fmt::format("tensor \"{}\": {}", shown(entries_.back().name), what)
                     : what;
        return false;
    }
    bool start_entry(const std::string& name) {
        metadata_ = name == "__metadata__";
        if (metadata_) {
            if (seen_metadata_) return refuse("__metadata__ stands twice");
            seen_metadata_ = true;
            return true;
        }
        entries_.emplace_back();
        entries_.back().name = name;
        seen_ = kNone;
        offsets_ = 0;
        return true;
    }
    bool start_field(const std::string& name) {
        field_ = name == "dtype"          ? kType
                 : name == "shape"        ? kShape
                 : name == "data_offsets" ? kOffsets
                                          : kNone;
        if (field_ == kNone) return refuse("unknown key \"" + shown(name) + "\"");
        if ((seen_ & field_) != 0) return refuse(name + " stands twice");
        seen_ |= field_;
        return true;
    }
    bool finish_entry() {
        if (seen_ != kAll) return refuse("dtype, shape or data_offsets is missing");
        field_ = kNone;
        return enter(State::kRoot);
    }
    bool add_dim(std::uint64_t value) {
        TensorEntry& e = entries_.back();
        if (value > static_cast<std::uint64_t>(INT64_MAX)) return refuse("a dimension over 2^63");
        if (e.dims.size() == kMaxDims) return refuse("more than 16 dimensions");
        e.dims.push_back(static_cast<std::int64_t>(value));
        return true;
    }
    bool add_offset(std::uint64_t value) {
        TensorEntry& e = entries_.back();
        if (offsets_ == 2) return refuse("data_offsets are not two numbers");
        (offsets_++ == 0 ? e.begin : e.end) = value;
        return true;
    }

    std::vector<TensorEntry> entries_;
    std::string error_;
    State state_ = State::kStart;
    bool metadata_ = false;  // the key just read at the root is __metadata__
    Field field_ = kNone;
    unsigned seen_ = 0;
    int offsets_ = 0;
    bool seen_metadata_ = false;
};

/// Bytes that dims and type ask for. False when that passes 2^63.
bool wanted_bytes(const TensorEntry& e, std::uint64_t& bytes) {
    bytes = type_bytes(e.type_name);
    for (const std::int64_t d : e.dims) {
        if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(d), &bytes)) return false;
    }
    return bytes <= static_cast<std::uint64_t>(INT64_MAX);
}

void check_entry(const TensorEntry& e, std::uint64_t data_bytes, const Path& path) {
    if (e.begin > e.end || e.end > data_bytes) {
        throw fatal(ExitCode::kInput,
                    "{}: tensor \"{}\" claims bytes {} to {}, but the file has {} bytes of data",
                    path.string(), shown(e.name), e.begin, e.end, data_bytes);
    }
    std::uint64_t bytes = 0;
    if (!wanted_bytes(e, bytes)) {
        throw fatal(ExitCode::kInput, "{}: the shape of tensor \"{}\" overflows", path.string(),
                    shown(e.name));
    }
    if (bytes != e.end - e.begin) {
        throw fatal(ExitCode::kInput,
                    "{}: tensor \"{}\" needs {} bytes by type and shape, but its range has {}",
                    path.string(), shown(e.name), bytes, e.end - e.begin);
    }
}

/// Ranges must tile the data: the format allows neither overlap nor gap.
void check_tiling(const std::vector<TensorEntry>& sorted, std::uint64_t data_bytes,
                  const Path& path) {
    std::uint64_t at = 0;
    for (const TensorEntry& e : sorted) {
        if (e.begin != at) {
            throw fatal(ExitCode::kInput, "{}: tensor \"{}\" begins at byte {}, but {} ends at {}",
                        path.string(), shown(e.name), e.begin,
                        e.begin < at ? "the one it overlaps" : "the data before its gap", at);
        }
        at = e.end;
    }
    if (at != data_bytes) {
        throw fatal(ExitCode::kInput,
                    "{}: the tensors end at byte {}, but the file has {} bytes of data",
                    path.string(), at, data_bytes);
    }
}

void check_names(const std::vector<TensorEntry>& entries, const Path& path) {
    std::vector<std::string_view> names;
    names.reserve(entries.size());
    for (const TensorEntry& e : entries) names.push_back(e.name);
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice != names.end()) {
        throw fatal(ExitCode::kInput, "{}: tensor \"{}\" stands twice in the header", path.string(),
                    shown(*twice));
    }
}

}  // namespace

std::string shown(std::string_view name) {
    std::string text(name.substr(0, 200));
    for (char& c : text) {
        if (static_cast<unsigned char>(c) < 32 || c == 127) c = '?';
    }
    return text;
}

std::uint64_t type_bytes(std::string_view name) {
    static constexpr std::pair<std::string_view, std::uint64_t> kTypes[] = {
        {"F32", 4},     {"F16", 2},     {"BF16", 2},    {"F64", 8}, {"I64", 8}, {"U64", 8},
        {"I32", 4},     {"U32", 4},     {"I16", 2},     {"U16", 2}, {"I8", 1},  {"U8", 1},
        {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F8_E8M0", 1}, {"C64", 8}, {"BOOL", 1}};
    for (const auto& [type, bytes] : kTypes) {
        if (type == name) return bytes;
    }
    return 0;
}

std::vector<TensorEntry> parse_header(std::string_view json, std::uint64_t data_bytes,
                                      const Path& path) {
    HeaderHandler handler;
    if (json.empty() || json.front() != '{' ||
        !nlohmann::json::sax_parse(json.begin(), json.end(), &handler)) {
        throw fatal(ExitCode::kInput, "{}: not a safetensors file, or damaged: {}", path.string(),
                    handler.error().empty() ? "the header does not begin with {" : handler.error());
    }
    std::vector<TensorEntry> entries = handler.take();
    check_names(entries, path);
    for (const TensorEntry& e : entries) check_entry(e, data_bytes, path);
    std::sort(entries.begin(), entries.end(), [](const TensorEntry& a, const TensorEntry& b) {
        return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    check_tiling(entries, data_bytes, path);
    return entries;
}

std::int64_t TensorEntry::count() const {
    std::int64_t n = 1;
    for (const std::int64_t d : dims) n *= d;
    return n;
}

}  // namespace isthmus::checkpoint
