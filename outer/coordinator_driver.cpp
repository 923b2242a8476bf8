#include "outer/coordinator_driver.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "base/append_log.hpp"
#include "base/check.hpp"

namespace isthmus::outer {

namespace {

constexpr std::chrono::milliseconds kAskStop{200};
constexpr std::chrono::milliseconds kLook{500};
constexpr std::chrono::seconds kAskAllowlist{1};

TimePoint now() {
    return std::chrono::steady_clock::now();
}

}  // namespace

struct CoordinatorDriver::Impl {
    Impl(net::Context& c, const Options& o, Log& l) : context(c), options(o), log(l) {}

    net::Context& context;
    Options options;
    Log& log;
    std::unique_ptr<AppendLog> journal;
    std::unique_ptr<net::Link> link;
    CoordinatorState state;
    CoordinatorActions first;                    ///< of make_coordinator
    std::map<std::string, net::PeerId> current;  ///< name -> connection of its last HELLO
    std::map<net::PeerId, std::string> names;    ///< the other way
    std::vector<std::string> gone;               ///< could not be sent to
    std::optional<End> end;
    TimePoint looked{}, asked_allowlist{};
    bool loud = false;
    net::Allowlist allowed;
    std::set<std::string> complaints;

    bool encrypted() const { return !options.keys.empty(); }

    Status open(FileSystem& files) {
        auto opened = AppendLog::open(files, options.journal, options.nonce);
        if (!opened) return opened.error();
        journal = std::move(opened->log);
        if (opened->cut_bytes > 0) {
            log.warn(
                "{}: the last {} bytes were being written when the coordinator ended; they are cut "
                "off",
                options.journal.string(), opened->cut_bytes);
        }
        std::vector<JournalRecord> records;
        for (const auto& bytes : opened->records) {
            auto record = decode_record(bytes);
            if (!record) {
                return Error{fmt::format("{}: record {}: {}", options.journal.string(),
                                         records.size(), record.error().message)};
            }
            records.push_back(std::move(*record));
        }
        options.coordinator.self.nonce = options.nonce;
        auto made = make_coordinator(options.coordinator, records, journal->head(), now());
        if (!made)
            return Error{fmt::format("{}: {}", options.journal.string(), made.error().message)};
        state = std::move(made->first);
        first = std::move(made->second);
        if (!records.empty()) {
            log.info("the journal goes on after {} records: round {}, meeting {} of {}",
                     records.size(), state.newest.round.value, state.meeting.value,
                     options.coordinator.meetings.size());
        }
        return Done{};
    }

    void hear(const net::Message& message) {
        const net::FrameRules rules{.run = net::RunId(options.coordinator.run),
                                    .num_kinds = kNumMessageKinds,
                                    .max_payload_bytes = kMaxMessageBytes};
        const auto frame = net::parse_frame(message.bytes(), rules);
        if (!frame) return complain(message, frame.error().message);
        auto said = decode(frame->kind, frame->payload);
        if (!said) return complain(message, said.error().message);
        if (auto* hello = std::get_if<Hello>(&*said)) return hear_hello(message, std::move(*hello));
        const auto name = names.find(message.from());
        if (name != names.end()) return decide(HeardFrom{name->second, std::move(*said)});
        // A connection that has not said who it is, as after our restart.
        send(message.from(), Identify{state.options.self});
    }

    void hear_hello(const net::Message& message, Hello hello) {
        if (encrypted()) {
            if (!std::any_of(allowed.begin(), allowed.end(),
                             [&](const auto& a) { return a.second == message.sender_name(); })) {
                return complain(
                    message, fmt::format("the key of {} may join no more", message.sender_name()));
            }
            if (hello.name != message.sender_name()) {
                return complain(message, fmt::format("it calls itself {}, its key is that of {}",
                                                     hello.name, message.sender_name()));
            }
        } else if (!state_names(hello.name)) {
            send(message.from(),
                 Stop{fmt::format("site {} is refused: outer.sites does not name it", hello.name)});
            return complain(message,
                            fmt::format("site {} is not named in outer.sites", hello.name));
        }
        const std::string name = hello.name;
        const Incarnation incarnation = hello.incarnation;
        const auto before = current.find(name);
        const net::PeerId old = before == current.end() ? net::PeerId() : before->second;
        connect(name, message.from());
        decide(HeardFrom{name, std::move(hello)});
        // Whoever was refused does not take the name over.
        const auto site = std::find_if(state.sites.begin(), state.sites.end(),
                                       [&](const auto& s) { return s.name == name; });
        const bool taken = site != state.sites.end() && site->incarnation == incarnation;
        if (taken) return;
        complain(message, fmt::format("it said HELLO as site {}, which is not let in", name));
        if (!old.empty() && old != message.from()) connect(name, old);
    }

    bool state_names(const std::string& name) const {
        const auto& named = options.coordinator.sites;
        return std::find(named.begin(), named.end(), name) != named.end();
    }

    void connect(const std::string& name, const net::PeerId& peer) {
        if (const auto it = current.find(name); it != current.end()) names.erase(it->second);
        current[name] = peer;
        names[peer] = name;
    }

    void complain(const net::Message& message, const std::string& why) {
        // Once a reason and address: a stranger must not fill the log.
        const std::string line = fmt::format("{}: {}", message.address(), why);
        if (complaints.size() < 256 && complaints.insert(line).second)
            log.warn("refused: {}", line);
    }

