// Who is let in: the thread that answers ZeroMQ's questions about keys (ZAP, RFC 27) and hears from
// the listening sockets which handshakes failed. Belongs to a Context; see link.hpp for the
// contract.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "net/link.hpp"

namespace zmq {
class context_t;
class socket_t;
}  // namespace zmq

namespace isthmus::net {

/// THREAD  safe.
class Gate {
  public:
    /// The context must outlive the gate.
    explicit Gate(zmq::context_t&);
    /// Shuts the context down, which ends the thread: no socket works any more, closed ones still
    /// linger.
    ~Gate();
    Gate(const Gate&) = delete;
    Gate& operator=(const Gate&) = delete;

    void allow(Allowlist);
    void hold_unknown(std::chrono::milliseconds);
    std::vector<Refusal> take_refusals();

    /// Starts the thread if it does not run, and hears from a socket's monitor from now on: call
    /// before the socket binds, for without a gate ZeroMQ would let everybody in. ERRORS  the
    /// system's reason.
    Status watch(zmq::socket_t&);

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace isthmus::net
