// One text field of each line of a .jsonl file.
#pragma once

#include <string>

#include "inner/data/byte_source.hpp"

namespace isthmus::inner {

inline constexpr std::size_t kMaxJsonlLineBytes = 64u << 20;

/// Memory: the longest line, at most kMaxJsonlLineBytes, twice. Other fields are parsed but never
/// stored.
class JsonlReader {
  public:
    /// `path` for messages. The source must outlive the reader.
    JsonlReader(ByteSource&, Path, std::string field);

    /// The field's text of the next line that is not blank; false at the end.
    /// ERRORS throws Fatal(kInput) naming file and line: not JSON, not an object, the field missing
    /// or not a string, a line too long; and what the source throws.
    bool next(std::string& text);

  private:
    bool next_line(std::string_view& line);

    ByteSource& source_;
    Path path_;
    std::string field_;
    std::string buffer_;
    std::size_t begin_ = 0;  // of what was not yet handed out
    std::uint64_t line_ = 0;
    bool ended_ = false;
};

}  // namespace isthmus::inner
