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
#include "net/keys.hpp"

namespace isthmus::net {

/// Somebody whom the allowlist does not know, or whose handshake failed.
struct Refusal {
    std::string address;     ///< of the peer, as far as the system knows it
    std::string public_key;  ///< or empty
    std::string reason;
};
/// "ADDRESS with key KEY: reason". Whoever hangs up before the system is asked has no address.
std::string to_string(const Refusal&);

/// Threads and memory of all sockets. Built by main or a test, outlives every link.
/// THREAD  safe; links are not.
class Context {
  public:
    explicit Context(int io_threads = 1);
    ~Context();
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;

    /// Replaces the list of keys that listening links with CURVE let in (ZAP, RFC 27). At first
    /// nobody is. A connection that stands stays; its messages go on naming the peer, so that the
    /// reader can ignore it. Who was refused goes on trying and gets in once its key is on the
    /// list.
    void allow(Allowlist);
    /// How long a key that is not on the list is kept waiting for it before it is refused; 0 at
    /// first. Where several learn of each other at about the same time a refusal would cost the
    /// earlier one its handshake's whole limit of 5 s: hold_unknown less than that.
    void hold_unknown(std::chrono::milliseconds);
    /// Refusals since the last call; each address and key once until the list changes. At most 64
    /// are kept.
    std::vector<Refusal> take_refusals();

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

/// CURVE: both sides encrypt and prove who they are. Empty keys: neither, and then only loopback is
/// taken.
struct Security {
    KeyPair own;
    std::string server_key;  ///< connecting: the public key that the other side must have
};

struct LinkOptions {
    std::size_t max_message_bytes = 64 << 10;  ///< a larger one ends its connection unread
    int queue_messages = 64;                   ///< a direction; a full queue refuses the next send
    Security security = {};
    int socket_buffer_bytes = 0;  ///< of the kernel, a direction; 0: the system tunes it
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
    /// The allowlist's name of the key that sent it; "" without CURVE.
    const std::string& sender_name() const { return sender_name_; }
    const std::string& address() const { return address_; }  ///< of the peer, for the log

  private:
    friend class Link;
    struct Impl;
    std::unique_ptr<Impl> impl_;
    PeerId from_;
    std::string sender_name_, address_;
};

/// One socket.
/// THREAD  owned by the thread that uses it first; any other use aborts (CHECK).
class Link {
  public:
    /// Listens on "ADDRESS:PORT" (an IPv4 address of this machine, an interface's name, or * for
    /// all; port 0: the system chooses) or "ipc://PATH" (mode 0600). ERRORS  anything but loopback
    /// or ipc without keys; address in use (says which, and who may hold it); the system's reason.
    static Result<std::unique_ptr<Link>> listen(Context&, LinkKind, const LinkOptions& = {},
                                                const std::string& address = "127.0.0.1:0");
    /// Connects in the background, again and again (backoff up to 1 s) until the other side is
    /// there. The endpoint is "tcp://HOST:PORT" or "ipc://PATH"; a host that is not loopback needs
    /// keys. ERRORS  port 0, no such form, no keys, keys without the other side's.
    static Result<std::unique_ptr<Link>> connect(Context&, LinkKind, const std::string& endpoint,
                                                 const LinkOptions& = {});
    ~Link();

    /// Listening: what a peer on this machine connects to; "tcp://127.0.0.1:PORT" if all addresses
    /// are listened on; the real port, never 0. Connecting: as given.
    const std::string& endpoint() const { return endpoint_; }
    /// Of the endpoint; 0 for ipc.
    int port() const;

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
