// The network thread of site_driver.hpp: control link, data plane, exchange, state, around the
// site's step function.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "net/mailbox.hpp"
#include "outer/exchange.hpp"
#include "outer/site_driver.hpp"
#include "outer/state_transfer.hpp"

namespace isthmus::outer {

/// The training thread lends its model and waits. With a cut: it stands at a meeting.
struct Lend {
    std::int64_t step = 0;
    std::optional<Cut> cut;
};
/// A copy of the inner optimizer's state that a joiner waits for.
struct InnerCopy {
    std::vector<std::byte> bytes;
    std::int64_t step = 0;
};
using SiteCommand = std::variant<Lend, InnerCopy, Finish, Quit>;

/// The model is the training thread's again.
struct WorkReply {
    Assignment assignment;
    bool changed = false;       ///< parameters or inner state were replaced
    bool counted = false;       ///< a commit counted what was trained
    bool void_samples = false;  ///< what was trained and what is left of the leases is void
    bool from_state = true;
};
struct FinishedReply {
    SiteDriver::Finished finished;
    bool changed = false;
};
using SiteReply = std::variant<WorkReply, FinishedReply, End>;

/// What both threads touch.
struct SiteShared {
    net::WakeUp wake_up;
    net::Mailbox<SiteCommand> commands{8, &wake_up};
    net::Mailbox<SiteReply> replies{8};
    std::atomic<std::uint64_t> steps{0};  ///< made in all, for progress
    std::atomic<std::int64_t> step{0};    ///< of the run
    std::atomic<double> tokens_per_s{0}, loss{0};
    std::atomic<bool> hold{false};        ///< the training thread must come and lend its model
    std::atomic<bool> want_inner{false};  ///< ... copy its inner state at the next step
    std::mutex rounds_mutex;
    std::vector<SiteDriver::RoundFigures> rounds;
};

/// THREAD  made by the training thread, then all by the network thread.
class SiteNetwork {
  public:
    static Result<std::unique_ptr<SiteNetwork>> create(net::Context&, const SiteDriver::Options&,
                                                       ModelPort&, SiteShared&, Log&);
    ~SiteNetwork();
    void run();

  private:
    SiteNetwork(net::Context&, const SiteDriver::Options&, ModelPort&, SiteShared&, Log&);

    // control
    void keep_connected();
    void connect_next();
    void hear(const net::Message&);
    void know_peers();
    void decide(const SiteEvent&);
    void act(SiteActions);

    void on(Say&);
    void on(Connect&);
    void on(Exchange&);
    void on(Apply&);
    void on(Discard&);
    void on(Train&);
    void on(Hold&);
    void on(FetchCopy&);
    void on(FetchResult&);
    void on(Snapshot&);
    void on(DropSnapshot&);
    void on(Complete&);
    void on(Report&);
    void on(End&);

    // the model
    void obey(SiteCommand);
    void lent(Lend);
    bool wait_for_model(SiteAction);
    void give_back(SiteReply);
    void pin(std::vector<std::byte> inner, std::int64_t step);

    void move_data();
    void idle_work();
    void wait();
    void enter(std::string_view phase, Meeting at) const {
        if (options_.on_phase) options_.on_phase(phase, at.value);
    }

    net::Context& context_;
    const SiteDriver::Options& options_;
    ModelPort& port_;
    SiteShared& shared_;
    Log& log_;
    FragmentLayout layout_;
    OuterState state_;
    Donor donor_;
    std::unique_ptr<DataPlane> data_;
    std::unique_ptr<RoundExchange> exchange_;
    std::unique_ptr<StateFetch> fetch_;
    SiteState site_;
    JudgeGate gate_;

    std::unique_ptr<net::Link> control_;
    std::string control_endpoint_;
    std::size_t next_endpoint_ = 0;
    TimePoint try_next_{}, last_heard_{};
    std::chrono::milliseconds patience_{0};
    std::vector<std::string> complaints_;

    std::vector<PeerInfo> peers_;
    bool lent_ = false;
    std::int64_t lent_step_ = 0;
    std::deque<SiteAction> waiting_;  ///< for the model
    bool offered_ = false;            ///< the cut is with the exchange
    bool changed_ = false, counted_ = false, void_samples_ = false;
    bool digest_due_ = false;
    std::optional<std::pair<Round, StateHash>> digest_;
    bool ended_ = false;

    // measuring a round
    SiteFigures figures_;
    TimePoint cut_at_{}, began_at_{}, voted_at_{};
    std::uint64_t sent_before_ = 0, received_before_ = 0, attempts_ = 0;
    std::size_t bytes_held_peak_ = 0;
    double barrier_s_ = 0;
    Meeting meeting_;
};

}  // namespace isthmus::outer
