#include "launch/ledger_report.hpp"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "base/append_log.hpp"
#include "base/error.hpp"
#include "base/hash.hpp"
#include "launch/progress.hpp"
#include "launch/run_folder.hpp"

namespace isthmus::launch {

namespace {

using Json = nlohmann::ordered_json;
using outer::CommitRecord;
using outer::SampleRange;

std::string grouped(std::uint64_t value) {
    return with_commas(static_cast<std::int64_t>(value));
}

std::uint64_t total(const std::vector<SampleRange>& ranges) {
    std::uint64_t sum = 0;
    for (const SampleRange& range : ranges) sum += range.count;
    return sum;
}

/// "0-99, 200-299": first and last of each.
std::string text(const std::vector<SampleRange>& ranges) {
    std::string out;
    for (const SampleRange& range : ranges) {
        if (range.count == 0) continue;
        out += fmt::format("{}{}-{}", out.empty() ? "" : ", ", range.first, range.end() - 1);
    }
    return out.empty() ? "none" : out;
}

Json json(const std::vector<SampleRange>& ranges) {
    Json out = Json::array();
    for (const SampleRange& range : ranges) out.push_back({range.first, range.count});
    return out;
}

LedgerReport::SiteTotal& site(LedgerReport& report, SiteId id) {
    // Ids are dense; a journal that says otherwise shall not make us allocate.
    if (id.value >= report.sites.size() + 1)
        throw fatal(ExitCode::kInput, "site {} appears before the ones below it", id.value);
    if (id.value == report.sites.size()) report.sites.emplace_back();
    return report.sites[id.value];
}

void note(LedgerReport& report, const outer::RunRecord& r) {
    report.run = r.run;
    for (const std::string& name : r.sites) report.sites.emplace_back().name = name;
}
void note(LedgerReport& report, const outer::JoinRecord& r) {
    site(report, r.site).name = r.name;
}
void note(LedgerReport& report, const outer::StartRecord& r) {
    report.newest = r.state;
    report.data = r.data;
}
void note(LedgerReport& report, const CommitRecord& r) {
    if (report.problem.empty() && !(r.from == report.newest)) {
        report.problem = fmt::format("the commit of round {} does not follow the state before it",
                                     r.attempt.round.value);
    }
    report.newest = r.to;
    for (const outer::Contribution& c : r.contributors) {
        LedgerReport::SiteTotal& sum = site(report, c.site);
        ++sum.rounds;
        sum.committed += total(c.trained);
        sum.skipped += total(c.skipped);
        sum.tokens += c.tokens;
    }
    report.commits.push_back(r);
}
void note(LedgerReport& report, const outer::AbandonRecord&) {
    ++report.abandoned;
}
void note(LedgerReport& report, const outer::QuarantineRecord& r) {
    report.quarantines.push_back(r);
}
void note(LedgerReport& report, const outer::EndRecord&) {
    report.ended = true;
}
/// The others change only the ledger.
template <class Other>
void note(LedgerReport&, const Other&) {}

Json site_json(const LedgerReport& report, const outer::Contribution& c) {
    return {{"site", report.sites[c.site.value].name},
            {"weight", c.weight},
            {"tokens", c.tokens},
            {"trained", json(c.trained)},
            {"skipped", json(c.skipped)}};
}

std::string round_text(const LedgerReport& report, const CommitRecord& commit) {
    std::string out =
        fmt::format("  round {:<6} meeting {:<6} state {}\n", commit.attempt.round.value,
                    commit.meeting.value, outer::short_hex(commit.to.hash));
    for (const outer::Contribution& c : commit.contributors) {
        out += fmt::format("    {:<12} weight {:<10g} samples {}", report.sites[c.site.value].name,
                           c.weight, text(c.trained));
        if (total(c.skipped) > 0) out += fmt::format("; skipped {}", text(c.skipped));
        out += '\n';
    }
    return out;
}

}  // namespace

LedgerReport read_ledger(FileSystem& files, const Path& run_folder) {
    const Path path = run_folder / kJournalName;
    if (!files.exists(path)) {
        throw fatal(
            ExitCode::kInput,
            "{}: no journal there: a run with several sites has one in its coordinator's folder",
            path.string());
    }
    const auto records = read_append_log(files, path);
    if (!records) throw fatal(ExitCode::kInput, "{}", records.error().message);
    LedgerReport report;
    for (std::size_t i = 0; i < records->size() && report.problem.empty(); ++i) {
        const auto record = outer::decode_record((*records)[i]);
        if (!record) {
            throw fatal(ExitCode::kInput, "{}: record {}: {}", path.string(), i,
                        record.error().message);
        }
        if (const Status done = report.ledger.apply(*record); !done) {
            report.problem = fmt::format("record {}: {}", i, done.error().message);
            break;
        }
        std::visit([&](const auto& r) { note(report, r); }, *record);
    }
    for (std::uint32_t i = 0; i < report.sites.size(); ++i)
        report.sites[i].leased = total(report.ledger.leases_of(SiteId(i)));
    if (const Status proven = report.ledger.prove(); report.problem.empty() && !proven)
        report.problem = proven.error().message;
    return report;
}

std::string ledger_text(const LedgerReport& report, bool rounds) {
    const outer::Ledger& ledger = report.ledger;
    std::string out = fmt::format(
        "run {}{}, data {}\n"
        "  rounds     {} committed, {} abandoned; newest state {}\n"
        "  samples    {} granted\n"
        "    committed  {}\n"
        "    leased     {}\n"
        "    returned   {}\n"
        "    skipped    {}\n",
        hex(report.run), report.ended ? ", ended" : "", report.data.empty() ? "-" : report.data,
        grouped(ledger.rounds()), grouped(report.abandoned), outer::short_hex(report.newest.hash),
        grouped(ledger.granted_up_to()), grouped(ledger.committed().size()),
        grouped(ledger.leased_samples()), grouped(ledger.returned().size()),
        grouped(ledger.skipped().size()));
    for (const LedgerReport::SiteTotal& s : report.sites) {
        out += fmt::format("  {:<12} {} rounds, {} samples, {} tokens, {} leased, {} skipped\n",
                           s.name, grouped(s.rounds), grouped(s.committed), grouped(s.tokens),
                           grouped(s.leased), grouped(s.skipped));
    }
    for (const outer::QuarantineRecord& q : report.quarantines)
        out += fmt::format("  quarantined samples {}: {}\n", text(q.samples), q.reason);
    if (rounds)
        for (const CommitRecord& commit : report.commits) out += round_text(report, commit);
    out += report.problem.empty() ? "proven: each sample below the granted ones' end is in exactly "
                                    "one commit, or leased, "
                                    "returned or skipped\n"
                                  : fmt::format("NOT PROVEN: {}\n", report.problem);
    return out;
}

std::string ledger_json(const LedgerReport& report, bool rounds) {
    const outer::Ledger& ledger = report.ledger;
    Json out = {{"run", hex(report.run)},
                {"data", report.data},
                {"ended", report.ended},
                {"rounds", ledger.rounds()},
                {"abandoned", report.abandoned},
                {"newest",
                 {{"round", report.newest.round.value}, {"hash", outer::hex(report.newest.hash)}}},
                {"samples",
                 {{"granted", ledger.granted_up_to()},
                  {"committed", ledger.committed().size()},
                  {"leased", ledger.leased_samples()},
                  {"returned", ledger.returned().size()},
                  {"skipped", ledger.skipped().size()}}},
                {"sites", Json::array()},
                {"quarantined", Json::array()},
                {"proven", report.problem.empty()},
                {"problem", report.problem}};
    for (const LedgerReport::SiteTotal& s : report.sites) {
        out["sites"].push_back({{"name", s.name},
                                {"rounds", s.rounds},
                                {"committed", s.committed},
                                {"skipped", s.skipped},
                                {"leased", s.leased},
                                {"tokens", s.tokens}});
    }
    for (const outer::QuarantineRecord& q : report.quarantines)
        out["quarantined"].push_back({{"samples", json(q.samples)}, {"reason", q.reason}});
    if (rounds) {
        out["commits"] = Json::array();
        for (const CommitRecord& commit : report.commits) {
            Json sites = Json::array();
            for (const outer::Contribution& c : commit.contributors)
                sites.push_back(site_json(report, c));
            out["commits"].push_back({{"round", commit.attempt.round.value},
                                      {"meeting", commit.meeting.value},
                                      {"state", outer::hex(commit.to.hash)},
                                      {"sites", std::move(sites)}});
        }
    }
    return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace isthmus::launch
