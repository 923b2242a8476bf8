// How encoded pieces travel between sites: the receiver asks, the sender answers.
//
// Every site listens on one port (a server link); a peer opens `streams` connections to it, asks
// over them for items by name (WANT) and gets each as one message (ITEM), or a word that there is
// none (NONE). Items are immutable, so asking twice is harmless: what was lost on the way is asked
// for again, by the same bytes from anyone who has them. What is not there yet (a result that its
// owner has not summed) is answered when it is. At most `window_bytes` are asked for and not yet
// here, over all peers: memory is bounded whatever the model's size, and a long fat pipe is full as
// long as the window is larger than rate x round trip.
//
// Nothing here decides what a round is: exchange.hpp and state_transfer.hpp ask, this moves.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "base/log.hpp"
#include "net/frame.hpp"
#include "net/link.hpp"
#include "outer/coordinator.hpp"
#include "outer/messages.hpp"

namespace isthmus::outer {

// What can be asked for. `index` counts pieces (of a part: part * num_pieces + piece) or chunks;
// kHeader is the item's description.
inline constexpr std::uint32_t kHeader = 0xffffffffu;
/// A piece of a site's encoded input.
struct CutItem {
    CutId cut;
    bool operator==(const CutItem&) const = default;
    template <class A>
    void serialize(A& a) {
        a(cut);
    }
};
/// A piece of the encoded mean of an attempt, from its owner.
struct MeanItem {
    Attempt attempt;
    bool operator==(const MeanItem&) const = default;
    template <class A>
    void serialize(A& a) {
        a(attempt);
    }
};
/// A piece of the committed result that leads on from `from`; kHeader: a packed ResultInfo.
struct ResultItem {
    StateName from;
    bool operator==(const ResultItem&) const = default;
    template <class A>
    void serialize(A& a) {
        a(from);
    }
};
/// A chunk of a copy made for a joiner: anchor, then momentum, then (if moments) inner state;
/// kHeader: a packed CopyInfo.
struct CopyItem {
    StateName state;
    bool moments = false;
    bool operator==(const CopyItem&) const = default;
    template <class A>
    void serialize(A& a) {
        a(state, moments);
    }
};
using ItemId = std::variant<CutItem, MeanItem, ResultItem, CopyItem>;

struct Want {
    ItemId item;
    std::uint32_t index = 0;
    bool operator==(const Want&) const = default;
    template <class A>
    void serialize(A& a) {
        a(item, index);
    }
};

/// Answer of whoever serves: the bytes (valid until the next call into the data plane), "not yet",
/// or "I have no such thing".
struct NotYet {};
struct NoSuchItem {};
using Served = std::variant<std::span<const std::byte>, NotYet, NoSuchItem>;

/// THREAD  one.
class DataPlane {
  public:
    struct Options {
        net::RunId run;
        std::string self;                    ///< this site's name
        std::string listen = "127.0.0.1:0";  ///< ADDRESS:PORT
        std::string advertise = {};  ///< HOST[:PORT] that peers connect to; "": what it listens on
        net::KeyPair keys = {};      ///< empty: loopback only
        int streams = 2;             ///< connections to each peer
        std::size_t window_bytes = 8 << 20;    ///< asked for and not yet here, over all peers
        std::size_t max_item_bytes = 1 << 20;  ///< largest answer taken
        std::chrono::milliseconds ask_again{
            1000};  ///< nothing came of a peer for so long: ask it again
        /// Connects through something else (an emulated link): endpoint of a peer -> endpoint to
        /// use.
        std::function<std::string(const PeerInfo&)> route = {};
    };
    using Serve = std::function<Served(const Want&)>;

    static Result<std::unique_ptr<DataPlane>> create(net::Context&, const Options&, Serve, Log&);
    ~DataPlane();

    /// What peers connect to.
    const std::string& endpoint() const;
    /// Connects to these, lets the others go (what they were asked for comes back as not found).
    /// Also: whose wants are answered.
    void set_peers(const std::vector<PeerInfo>&);

    /// Queues a want; asked when the window has room, in the order of calls a peer. `bytes`: how
    /// large the answer is about. A want of this peer's that is not answered yet is not asked
    /// twice; whoever is no peer has no such item.
    void ask(SiteId peer, const Want&, std::size_t bytes);
    /// Forgets every want that `which` says yes to; a late answer is dropped.
    void forget(const std::function<bool(const Want&)>& which);
    void forget_all();

    struct Arrived {
        SiteId from;
        Want want;
        std::vector<std::byte> bytes;  ///< empty and !found: the peer has no such item
        bool found = true;
    };
    /// Moves what can be moved now: answers wants, sends wants, takes answers. Bounded work a call.
    std::vector<Arrived> pump(TimePoint now);
    /// Something that was NotYet may be there now: tried again at the next pump.
    void may_serve_now();
    /// Peers who are wanted something and from whom no byte came for this long. Time between two
    /// pumps in which this process stood still does not count.
    std::vector<SiteId> silent_peers(TimePoint now, std::chrono::milliseconds) const;

    void add_interests(std::vector<net::Interest>&) const;
    /// Whether pump() would have something to do without any byte arriving.
    bool busy() const;

    struct Traffic {
        std::uint64_t bytes_sent = 0, bytes_received = 0;  ///< payload of items
        std::uint64_t items_sent = 0, items_received = 0, asked_again = 0;
        std::size_t peak_in_flight_bytes = 0;
    };
    const Traffic& traffic() const;

  private:
    struct Impl;
    explicit DataPlane(std::unique_ptr<Impl>);
    std::unique_ptr<Impl> impl_;
};

}  // namespace isthmus::outer
