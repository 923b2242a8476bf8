// Lines of a trace.
#include "outer/simulator/world.hpp"

namespace isthmus::outer::simulator {

namespace {

std::string text_of(const Attempt& a) {
    return fmt::format("attempt {}.{} of round {}", a.coordinator, a.counter, a.round.value);
}

std::string text_of(const std::optional<Meeting>& m) {
    return m ? fmt::format("meeting {}", m->value) : "nothing";
}

std::string text_of(const std::vector<SampleRange>& ranges) {
    std::string out;
    for (const SampleRange& r : ranges) out += fmt::format(" {}+{}", r.first, r.count);
    return out;
}

struct Describe {
    std::string operator()(const Hello& m) const {
        return fmt::format(": number {}, process {}, holds round {}, works for {}{}{}", m.count,
                           m.incarnation.number, m.state.round.value, text_of(m.training),
                           m.staged ? ", staged " + text_of(*m.staged) : "",
                           m.has_moments ? "" : ", no moments");
    }
    std::string operator()(const Ready& m) const {
        return fmt::format(": meeting {}, from round {}, cut {}.{},{}", m.meeting.value,
                           m.state.round.value, m.cut.incarnation, m.cut.counter,
                           text_of(m.trained));
    }
    std::string operator()(const Vote& m) const {
        std::string out = ": " + text_of(m.attempt) + (m.result ? ", has it" : ", failed");
        for (SiteId id : m.missing) out += fmt::format(", misses {}", id.value);
        for (const InputReport& i : m.inputs)
            if (!i.finite) out += fmt::format(", {} is not finite", i.site.value);
        return out;
    }
    std::string operator()(const SiteBeat& m) const {
        return fmt::format(": holds round {}, works for {}, progress {}", m.state.round.value,
                           text_of(m.training), m.progress);
    }
    std::string operator()(const Welcome& m) const {
        return fmt::format(": to HELLO {}, newest round {}, {}", m.answers, m.newest.round.value,
                           m.member ? "member" : "no member");
    }
    std::string operator()(const Assign& m) const {
        return fmt::format(": from round {}, meeting {},{}", m.state.round.value,
                           m.assignment.meeting.value, text_of(m.assignment.samples));
    }
    std::string operator()(const Begin& m) const {
        std::string out = ": " + text_of(m.attempt) + ", sites";
        for (const Participant& p : m.participants)
            out += fmt::format(" {}({}.{})", p.peer.site.value, p.cut.incarnation, p.cut.counter);
        return out;
    }
    std::string operator()(const Commit& m) const {
        return fmt::format(
            ": {}, to round {}, next {}{}{}", text_of(m.attempt), m.to.round.value,
            m.next ? fmt::format("meeting {},{}", m.next->meeting.value, text_of(m.next->samples))
                   : "nothing",
            m.last ? ", last" : "", m.drained ? ", drained" : "");
    }
    std::string operator()(const Abandon& m) const {
        return fmt::format(": meeting {}, next {},{}", m.meeting.value, m.next.meeting.value,
                           text_of(m.next.samples));
    }
    std::string operator()(const Restore& m) const {
        return fmt::format(": round {} from {} donors{}", m.state.round.value, m.donors.size(),
                           m.moments ? ", with moments" : "");
    }
    std::string operator()(const Pinned& m) const {
        return fmt::format(": round {}", m.state.round.value);
    }
    std::string operator()(const Leave& m) const { return m.reason.empty() ? "" : ": " + m.reason; }
    std::string operator()(const Stop& m) const { return ": " + m.reason; }
    std::string operator()(const CoordinatorBeat& m) const {
        return fmt::format(": newest round {}", m.newest.round.value);
    }
    template <class Other>
    std::string operator()(const Other&) const {
        return {};
    }
};

struct DescribeRecord {
    std::string operator()(const RunRecord&) const { return "RUN"; }
    std::string operator()(const CoordinatorRecord& r) const {
        return fmt::format("COORDINATOR {}", r.incarnation.number);
    }
    std::string operator()(const JoinRecord& r) const {
        return fmt::format("JOIN {} process {}", r.name, r.incarnation.number);
    }
    std::string operator()(const StartRecord&) const { return "START"; }
    std::string operator()(const GrantRecord& r) const {
        return fmt::format("GRANT to site {} for meeting {}:{}", r.site.value, r.meeting.value,
                           text_of(r.samples));
    }
    std::string operator()(const ReturnRecord& r) const {
        return fmt::format("RETURN of site {}:{}", r.site.value, text_of(r.samples));
    }
    std::string operator()(const LeaveRecord& r) const {
        return fmt::format("LEAVE of site {}: {}", r.site.value, r.reason);
    }
    std::string operator()(const CommitRecord& r) const {
        std::string out = fmt::format("COMMIT of {}, sites", text_of(r.attempt));
        for (const Contribution& c : r.contributors)
            out += fmt::format(" {}({}.{})", c.site.value, c.cut.incarnation, c.cut.counter);
        return out;
    }
    std::string operator()(const AbandonRecord& r) const {
        return fmt::format("ABANDON of meeting {}: {}", r.meeting.value, r.reason);
    }
    std::string operator()(const QuarantineRecord& r) const {
        return "QUARANTINE:" + text_of(r.samples);
    }
    std::string operator()(const EndRecord&) const { return "END"; }
};

}  // namespace

std::string World::describe(const Message& message) {
    return std::string(outer::name_of(message)) + std::visit(Describe{}, message);
}

std::string World::describe(const JournalRecord& record) {
    return std::visit(DescribeRecord{}, record);
}

std::string World::name_of_process(std::uint32_t who) const {
    if (who == kCoordinator) return "coordinator";
    return who == kEveryone ? "everyone" : sites_[who].name;
}

void World::note(std::uint32_t who, const std::string& line) {
    trace_.push_back(fmt::format("{:10.3f} {:11} {}", static_cast<double>(now_) / 1e9,
                                 name_of_process(who), line));
    if (trace_.size() > options_.trace_lines) trace_.pop_front();
}

/// Who stands where, when nothing moves.
std::string World::stand() const {
    std::string out = fmt::format("meeting {} of {}", last_meeting_, options_.meetings);
    if (coordinator_state_) {
        out += fmt::format(", coordinator in {}{}", outer::name_of(coordinator_state_->phase),
                           coordinator_state_->paused ? " (paused)" : "");
    } else {
        out += coordinator_done_ ? ", coordinator done" : ", no coordinator";
    }
    for (const LocalSite& site : sites_) {
        if (sites_.size() > 16 && !site.process.up) continue;
        out += fmt::format("; {} {} phase {} round {}", site.name,
                           site.process.up ? (site.process.stopped ? "stopped" : "up") : "down",
                           static_cast<int>(site.state.phase), site.model.round.value);
        if (!coordinator_state_) continue;
        for (const auto& known : coordinator_state_->sites) {
            if (known.name == site.name)
                out += fmt::format(" ({}{})", outer::name_of(known.standing),
                                   known.identified ? "" : ", unknown");
        }
        if (out.size() > 2000) break;
    }
    return out;
}

}  // namespace isthmus::outer::simulator
