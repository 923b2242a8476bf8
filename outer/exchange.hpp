// How pseudo-gradients travel: each site sends its own, whole, to every other site, in chunks, and
// adds up all of them as they come. Nothing of it passes the coordinator.
//
// Each pair of sites has one connection a direction, so a receiver can take one chunk from every
// peer, combine them, and leave the rest of a fast peer's in its queue: memory is bounded by queue
// length and chunk size, whatever the model's size. A chunk is added up only when all sites' chunks
// are there, in ascending site id; so the result depends neither on arrival order nor on chunk
// size.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/log.hpp"
#include "net/frame.hpp"
#include "net/link.hpp"
#include "outer/messages.hpp"
#include "outer/outer_step.hpp"

namespace isthmus::outer {

/// Elements of a chunk: 1 MiB of fp32.
inline constexpr std::size_t kChunkElements = 256 << 10;
/// Chunks in a connection's queue, a side.
inline constexpr int kQueueChunks = 4;

/// THREAD  one thread.
class PeerExchange {
  public:
    struct Options {
        net::RunId run;
        SiteId self;
        std::uint32_t num_sites = 1;
        std::size_t chunk_elements = kChunkElements;
    };
    /// What a round works on. The spans must live until the result is there.
    struct Work {
        Begin begin;
        float lr = 1.0f;
        std::span<const float> anchor;
        std::span<float> local;   ///< becomes the pseudo-gradient
        std::span<float> result;  ///< becomes the next anchor
    };

    /// Opens a listening port for each peer. ERRORS the system's reason.
    static Result<std::unique_ptr<PeerExchange>> create(net::Context&, const Options&, Log&);
    const Endpoints& listens() const { return listens_; }
    Status connect(net::Context&, const Endpoints& speak_to);

    /// REQUIRES every site contributes, and no other work is open.
    /// One contributor alone at lr 1 keeps its local parameters: anchor - (anchor - local) would
    /// not be the same bits.
    void begin(const Work&);
    /// Moves what can be moved now, at most a chunk a connection. ERRORS a peer sent what it should
    /// not.
    Status pump();
    /// The hash of the result, once, when it is complete.
    std::optional<StateHash> take_result();
    /// What to wait for before the next pump.
    void add_interests(std::vector<net::Interest>&) const;
    /// Chunks sent and received so far.
    std::uint64_t chunks_moved() const { return chunks_moved_; }
    std::uint64_t bytes_sent() const { return bytes_sent_; }

  private:
    struct Peer {
        SiteId site;
        std::unique_ptr<net::Link> receiver, sender;
        std::size_t sent_chunks = 0;
        std::vector<float> arrived;  ///< chunk `combined_` of this peer, or empty
    };
    PeerExchange(const Options&, Log&);
    std::size_t num_chunks() const;
    template <class T>
    std::span<T> chunk(std::span<T> values, std::size_t index) const;
    /// A chunk of this site's own pseudo-gradient; made when it is first needed, so that no call
    /// works on the whole model at once.
    std::span<const float> delta(std::size_t index);
    void send_next(Peer&);
    Status receive_next(Peer&);
    void combine();

    Options options_;
    Log& log_;
    Endpoints listens_;
    std::vector<Peer> peers_;  ///< ascending site id, without this site
    std::optional<Work> work_;
    std::optional<StateHasher> hasher_;
    std::optional<StateHash> result_;
    std::size_t prepared_ = 0;  ///< chunks of `local` that are pseudo-gradient already
    std::size_t combined_ = 0;  ///< chunks of the result that are complete
    std::uint64_t chunks_moved_ = 0, bytes_sent_ = 0;
};

}  // namespace isthmus::outer
