// One of every message and of every journal record, with something in every field.
#pragma once

#include <vector>

#include "outer/journal.hpp"
#include "outer/messages.hpp"

namespace isthmus::outer::test {

inline StateHash sample_hash(int seed) {
    StateHash hash;
    for (std::size_t i = 0; i < hash.size(); ++i)
        hash[i] = static_cast<std::byte>(seed * 31 + static_cast<int>(i) * 7);
    return hash;
}
inline StateName sample_state(std::uint64_t round) {
    return {1, Round(round), sample_hash(static_cast<int>(round))};
}
inline PeerInfo sample_peer(std::uint32_t site) {
    return {SiteId(site), "paris", "tcp://10.0.0.1:4100",
            "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"};
}
inline Assignment sample_assignment() {
    return {Meeting(4), 300, 100, 400, {{6400, 1600}, {8800, 1600}}, true};
}

inline std::vector<Message> sample_messages() {
    const Attempt attempt{Round(3), FragmentId(0), 2, 5};
    const CutId cut{SiteId(1), 9, 4};
    const SiteFigures figures{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    const LogHead head{11, 22, 33};
    const std::vector<PeerInfo> peers{sample_peer(0), sample_peer(1)};
    Hello hello{.name = "paris",
                .incarnation = {9, 99},
                .config = {{"model", "tiny"}, {"outer.codec", "int8"}},
                .endpoint = peers[0].endpoint,
                .public_key = peers[0].public_key,
                .state = sample_state(3),
                .has_moments = true,
                .staged = attempt,
                .training = Meeting(4),
                .journal = head,
                .count = 7};
    return {
        hello,
        Ready{sample_state(3),
              Meeting(3),
              cut,
              {{0, 90}, {100, 9}},
              {{90, 10}},
              6336,
              std::pair(Round(3), sample_hash(1)),
              figures,
              7},
        Vote{attempt, sample_hash(2), {SiteId(2)}, {{SiteId(0), true, 1.5}, {SiteId(1), false, 0}}},
        Pinned{sample_state(2), 200},
        Leave{"interrupted"},
        SiteBeat{1234, 321, sample_state(3), Meeting(3), Attempt{Round(3), FragmentId(0), 2, 5},
                 true, 1e4, 2.5},
        Identify{{2, 77}},
        Welcome{7, SiteId(1), {2, 77}, head, sample_state(3), peers, true},
        Peers{peers},
        Assign{sample_state(3), sample_assignment()},
        Begin{attempt,
              Meeting(3),
              sample_state(3),
              {{peers[0], cut, 64000, 0.25f}, {peers[1], cut, 32000, 0.75f}},
              Codec::kInt8,
              {0.7f, 0.9f, true},
              Method::kOwners,
              42},
        Commit{attempt,
               sample_state(3),
               sample_state(4),
               head,
               {SiteId(0), SiteId(1)},
               {SiteId(0)},
               sample_assignment(),
               true,
               true},
        Abandon{Meeting(3), sample_assignment()},
        Pin{true},
        Unpin{},
        Restore{sample_state(3), peers, true},
        Farewell{},
        Stop{"site paris is refused: outer.codec differs"},
        CoordinatorBeat{{2, 77}, sample_state(3), {SiteId(0), SiteId(2)}}};
}

inline std::vector<JournalRecord> sample_records() {
    const Attempt attempt{Round(3), FragmentId(0), 2, 5};
    const CutId cut{SiteId(1), 9, 4};
    const Incarnation life{9, 99};
    return {RunRecord{0xabc, {"paris", "oslo"}, {{"model", "tiny"}}},
            CoordinatorRecord{life},
            JoinRecord{SiteId(2), "rome", life},
            StartRecord{sample_state(0), "0123456789abcdef"},
            GrantRecord{SiteId(1), life, Meeting(3), {{0, 100}, {200, 50}}},
            ReturnRecord{SiteId(1), {{90, 10}}},
            LeaveRecord{SiteId(1), life, "nothing heard of it", true},
            CommitRecord{attempt,
                         Meeting(3),
                         sample_state(3),
                         sample_state(4),
                         {{SiteId(1), life, cut, 64000, 64000, {{0, 90}}, {{90, 10}}}},
                         64000,
                         {SiteId(0), SiteId(1)},
                         Codec::kBf16,
                         Method::kSolo,
                         {0.7f, 0.9f, true}},
            AbandonRecord{Meeting(3), attempt, "five attempts failed"},
            QuarantineRecord{{{90, 10}}, "lost twice"},
            EndRecord{sample_state(9)}};
}

}  // namespace isthmus::outer::test
