#include "outer/journal.hpp"

#include "base/record.hpp"

namespace isthmus::outer {

std::vector<std::byte> encode_record(const JournalRecord& record) {
    return pack(record);
}

Result<JournalRecord> decode_record(std::span<const std::byte> bytes) {
    return unpack<JournalRecord>(bytes);
}

}  // namespace isthmus::outer
