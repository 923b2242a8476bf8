#include "launch/run_status.hpp"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <nlohmann/json.hpp>

#include "launch/progress.hpp"
#include "launch/run_folder.hpp"

namespace isthmus::launch {

namespace {

using Json = nlohmann::ordered_json;
using State = outer::CoordinatorState;

/// The coordinator writes about once a second.
constexpr double kStaleAfterSeconds = 5.0;

std::string machine_name() {
    std::array<char, 256> name{};
    return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

double seconds_since(outer::TimePoint then, outer::TimePoint now) {
    return std::chrono::duration<double>(now - then).count();
}

std::string standing(const State::Site& site) {
    if (site.done) return "done";
    if (site.barred) return "dropped";
    return std::string(outer::name_of(site.standing)) + (site.draining ? ", draining" : "");
}

Json number_or_null(bool known, double value) {
    return known ? Json(value) : Json(nullptr);
}

Json site_json(const State::Site& site, outer::TimePoint now) {
    const outer::SiteFigures& f = site.figures;
    const double used = utilisation(f);
    return {{"name", site.name},
            {"state", standing(site)},
            {"round", site.state.round.value},
            {"step", site.step},
            {"tokens_per_s", f.tokens_per_s},
            {"loss", f.loss},
            {"last_seen_s",
             number_or_null(site.incarnation.number > 0, seconds_since(site.heard, now))},
            {"bytes_sent", f.bytes_sent},
            {"bytes_received", f.bytes_received},
            {"utilisation", number_or_null(used > 0, used)},
            {"restored", site.restored}};
}

double mean_loss(const State& state) {
    double sum = 0;
    int count = 0;
    for (const State::Site& site : state.sites) {
        if (site.standing != State::Standing::kMember || site.figures.loss == 0) continue;
        sum += site.figures.loss;
        ++count;
    }
    return count > 0 ? sum / count : 0;
}

std::string megabytes(const Json& bytes) {
    return fmt::format("{:.2f} MB", bytes.get<double>() / 1e6);
}

std::string site_row(const Json& site, double age) {
    const Json& seen = site.at("last_seen_s");
    const Json& used = site.at("utilisation");
    return fmt::format(
        "{:<16} {:<18} {:>6} {:>8} {:>10} {:>8.4f} {:>10} {:>11} {:>11} {:>7}\n",
        site.at("name").get<std::string>(), site.at("state").get<std::string>(),
        site.at("round").get<std::uint64_t>(), site.at("step").get<std::int64_t>(),
        with_commas(static_cast<std::int64_t>(site.at("tokens_per_s").get<double>())),
        site.at("loss").get<double>(),
        seen.is_null() ? "never" : fmt::format("{:.1f} s ago", seen.get<double>() + age),
        megabytes(site.at("bytes_sent")), megabytes(site.at("bytes_received")),
        used.is_null() ? "" : fmt::format("{:.1f} %", 100 * used.get<double>()));
}

}  // namespace

double unix_seconds() {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
        .count();
}

double utilisation(const outer::SiteFigures& f) {
    const double all = f.train_s + f.wait_s + f.exchange_s + f.apply_s;
    return all > 0 ? f.train_s / all : 0;
}

Json status_json(const RunConfig& config, const RoundPrediction& prediction, const State& state,
                 outer::TimePoint now) {
    const auto& meetings = state.options.meetings;
    const auto open = static_cast<std::size_t>(state.meeting.value);
    Json predicted = {{"bytes_sent", prediction.bytes_sent},
                      {"bytes_received", prediction.bytes_received},
                      {"seconds", number_or_null(prediction.seconds.has_value(),
                                                 prediction.seconds.value_or(0))}};
    Json sites = Json::array();
    for (const State::Site& site : state.sites) sites.push_back(site_json(site, now));
    return {{"pid", ::getpid()},
            {"machine", machine_name()},
            {"unix_s", unix_seconds()},
            {"run", config.name},
            {"number", fmt::format("{:016x}", config.run_number().value)},
            {"phase", state.started || state.phase == State::Phase::kEnded
                          ? outer::name_of(state.phase)
                          : std::string_view("starting")},
            {"paused", state.paused},
            {"ended_because", state.stop_reason},
            {"round", state.newest.round.value},
            {"meeting", state.meeting.value},
            {"meetings", meetings.size()},
            {"step", open < meetings.size() ? meetings[open] : meetings.back()},
            {"steps", meetings.back()},
            {"state", outer::hex(state.newest.hash)},
            {"loss", mean_loss(state)},
            {"predicted", std::move(predicted)},
            {"samples",
             {{"committed", state.ledger.committed().size()},
              {"returned", state.ledger.returned().size()},
              {"skipped", state.ledger.skipped().size()}}},
            {"sites", std::move(sites)}};
}

Status replace_quickly(FileSystem& files, const Path& file, std::string_view content) {
    Path temporary = file;
    temporary += ".new";
    auto out = files.create(temporary);
    if (!out) return out.error();
    if (auto status = (*out)->append(std::as_bytes(std::span(content.data(), content.size())));
        !status)
        return status;
    if (auto status = (*out)->close(); !status) return status;
    return files.rename(temporary, file);
}

std::string staleness(const Json& status, double unix_s) {
    if (status.at("phase") == "ended") return {};
    const double age = unix_s - status.at("unix_s").get<double>();
    const auto pid = status.at("pid").get<pid_t>();
    const bool here = status.at("machine") == machine_name();
    const bool gone = here && ::kill(pid, 0) != 0 && errno == ESRCH;
    if (gone) {
        return fmt::format(
            "the coordinator (process {}) is gone; this is what it knew {:.0f} s ago", pid, age);
    }
    if (age > kStaleAfterSeconds) {
        return fmt::format("the coordinator (process {}{}) has written nothing for {:.0f} s", pid,
                           here ? "" : " on " + status.at("machine").get<std::string>(), age);
    }
    return {};
}

std::string status_table(const Json& status, double unix_s) {
    std::string text = fmt::format(
        "{}: {}{}, round {}, meeting {} of {} at step {} of {}, loss {:.4f}\n",
        status.at("run").get<std::string>(), status.at("phase").get<std::string>(),
        status.at("paused").get<bool>() ? " (paused)" : "", status.at("round").get<std::uint64_t>(),
        status.at("meeting").get<std::uint64_t>(), status.at("meetings").get<std::uint64_t>(),
        status.at("step").get<std::int64_t>(), status.at("steps").get<std::int64_t>(),
        status.at("loss").get<double>());
    const std::string because = status.at("ended_because").get<std::string>();
    if (!because.empty()) text += fmt::format("ended: {}\n", because);
    const std::string stale = staleness(status, unix_s);
    if (!stale.empty()) text += stale + "\n";
    text += fmt::format("{:<16} {:<18} {:>6} {:>8} {:>10} {:>8} {:>10} {:>11} {:>11} {:>7}\n",
                        "site", "state", "round", "step", "tokens/s", "loss", "last seen", "sent",
                        "received", "used");
    const double age = std::max(0.0, unix_s - status.at("unix_s").get<double>());
    for (const Json& site : status.at("sites")) text += site_row(site, age);
    const Json& predicted = status.at("predicted");
    text +=
        fmt::format("{:<16} {:<18} {:>6} {:>8} {:>10} {:>8} {:>10} {:>11} {:>11}\n", "predicted",
                    predicted.at("seconds").is_null()
                        ? ""
                        : fmt::format("{:.2f} s a round", predicted.at("seconds").get<double>()),
                    "", "", "", "", "", megabytes(predicted.at("bytes_sent")),
                    megabytes(predicted.at("bytes_received")));
    return text;
}

}  // namespace isthmus::launch
