#include "outer/messages.hpp"

#include <fmt/core.h>

#include <array>

#include "base/record.hpp"

namespace isthmus::outer {

namespace {

constexpr std::array<std::string_view, kNumMessageKinds> kNames{
    "Hello",   "Ready",   "Vote",     "Pinned", "Leave",          "SiteBeat", "Identify",
    "Welcome", "Peers",   "Assign",   "Begin",  "Commit",         "Abandon",  "Pin",
    "Unpin",   "Restore", "Farewell", "Stop",   "CoordinatorBeat"};

template <std::size_t... I>
Result<Message> decode_one_of(std::uint16_t kind, std::span<const std::byte> payload,
                              std::index_sequence<I...>) {
    using Decode = Result<Message> (*)(std::span<const std::byte>);
    static constexpr Decode kDecoders[] = {[](std::span<const std::byte> bytes) -> Result<Message> {
        auto record = unpack<std::variant_alternative_t<I, Message>>(bytes);
        if (!record) return record.error();
        return Message(std::in_place_index<I>, std::move(*record));
    }...};
    return kDecoders[kind](payload);
}

}  // namespace

std::uint16_t kind_of(const Message& message) {
    return static_cast<std::uint16_t>(message.index());
}

std::string_view name_of(const Message& message) {
    return kNames[message.index()];
}

std::vector<std::byte> encode(const Message& message) {
    return std::visit([](const auto& record) { return pack(record); }, message);
}

Result<Message> decode(std::uint16_t kind, std::span<const std::byte> payload) {
    if (kind >= kNumMessageKinds) return Error{fmt::format("unknown kind of message {}", kind)};
    auto message = decode_one_of(kind, payload, std::make_index_sequence<kNumMessageKinds>());
    if (!message) return Error{fmt::format("{}: {}", kNames[kind], message.error().message)};
    return message;
}

}  // namespace isthmus::outer
