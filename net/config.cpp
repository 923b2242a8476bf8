#include "net/config.hpp"

#include <algorithm>
#include <charconv>
#include <set>
#include <sstream>

#include "base/error.hpp"
#include "net/address.hpp"
#include "net/keys.hpp"

namespace isthmus::net {

using std::chrono::nanoseconds;
using namespace std::chrono_literals;

namespace {

constexpr nanoseconds kLongestTime = std::chrono::hours(24);
constexpr double kMostBytesUnderWay = 256e6;
/// What one answer over a stream takes at most; a stream without room for one stands still.
constexpr std::int64_t kItemMegabytes = 1;

struct Unit {
    const char* name;
    double factor;
};
constexpr Unit kRates[] = {{"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}};
constexpr Unit kTimes[] = {{"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};

/// "20mbit" in the base unit; nothing unless it is a number and one of the units.
template <std::size_t n>
std::optional<double> number_with_unit(const std::string& text, const Unit (&units)[n]) {
    double number = 0;
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
    if (error != std::errc()) return std::nullopt;
    for (const Unit& unit : units)
        if (std::string(rest, end) == unit.name) return number * unit.factor;
    return std::nullopt;
}

std::chrono::milliseconds milliseconds(double seconds) {
    return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000.0));
}

std::vector<std::string> words_of(const std::string& entry) {
    std::istringstream in(entry);
    std::vector<std::string> words;
    for (std::string word; in >> word;) words.push_back(word);
    return words;
}

/// The words of the site's entry, its name first; empty if there is none.
std::vector<std::string> entry_of(const std::vector<std::string>& entries,
                                  const std::string& site) {
    for (const std::string& entry : entries) {
        auto words = words_of(entry);
        if (!words.empty() && words[0] == site) return words;
    }
    return {};
}

/// Each entry's first word is a site of the run, and no site has two.
void check_sites(const std::string& key, const std::vector<std::string>& entries,
                 const std::vector<std::string>& sites) {
    std::set<std::string> seen;
    for (const std::string& entry : entries) {
        const auto words = words_of(entry);
        if (words.empty())
            throw fatal(ExitCode::kUsage, "{}: an empty entry; it begins with a site's name", key);
        if (std::find(sites.begin(), sites.end(), words[0]) == sites.end()) {
            const std::string nearest = nearest_name(words[0], sites);
            throw fatal(ExitCode::kUsage, "{} \"{}\": the run has no site {}{}", key, entry,
                        words[0], nearest.empty() ? "" : "; did you mean " + nearest + "?");
        }
        if (!seen.insert(words[0]).second)
            throw fatal(ExitCode::kUsage, "{} \"{}\": site {} has an entry already", key, entry,
                        words[0]);
    }
}

/// What must hold for an address to listen on. An interface's name is looked up where the site
/// runs.
void check_listen(const std::string& what, const std::string& address, bool keys,
                  const std::string& advertised_by) {
    const auto parsed = parse_host_port(address);
    if (!parsed) throw fatal(ExitCode::kUsage, "{}: {}", what, parsed.error().message);
    const bool local = is_loopback(parsed->host) || parsed->host == "lo";
    if (!local && !keys) {
        throw fatal(ExitCode::kUsage,
                    "{}: {} is not loopback, so keys are needed: isthmus keys new DIR, and "
                    "net.keys = \"DIR\"",
                    what, address);
    }
    if ((parsed->host == "0.0.0.0" || parsed->host == "*") && !advertised_by.empty()) {
        throw fatal(ExitCode::kUsage,
                    "{}: {} listens on all addresses, and others must know one of them: {}", what,
                    address, advertised_by);
    }
}

}  // namespace

void NetConfig::describe(ConfigVisitor& v) {
    v.field("coordinator", coordinator,
            {.help = "HOST:PORT where sites find the coordinator, tried in turn; []: through the "
                     "run's folder, on one machine"});
    v.field(
        "coordinator_listen", coordinator_listen,
        {.help = "ADDRESS:PORT the coordinator listens on (IPv4 address, interface or * for all; "
                 "port 0: the system chooses); anything but loopback needs keys",
         .allow_empty = false});
    v.field(
        "coordinator_key", coordinator_key,
        {.help = "the coordinator's public key, which sites insist on; \"\": none, loopback only"});
    v.field(
        "keys", keys,
        {.help = "folder with authorized_keys, coordinator.key and SITE.key, made by isthmus keys "
                 "new; \"\": none, loopback only"});
    v.field(
        "listen", listen,
        {.help = "\"SITE ADDRESS:PORT [HOST[:PORT]]\": where a site's data port listens, and what "
                 "its peers connect to if that is another; others listen on 127.0.0.1:0"});
    v.field("rates", rates,
            {.help = "\"SITE 25mbit\": a site's link (the slower direction), for shares and "
                     "predictions; sites without an entry are measured"});
    v.field(
        "round_budget_s", round_budget_s,
        {.help = "a site that stands still for this long while others wait is lost; one that is "
                 "silent for a quarter of it too. All other bounds derive from it",
         .unit = "s",
         .min = 0.5,
         .max = 86400});
    v.field("join_budget_s", join_budget_s,
            {.help = "how long the first wait for the last when a run starts, and sites for a "
                     "coordinator that is gone",
             .unit = "s",
             .min = 0.5,
             .max = 86400});
    v.field("streams", streams,
            {.help = "connections to each peer; more fill a link of long latency",
             .min = 1,
             .max = 64});
    v.field(
        "window_mb", window_mb,
        {.help = "asked for and not yet here, over all peers; a link is full as long as this is "
                 "more than its rate times its round trip",
         .unit = "MB",
         .min = 1,
         .max = 4096});
}

void NetConfig::check(const std::vector<std::string>& sites) const {
    const bool have_keys = !keys.empty();
    if (have_keys && !is_key(coordinator_key)) {
        throw fatal(
            ExitCode::kUsage,
            "net.coordinator_key \"{}\": not a public key of 40 characters; isthmus keys show "
            "{} prints it",
            coordinator_key, keys);
    }
    if (!have_keys && !coordinator_key.empty()) {
        throw fatal(ExitCode::kUsage,
                    "net.coordinator_key is given, but net.keys, the folder of the "
                    "own keys, is not");
    }
    for (const std::string& entry : coordinator) {
        const auto local = check_endpoint(std::string(kTcp) + entry);
        if (!local)
            throw fatal(ExitCode::kUsage, "net.coordinator \"{}\": {}", entry,
                        local.error().message);
        if (!*local && !have_keys)
            throw fatal(
                ExitCode::kUsage,
                "net.coordinator \"{}\": not loopback, so keys are needed: isthmus keys new "
                "DIR, and net.keys = \"DIR\"",
                entry);
    }
    // What sites connect to stands in net.coordinator.
    check_listen("net.coordinator_listen", coordinator_listen, have_keys,
                 coordinator.empty() ? "net.coordinator = [\"HOST:PORT\"]" : "");
    check_sites("net.listen", listen, sites);
    for (const std::string& entry : listen) {
        const Listen where = listen_of(words_of(entry).front());
        check_listen("net.listen \"" + entry + "\"", where.address, have_keys,
                     where.advertise.empty() ? "write \"SITE ADDRESS:PORT HOST\"" : "");
    }
    check_sites("net.rates", rates, sites);
    for (const std::string& entry : rates) (void)bytes_per_s_of(words_of(entry).front());
    if (join_budget_s < round_budget_s) {
        throw fatal(
            ExitCode::kUsage,
            "net.join_budget_s = {} is less than net.round_budget_s = {}: a coordinator that "
            "is started again would be given up before a round is",
            join_budget_s, round_budget_s);
    }
    if (window_mb < streams * kItemMegabytes) {
        throw fatal(
            ExitCode::kUsage,
            "net.window_mb = {} is less than {} MB for each of net.streams = {} connections",
            window_mb, kItemMegabytes, streams);
    }
}

Budget NetConfig::budget() const {
    return {.round = milliseconds(round_budget_s), .join = milliseconds(join_budget_s)};
}

NetConfig::Listen NetConfig::listen_of(const std::string& site) const {
    const auto words = entry_of(listen, site);
    if (words.empty()) return {};
    const auto wrong = [&](const std::string& what) {
        return fatal(ExitCode::kUsage,
                     "net.listen of {}: {}; write \"{} ADDRESS:PORT [HOST[:PORT]]\"", site, what,
                     site);
    };
    if (words.size() < 2 || words.size() > 3) throw wrong(fmt::format("{} words", words.size()));
    Listen result{.address = words[1], .advertise = words.size() == 3 ? words[2] : ""};
    const auto address = parse_host_port(result.address);
    if (!address) throw wrong(address.error().message);
    const std::string& to = result.advertise;
    if (to.empty()) return result;
    // A host alone stands for the port that is listened on, whichever the system chooses.
    const bool port = to.find(':') != std::string::npos;
    const auto local = check_endpoint(std::string(kTcp) + to + (port ? "" : ":1"));
    if (!local) throw wrong(local.error().message);
    return result;
}

std::optional<double> NetConfig::bytes_per_s_of(const std::string& site) const {
    const auto words = entry_of(rates, site);
    if (words.empty()) return std::nullopt;
    if (words.size() != 2)
        throw fatal(ExitCode::kUsage, "net.rates of {}: {} words; write \"{} 25mbit\"", site,
                    words.size(), site);
    return static_cast<double>(parse_rate(words[1], "net.rates of " + site + ":")) / 8.0;
}

void LinkConfig::describe(ConfigVisitor& v) {
    v.field(
        "rate", rate,
        {.help = "of each direction of the emulated thin link that train puts between all sites: "
                 "500kbit, 20mbit, 1gbit; \"\": none"});
    v.field("latency", latency, {.help = "one way: 50ms, 1s", .allow_empty = false});
    v.field("jitter", jitter,
            {.help = "each packet is up to this much later; none overtakes another",
             .allow_empty = false});
    v.field(
        "outage", outage,
        {.help = "every=60s,for=5s: nothing passes from second 60 to 65, 120 to 125, ...; \"\": "
                 "none"});
}

std::optional<ShaperConfig> LinkConfig::shaper() const {
    ShaperConfig shape;
    // Looked at even without a rate: what is written and wrong is said, not ignored.
    shape.latency = parse_duration(latency, "link.latency");
    shape.jitter = parse_duration(jitter, "link.jitter");
    if (!outage.empty()) shape.outage = parse_outage(outage, "link.outage");
    if (rate.empty()) {
        if (shape.latency == 0ns && shape.jitter == 0ns && outage.empty()) return std::nullopt;
        throw fatal(ExitCode::kUsage,
                    "link.rate is missing, but latency, jitter or outage of the "
                    "emulated link is given; write rate = \"20mbit\"");
    }
    shape.bits_per_second = parse_rate(rate, "link.rate");
    check_under_way(shape, fmt::format("link.rate {} with link.latency {} and link.jitter {}", rate,
                                       latency, jitter));
    return shape;
}

std::int64_t parse_rate(const std::string& text, const std::string& what) {
    const auto rate = number_with_unit(text, kRates);
    if (!rate || !(*rate >= 1e3 && *rate <= 10e9)) {
        throw fatal(ExitCode::kUsage,
                    "{} {}: not a rate from 1kbit to 10gbit; write 500kbit, 20mbit or 1gbit", what,
                    text);
    }
    return static_cast<std::int64_t>(*rate);
}

nanoseconds parse_duration(const std::string& text, const std::string& what) {
    const auto time = number_with_unit(text, kTimes);
    if (!time || !(*time >= 0 && *time <= static_cast<double>(kLongestTime.count()))) {
        throw fatal(ExitCode::kUsage, "{} {}: not a time up to a day; write 50ms, 1s or 250us",
                    what, text);
    }
    return nanoseconds(static_cast<std::int64_t>(*time));
}

OutageSchedule parse_outage(const std::string& text, const std::string& what) {
    const std::string first = "every=", second = ",for=";
    const std::size_t comma = text.find(second);
    if (!text.starts_with(first) || comma == std::string::npos) {
        throw fatal(ExitCode::kUsage, "{} {}: not an outage; write every=60s,for=5s", what, text);
    }
    const OutageSchedule outage{
        parse_duration(text.substr(first.size(), comma - first.size()), what + " every"),
        parse_duration(text.substr(comma + second.size()), what + " for")};
    if (outage.lasts >= outage.every || outage.lasts == 0ns) {
        throw fatal(ExitCode::kUsage, "{} {}: an outage lasts longer than 0 and less than every",
                    what, text);
    }
    return outage;
}

void check_under_way(const ShaperConfig& shape, const std::string& what) {
    const double under_way = static_cast<double>(shape.bits_per_second) / 8e9 *
                             static_cast<double>((shape.latency + shape.jitter).count());
    if (under_way <= kMostBytesUnderWay) return;
    throw fatal(ExitCode::kUsage,
                "{} has {:.0f} MB under way, at most {:.0f} are allowed; lower one of them", what,
                under_way / 1e6, kMostBytesUnderWay / 1e6);
}

}  // namespace isthmus::net
