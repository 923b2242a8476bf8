#include "net/frame.hpp"

#include <algorithm>
#include <array>

#include "base/hash.hpp"
#include "net/bytes.hpp"

namespace isthmus::net {

namespace {

constexpr std::uint32_t kMagic = 0x48545349;  // "ISTH"
constexpr std::size_t kChecksumOffset = 32;

std::uint64_t checksum(std::span<const std::byte> header, std::span<const std::byte> payload) {
    Hasher hasher;
    hasher.update(header.first(kChecksumOffset));
    hasher.update(payload);
    return hasher.digest();
}

template <class... Args>
Error refused(fmt::format_string<Args...> format, Args&&... args) {
    return Error{"frame refused: " + fmt::format(format, std::forward<Args>(args)...)};
}

}  // namespace

void write_frame_header(std::span<std::byte, kFrameHeaderBytes> out, RunId run,
                        const Frame& frame) {
    ByteWriter header;
    header.u32(kMagic);
    header.u16(kFrameVersion);
    header.u16(frame.kind);
    header.u64(run.value);
    header.u32(frame.sender.value);
    header.u32(0);
    header.u64(frame.payload.size());
    header.u64(checksum(header.data(), frame.payload));
    CHECK(header.data().size() == kFrameHeaderBytes);
    std::copy(header.data().begin(), header.data().end(), out.begin());
}

std::vector<std::byte> make_frame(RunId run, const Frame& frame) {
    std::vector<std::byte> bytes(kFrameHeaderBytes + frame.payload.size());
    write_frame_header(std::span(bytes).first<kFrameHeaderBytes>(), run, frame);
    std::copy(frame.payload.begin(), frame.payload.end(), bytes.begin() + kFrameHeaderBytes);
    return bytes;
}

Result<Frame> parse_frame(std::span<const std::byte> bytes, const FrameRules& rules) {
    if (bytes.size() < kFrameHeaderBytes) {
        return refused("{} bytes are less than a header of {}", bytes.size(), kFrameHeaderBytes);
    }
    ByteReader header(bytes.first(kFrameHeaderBytes));
    const std::uint32_t magic = header.u32();
    const std::uint16_t version = header.u16();
    const std::uint16_t kind = header.u16();
    const RunId run(header.u64());
    const SiteId sender(header.u32());
    const std::uint32_t reserved = header.u32();
    const std::uint64_t size = header.u64();
    const std::uint64_t sum = header.u64();
    const auto payload = bytes.subspan(kFrameHeaderBytes);

    if (magic != kMagic) return refused("not from isthmus (first bytes {:08x})", magic);
    if (version != kFrameVersion) {
        return refused("version {}, this build speaks {}; run the same build everywhere", version,
                       kFrameVersion);
    }
    if (run != rules.run) {
        return refused("of run {:016x}, this is run {:016x}", run.value, rules.run.value);
    }
    if (kind >= rules.num_kinds) return refused("unknown kind {}", kind);
    if (reserved != 0) return refused("reserved field is {}", reserved);
    if (size > rules.max_payload_bytes) {
        return refused("{} bytes of payload, at most {} are taken", size, rules.max_payload_bytes);
    }
    if (size != payload.size()) {
        return refused("header says {} bytes of payload, {} came", size, payload.size());
    }
    if (sum != checksum(bytes.first(kFrameHeaderBytes), payload)) {
        return refused("damaged on the way (checksum), kind {} from {}", kind, sender.value);
    }
    return Frame{.kind = kind, .sender = sender, .payload = payload};
}

}  // namespace isthmus::net