    void decide(const CoordinatorEvent& event) {
        if (!end) act(step(state, event, now()));
        if (options.on_phase && state.started)
            options.on_phase(name_of(state.phase), state.meeting.value);
    }

    void act(CoordinatorActions actions) {
        for (CoordinatorAction& action : actions) {
            if (end) return;
            std::visit([&](auto& a) { act_on(a); }, action);
        }
    }
    void act_on(Append& append) {
        enter_commit("commit", append);
        std::vector<std::vector<std::byte>> bytes;
        for (const JournalRecord& record : append.records) bytes.push_back(encode_record(record));
        if (const Status status = journal->append(bytes); !status) {
            end = End{.good = false,
                      .reason = fmt::format("the journal cannot be written ({}); nothing that "
                                            "depends on it was sent. The sites "
                                            "train to their next meeting and wait there: make room "
                                            "and start the coordinator again",
                                            status.error().message)};
            return;
        }
        state.journal = journal->head();
        enter_commit("committed", append);
        if (!options.on_commit) return;
        for (const JournalRecord& record : append.records) {
            if (const auto* commit = std::get_if<CommitRecord>(&record))
                options.on_commit(*commit, state);
        }
    }
    void enter_commit(std::string_view phase, const Append& append) const {
        if (!options.on_phase) return;
        for (const JournalRecord& record : append.records) {
            if (const auto* commit = std::get_if<CommitRecord>(&record))
                options.on_phase(phase, commit->meeting.value);
        }
    }
    void act_on(SayTo& say) {
        if (auto* welcome = std::get_if<Welcome>(&say.message)) welcome->journal = state.journal;
        if (auto* commit = std::get_if<Commit>(&say.message)) commit->journal = state.journal;
        const auto to = current.find(say.name);
        if (to == current.end()) return;  // it did not come back yet
        if (!send(to->second, say.message)) gone.push_back(say.name);
    }
    void act_on(Report& report) {
        if (report.loud) {
            log.warn("{}", report.line);
            loud = true;
        } else {
            log.info("{}", report.line);
        }
    }
    void act_on(End& e) { end = e; }

    /// False: the peer is gone, or reads nothing. The message is lost like one on the way: the site
    /// asks again.
    bool send(const net::PeerId& to, const Message& message) {
        const auto payload = encode(message);
        return link->send(
            net::make_frame(
                net::RunId(options.coordinator.run),
                {.kind = kind_of(message), .sender = net::kCoordinator, .payload = payload}),
            {}, to);
    }

    void look(TimePoint at) {
        if (options.on_look && (loud || at - looked >= kLook)) {
            options.on_look(state, at);
            looked = at;
            loud = false;
        }
        for (const net::Refusal& r : context.take_refusals()) log.warn("refused: {}", to_string(r));
        if (options.allowlist && at - asked_allowlist >= kAskAllowlist) ask_allowlist(at);
    }

    void ask_allowlist(TimePoint at) {
        asked_allowlist = at;
        net::Allowlist list = options.allowlist();
        if (list == allowed) return;
        for (const auto& [key, name] : allowed) {
            if (list.contains(key)) continue;
            log.warn("the key of site {} was taken off the list", name);
            decide(Operate{Operate::What::kRevoke, name});
        }
        allowed = list;
        context.allow(std::move(list));
    }

    void run(const std::function<bool()>& stop) {
        act(std::move(first));
        JudgeGate gate(options.coordinator.budget, now());
        while (!end) {
            while (const auto message = end ? std::nullopt : link->receive()) hear(*message);
            for (const std::string& name : std::exchange(gone, {})) decide(Disconnected{name});
            if (options.operations) {
                for (auto& operation : options.operations()) {
                    decide(operation.operate);
                    operation.answer("done");
                }
            }
            if (stop && stop()) decide(Quit{"interrupted"});
            decide(Tick{.judge = gate.open(now())});
            look(now());
            if (end) break;
            const auto until =
                std::chrono::ceil<std::chrono::milliseconds>(state.next_beat - now());
            const net::Interest interest{.link = link.get()};
            net::wait(std::span(&interest, 1), nullptr,
                      std::clamp(until, std::chrono::milliseconds(0), kAskStop));
        }
        if (options.on_look) options.on_look(state, now());
    }
};

CoordinatorDriver::CoordinatorDriver(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CoordinatorDriver::~CoordinatorDriver() = default;

Result<std::unique_ptr<CoordinatorDriver>> CoordinatorDriver::create(net::Context& context,
                                                                     FileSystem& files,
                                                                     const Options& options,
                                                                     Log& log) {
    auto impl = std::make_unique<Impl>(context, options, log);
    if (const Status status = impl->open(files); !status) return status.error();
    net::LinkOptions link{.max_message_bytes = net::kFrameHeaderBytes + kMaxMessageBytes};
    link.security.own = options.keys;
    if (options.allowlist) {
        impl->allowed = options.allowlist();
        context.allow(impl->allowed);
    }
    auto listening = net::Link::listen(context, net::LinkKind::kServer, link, options.listen);
    if (!listening) return listening.error();
    impl->link = std::move(*listening);
    return std::unique_ptr<CoordinatorDriver>(new CoordinatorDriver(std::move(impl)));
}

const std::string& CoordinatorDriver::endpoint() const {
    return impl_->link->endpoint();
}

Status CoordinatorDriver::run(const std::function<bool()>& stop) {
    impl_->run(stop);
    if (impl_->end->good) return Done{};
    return Error{impl_->end->reason};
}

}  // namespace isthmus::outer
