// The emulated thin links of one site: one between it and each address that it connects to, each in
// a thread of its own.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/log.hpp"
#include "net/shaper.hpp"

namespace isthmus::launch {

/// THREAD  any. Outlives every socket that connects through it.
class EmulatedLinks {
  public:
    EmulatedLinks(const net::ShaperConfig&, Log&);
    ~EmulatedLinks();
    EmulatedLinks(const EmulatedLinks&) = delete;
    EmulatedLinks& operator=(const EmulatedLinks&) = delete;

    /// What to connect to instead of "tcp://HOST:PORT"; the same for the same endpoint. If no link
    /// can be made, which is logged, "", which nobody can connect to: never past the link.
    std::string through(const std::string& endpoint);

  private:
    class OneLink;
    net::ShaperConfig shape_;
    Log& log_;
    std::mutex mutex_;
    std::map<std::string, std::unique_ptr<OneLink>> links_;
};

}  // namespace isthmus::launch
