#include "launch/round_records.hpp"

#include <nlohmann/json.hpp>
#include <sstream>

#include "launch/run_folder.hpp"
#include "launch/run_status.hpp"

namespace isthmus::launch {

namespace {

using Json = nlohmann::ordered_json;

void append_line(fmt::memory_buffer& out, const Json& json) {
    const std::string line = json.dump() + "\n";
    out.append(line.data(), line.data() + line.size());
}

std::string_view method_name(outer::Method method) {
    switch (method) {
        case outer::Method::kSolo:
            return "solo";
        case outer::Method::kAllGather:
            return "all-gather";
        case outer::Method::kOwners:
            return "owners";
    }
    return "";
}

double vote_seconds(const outer::SiteDriver::RoundFigures& f) {
    return std::max(0.0, f.figures.wait_s - f.barrier_s);
}

std::string name_of_site(const outer::CoordinatorState& state, SiteId id) {
    return id.value < state.sites.size() ? state.sites[id.value].name : std::to_string(id.value);
}

}  // namespace

void append_json(fmt::memory_buffer& out, const SiteRound& r, const RoundPrediction& p) {
    const auto& f = r.figures;
    const double seconds = r.train_s + r.lost_s;
    append_line(out, Json{{"round", f.round.value},
                          {"meeting", f.meeting.value},
                          {"step", r.step},
                          {"contributors", f.num_contributors},
                          {"contributed", f.contributed},
                          {"attempts", f.attempts},
                          {"seconds", seconds},
                          {"train_s", r.train_s},
                          {"lost_s", r.lost_s},
                          {"barrier_s", f.barrier_s},
                          {"exchange_s", f.figures.exchange_s},
                          {"vote_s", vote_seconds(f)},
                          {"apply_s", f.figures.apply_s},
                          {"bytes_sent", f.figures.bytes_sent},
                          {"bytes_received", f.figures.bytes_received},
                          {"predicted_bytes_sent", p.bytes_sent},
                          {"predicted_bytes_received", p.bytes_received},
                          {"predicted_s", p.seconds ? Json(*p.seconds) : Json(nullptr)},
                          {"utilisation", seconds > 0 ? r.train_s / seconds : 0.0},
                          {"held_bytes", f.bytes_held_peak},
                          {"state", outer::hex(f.state.hash)}});
}

void append_json(fmt::memory_buffer& out, const outer::CommitRecord& record,
                 const outer::CoordinatorState& state) {
    Json contributors = Json::array();
    for (const outer::Contribution& c : record.contributors) {
        std::uint64_t samples = 0;
        for (const outer::SampleRange& range : c.trained) samples += range.count;
        contributors.push_back({{"site", name_of_site(state, c.site)},
                                {"weight", c.weight},
                                {"tokens", c.tokens},
                                {"samples", samples}});
    }
    Json holders = Json::array();
    for (SiteId id : record.holders) holders.push_back(name_of_site(state, id));
    const auto& meetings = state.options.meetings;
    append_line(out, Json{{"round", record.to.round.value},
                          {"meeting", record.meeting.value},
                          {"step", meetings.at(static_cast<std::size_t>(record.meeting.value))},
                          {"attempt", record.attempt.counter},
                          {"method", method_name(record.method)},
                          {"codec", outer::name(record.codec)},
                          {"contributors", std::move(contributors)},
                          {"divisor", record.divisor},
                          {"holders", std::move(holders)},
                          {"state", outer::hex(record.to.hash)},
                          {"unix_s", unix_seconds()}});
}

std::string round_line(const SiteRound& r, const RoundPrediction& p) {
    const auto& f = r.figures;
    const auto megabytes = [](auto bytes) { return static_cast<double>(bytes) / 1e6; };
    return fmt::format(
        "round {} after step {}: {:.2f} s of {:.2f} s lost to it (waited {:.2f}, exchange {:.2f}, "
        "vote {:.2f}, apply {:.2f}), {:.2f} MB sent, {:.2f} MB received (predicted {:.2f}, "
        "{:.2f}), state {}",
        f.round.value, r.step, r.lost_s, r.train_s + r.lost_s, f.barrier_s, f.figures.exchange_s,
        vote_seconds(f), f.figures.apply_s, megabytes(f.figures.bytes_sent),
        megabytes(f.figures.bytes_received), megabytes(p.bytes_sent), megabytes(p.bytes_received),
        outer::short_hex(f.state.hash));
}

std::optional<RoundSummary> summarise_rounds(FileSystem& files, const Path& rounds_file) {
    if (!files.exists(rounds_file)) return std::nullopt;
    const auto text = read_text(files, rounds_file);
    if (!text) return std::nullopt;
    RoundSummary sum;
    std::istringstream lines(*text);
    for (std::string line; std::getline(lines, line);) {
        const Json json = Json::parse(line, nullptr, false);
        if (!json.is_object() || !json.contains("lost_s") || !json.contains("state")) continue;
        ++sum.rounds;
        sum.bytes_sent += json.value("bytes_sent", 0.0);
        sum.train_s += json.value("train_s", 0.0);
        sum.lost_s += json.value("lost_s", 0.0);
        sum.exchange_s += json.value("exchange_s", 0.0);
        sum.barrier_s += json.value("barrier_s", 0.0);
        sum.state = json.value("state", "");
    }
    return sum;
}

std::string summary_line(const RoundSummary& sum) {
    const double rounds = std::max(1.0, static_cast<double>(sum.rounds));
    const double all = sum.train_s + sum.lost_s;
    const auto share = [&](double seconds) { return all > 0 ? 100 * seconds / all : 0.0; };
    return fmt::format(
        "{} rounds, {:.2f} MB sent a round and site, {:.1f} % of the time lost to the link ({:.1f} "
        "% in exchanges, {:.1f} % waiting for the others)",
        sum.rounds, sum.bytes_sent / rounds / 1e6, share(sum.lost_s), share(sum.exchange_s),
        share(sum.barrier_s));
}

}  // namespace isthmus::launch
