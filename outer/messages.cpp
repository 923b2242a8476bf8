#include "outer/messages.hpp"

#include <algorithm>

#include "net/bytes.hpp"

namespace isthmus::outer {

namespace {

using net::ByteReader;
using net::ByteWriter;

/// Reads or writes the same list of fields, so that the two directions cannot differ.
struct Writer {
    ByteWriter out;
    void field(std::uint64_t v) { out.u64(v); }
    void field(Round v) { out.u64(v.value); }
    void field(const StateHash& v) { out.bytes(v); }
    void field(const std::string& v) { out.text(v); }
    void field(const std::vector<std::string>& v) {
        out.u32(static_cast<std::uint32_t>(v.size()));
        for (const auto& s : v) out.text(s);
    }
    void field(const std::vector<SiteId>& v) {
        out.u32(static_cast<std::uint32_t>(v.size()));
        for (SiteId s : v) out.u32(s.value);
    }
    void field(const std::vector<float>& v) {
        out.u32(static_cast<std::uint32_t>(v.size()));
        for (float x : v) out.f32(x);
    }
};

struct Reader {
    ByteReader in;
    void field(std::uint64_t& v) { v = in.u64(); }
    void field(Round& v) { v = Round(in.u64()); }
    void field(StateHash& v) {
        const auto bytes = in.bytes(v.size());
        std::copy(bytes.begin(), bytes.end(), v.begin());
    }
    void field(std::string& v) { v = in.text(); }
    void field(std::vector<std::string>& v) {
        v.resize(in.count(4));
        for (auto& s : v) s = in.text();
    }
    void field(std::vector<SiteId>& v) {
        v.resize(in.count(4));
        for (SiteId& s : v) s = SiteId(in.u32());
    }
    void field(std::vector<float>& v) {
        v.resize(in.count(4));
        for (float& x : v) x = in.f32();
    }
};

// M is the record, const when it is written.
template <class V, class M>
void fields(V& v, M& m) {
    using T = std::remove_const_t<M>;
    if constexpr (std::is_same_v<T, Hello>) {
        v.field(m.incarnation), v.field(m.config_hash), v.field(m.elements);
        v.field(m.state), v.field(m.listens);
    } else if constexpr (std::is_same_v<T, Start>) {
        v.field(m.speak_to);
    } else if constexpr (std::is_same_v<T, Ready>) {
        v.field(m.round), v.field(m.anchor), v.field(m.samples);
    } else if constexpr (std::is_same_v<T, Begin>) {
        v.field(m.round), v.field(m.contributors), v.field(m.weights);
    } else if constexpr (std::is_same_v<T, Vote> || std::is_same_v<T, Commit>) {
        v.field(m.round), v.field(m.result);
    } else if constexpr (std::is_same_v<T, Leave> || std::is_same_v<T, Stop>) {
        v.field(m.reason);
    } else if constexpr (std::is_same_v<T, Beat>) {
        v.field(m.progress);
    } else {
        static_assert(std::is_same_v<T, Farewell>);
    }
}

template <std::size_t I = 0>
Result<Message> decode_as(std::uint16_t kind, std::span<const std::byte> payload) {
    if constexpr (I == std::variant_size_v<Message>) {
        return Error{fmt::format("message refused: unknown kind {}", kind)};
    } else {
        if (kind != I) return decode_as<I + 1>(kind, payload);
        std::variant_alternative_t<I, Message> message;
        Reader reader{ByteReader(payload)};
        fields(reader, message);
        if (!reader.in.complete()) {
            return Error{
                fmt::format("message refused: {} bytes do not make kind {}", payload.size(), kind)};
        }
        return Message(std::move(message));
    }
}

}  // namespace

std::string hex(const StateHash& hash) {
    std::string text;
    for (std::byte b : hash) text += fmt::format("{:02x}", static_cast<unsigned>(b));
    return text;
}

std::uint16_t kind_of(const Message& message) {
    return static_cast<std::uint16_t>(message.index());
}

std::vector<std::byte> encode(const Message& message) {
    Writer writer;
    std::visit([&](const auto& m) { fields(writer, m); }, message);
    return writer.out.take();
}

Result<Message> decode(std::uint16_t kind, std::span<const std::byte> payload) {
    return decode_as(kind, payload);
}

}  // namespace isthmus::outer
