// The answering half of the data plane: one listening link, and the wants that cannot be answered
// yet.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "outer/data_plane.hpp"
#include "outer/data_wire.hpp"

namespace isthmus::outer {

/// What a peer sends when it asks. The name counts only without keys.
struct AskedBy {
    std::string name;
    Want want;
    template <class A>
    void serialize(A& a) {
        a(name, want);
    }
};

/// THREAD  one.
class DataServer {
  public:
    DataServer(const DataWire&, DataPlane::Serve, Complaints&, DataPlane::Traffic&);
    /// ERRORS  as Link::listen.
    Status listen(net::Context&, const std::string& address);
    /// Whose wants are answered; what the others wait for is forgotten.
    void set_names(std::set<std::string>);
    void may_serve_now() { may_serve_ = true; }
    /// Takes wants, answers them and those that waited. Bounded work a call.
    void pump();
    bool busy() const { return may_serve_ && !waiting_.empty(); }
    net::Link& link() const { return *link_; }

  private:
    struct Waiting {
        net::PeerId connection;
        std::string name;
        Want want;
        std::string key;  ///< of connection and want
    };
    void take(const net::Message&);
    void answer(Waiting);
    void wait(Waiting);
    void serve_waiting();
    /// False: there is nothing to say yet.
    bool reply(const Waiting&);
    void send_item(const Waiting&, std::span<const std::byte>);
    bool send(const net::PeerId&, std::uint16_t kind, std::span<const std::byte> payload);

    const DataWire& wire_;
    DataPlane::Serve serve_;
    Complaints& complaints_;
    DataPlane::Traffic& traffic_;
    std::unique_ptr<net::Link> link_;
    std::set<std::string> names_;
    std::deque<Waiting> waiting_;
    std::set<std::string> waiting_keys_;
    std::map<std::string, std::size_t> waiting_of_;  ///< by name
    bool may_serve_ = false;
    std::vector<std::byte> payload_;  ///< reused: a fresh one of this size is mapped each time
};

}  // namespace isthmus::outer
