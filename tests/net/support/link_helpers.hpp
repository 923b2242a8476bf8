// Sending and receiving in tests, always within a bound.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "net/link.hpp"

namespace isthmus::net {

inline constexpr std::chrono::seconds kTestLimit{20};

inline std::vector<std::byte> bytes_of(std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
    return {bytes.begin(), bytes.end()};
}
inline std::string text_of(const Message& message) {
    return {reinterpret_cast<const char*>(message.bytes().data()), message.bytes().size()};
}

/// Asks until it is true, waiting on the links in between. False after the limit.
inline bool wait_until(const std::function<bool()>& done, const std::vector<Link*>& links = {}) {
    const auto end = std::chrono::steady_clock::now() + kTestLimit;
    std::vector<Interest> interests;
    for (Link* link : links) interests.push_back({.link = link});
    while (!done()) {
        if (std::chrono::steady_clock::now() >= end) return false;
        wait(interests, nullptr, std::chrono::milliseconds(20));
    }
    return true;
}

/// The next message within the limit, else a failure and an empty one.
inline Message next(Link& link) {
    std::optional<Message> message;
    if (!wait_until([&] { return (message = link.receive()).has_value(); }, {&link})) {
        ADD_FAILURE() << "no message came";
        return {};
    }
    return std::move(*message);
}

/// Sends once the queue takes it.
inline void send(Link& link, std::string_view text) {
    EXPECT_TRUE(wait_until([&] { return link.send(bytes_of(text)); })) << "the queue stays full";
}

}  // namespace isthmus::net
