// Sockets: ZeroMQ behind a small contract, so that its headers and its habits stay in one file.
//
// ZeroMQ's contract that we rely on: a message arrives whole or not at all; two messages over one
// connection keep their order; a lost connection is built up again, and what was under way may be
// lost.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace isthmus::net {

/// Threads and memory of all sockets. Built by main or a test, outlives every link.
/// THREAD  safe; links are not.
class Context {
  public:
    Context();
    ~Context();
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;

  private:
    friend class Link;
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

/// Another thread's knock at a wait().
/// THREAD  notify from any thread, the rest from the one that waits.
class WakeUp {
  public:
    WakeUp();
    ~WakeUp();
    WakeUp(const WakeUp&) = delete;
    WakeUp& operator=(const WakeUp&) = delete;
    void notify();
    void clear();
    int descriptor() const { return descriptor_; }

  private:
    int descriptor_ = -1;
};

enum class LinkKind {
    kServer,    ///< hears many clients and answers each by its PeerId
    kClient,    ///< speaks with one server, both ways
    kSender,    ///< one way, to one receiver
    kReceiver,  ///< one way, from one sender
};

/// Which connection of a server a message came over. Tells connections apart, not identities.
using PeerId = std::string;

struct LinkOptions {
    std::size_t max_message_bytes = 64 << 10;  ///< a larger one ends its connection unread
    int queue_messages = 64;                   ///< a direction; a full queue refuses the next send
};

/// A received message.
class Message {
  public:
    Message();
    ~Message();
    Message(Message&&) noexcept;
    Message& operator=(Message&&) noexcept;
    std::span<const std::byte> bytes() const;
    const PeerId& from() const { return from_; }  ///< servers only

  private:
    friend class Link;
    struct Impl;
    std::unique_ptr<Impl> impl_;
    PeerId from_;
};

/// One socket.
/// THREAD  owned by the thread that uses it first; any other use aborts (CHECK).
class Link {
  public:
    /// Listens on a port of 127.0.0.1 that the system chooses. ERRORS the system's reason.
    static Result<std::unique_ptr<Link>> listen(Context&, LinkKind, const LinkOptions& = {});
    /// Connects in the background, again and again until the other side is there. An endpoint that
    /// is not "tcp://127.0.0.1:PORT" is refused: nothing is encrypted yet.
    static Result<std::unique_ptr<Link>> connect(Context&, LinkKind, const std::string& endpoint,
                                                 const LinkOptions& = {});
    ~Link();

    /// "tcp://127.0.0.1:PORT".
    const std::string& endpoint() const { return endpoint_; }

    /// Queues a message made of the parts; false if the queue is full or the peer is gone.
    /// `to` is for servers only. Never blocks.
    bool send(std::span<const std::byte> first, std::span<const std::byte> second = {},
              const PeerId& to = {});
    /// The next message if one is here. Never blocks.
    std::optional<Message> receive();

  private:
    friend void wait(std::span<const struct Interest>, const WakeUp*, std::chrono::milliseconds);
    struct Impl;
    explicit Link(std::unique_ptr<Impl>);
    static Result<std::unique_ptr<Link>> open(Context&, LinkKind, const LinkOptions&,
                                              std::string_view endpoint);
    std::unique_ptr<Impl> impl_;
    std::string endpoint_;
};

struct Interest {
    Link* link = nullptr;
    bool readable = true;
    bool writable = false;
};

/// Returns when an interest is met, the wake-up was notified, a signal came, or after `limit`.
void wait(std::span<const Interest> interests, const WakeUp* wake_up,
          std::chrono::milliseconds limit);

}  // namespace isthmus::net
