#include "inner/data/jsonl.hpp"

#include <nlohmann/json.hpp>

#include "base/error.hpp"

namespace isthmus::inner {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kReadBytes = 256u << 10;

/// Picks one field of the outermost object while the parser goes by; builds no tree.
class FieldPicker final : public nlohmann::json_sax<Json> {
  public:
    FieldPicker(std::string_view field, std::string& text) : field_(field), text_(text) {}

    bool found = false;
    std::string problem;  // why parsing stopped

    bool null() override { return other("null"); }
    bool boolean(bool) override { return other("a boolean"); }
    bool number_integer(number_integer_t) override { return other("a number"); }
    bool number_unsigned(number_unsigned_t) override { return other("a number"); }
    bool number_float(number_float_t, const string_t&) override { return other("a number"); }
    bool binary(binary_t&) override { return other("binary"); }
    bool string(string_t& value) override {
        if (depth_ == 0) return other("");
        if (wanted()) {
            text_.swap(value);
            found = true;
        }
        return true;
    }
    bool start_object(std::size_t) override {
        if (wanted()) return other("an object");
        ++depth_;
        return true;
    }
    bool key(string_t& name) override {
        if (depth_ == 1) at_field_ = name == field_;
        return true;
    }
    bool end_object() override { return --depth_, true; }
    bool start_array(std::size_t) override {
        if (depth_ == 0 || wanted()) return other("an array");
        ++depth_;
        return true;
    }
    bool end_array() override { return --depth_, true; }
    bool parse_error(std::size_t position, const std::string&,
                     const nlohmann::detail::exception& error) override {
        // Without "[json.exception.parse_error.101] parse error at line 1, column 5: ".
        std::string_view what = error.what();
        if (const auto colon = what.find(": "); colon != what.npos) what.remove_prefix(colon + 2);
        problem = fmt::format("not valid JSON at its byte {}: {}", position, what);
        return false;
    }

  private:
    bool wanted() const { return depth_ == 1 && at_field_; }
    bool other(std::string_view kind) {
        if (depth_ == 0)
            problem = "not a JSON object";
        else if (wanted())
            problem = fmt::format("field \"{}\" is {}, not a string", field_, kind);
        return problem.empty();
    }

    std::string_view field_;
    std::string& text_;
    int depth_ = 0;
    bool at_field_ = false;
};

bool blank(std::string_view line) {
    return line.find_first_not_of(" \t\r") == line.npos;
}

}  // namespace

JsonlReader::JsonlReader(ByteSource& source, Path path, std::string field)
    : source_(source), path_(std::move(path)), field_(std::move(field)) {}

bool JsonlReader::next(std::string& text) {
    std::string_view line;
    do {
        if (!next_line(line)) return false;
    } while (blank(line));
    FieldPicker picker(field_, text);
    const bool parsed = Json::sax_parse(line.begin(), line.end(), &picker);
    if (parsed && picker.found) return true;
    if (parsed)
        picker.problem = fmt::format("no field \"{}\": name the text's field with --field", field_);
    throw fatal(ExitCode::kInput, "{}: line {}: {}", path_.string(), line_, picker.problem);
}

// The view holds until the next call.
bool JsonlReader::next_line(std::string_view& line) {
    std::size_t searched = begin_;
    while (true) {
        const std::size_t end = buffer_.find('\n', searched);
        if (end != buffer_.npos || (ended_ && begin_ < buffer_.size())) {
            line = std::string_view(buffer_).substr(begin_, std::min(end, buffer_.size()) - begin_);
            begin_ += line.size() + (end != buffer_.npos ? 1 : 0);
            ++line_;
            return true;
        }
        if (ended_) return false;
        buffer_.erase(0, begin_);
        begin_ = 0;
        searched = buffer_.size();
        if (searched > kMaxJsonlLineBytes)
            throw fatal(ExitCode::kInput, "{}: line {} is longer than {} MiB", path_.string(),
                        line_ + 1, kMaxJsonlLineBytes >> 20);
        buffer_.resize(searched + kReadBytes);
        const std::size_t count =
            source_.read(std::as_writable_bytes(std::span(buffer_).subspan(searched)));
        buffer_.resize(searched + count);
        ended_ = count == 0;
    }
}

}  // namespace isthmus::inner
