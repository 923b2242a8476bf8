// Configuration of the network: where the coordinator is, who is let in, the one time budget, and
// the emulated link that a run on one machine may put between its sites.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/config.hpp"
#include "net/shaper.hpp"

namespace isthmus::net {

/// One time budget, from which every bound of the outer loop follows.
struct Budget {
    std::chrono::milliseconds round{60'000};  ///< nothing that is waited for stands still longer
    std::chrono::milliseconds join{600'000};  ///< all have said HELLO; a lost coordinator is back
    /// A peer of which no byte came for this long is lost.
    std::chrono::milliseconds silence() const { return round / 4; }
    /// A peer whose data was asked for and does not come is asked again after this, and missing
    /// after four of it.
    std::chrono::milliseconds ask_again() const { return round / 30; }
    /// A process that has nothing else to say says that it lives.
    std::chrono::milliseconds beat() const { return round / 60; }
};

/// `[net]`. Entries "NAME VALUE" are what differs from site to site.
struct NetConfig {
    std::vector<std::string> coordinator;  ///< "HOST:PORT", tried in turn; empty: the run's folder
    std::string coordinator_listen = "127.0.0.1:0";
    std::string coordinator_key;      ///< public; pinned
    std::string keys;                 ///< folder of the key files; "": none, loopback only
    std::vector<std::string> listen;  ///< "SITE ADDRESS:PORT [HOST[:PORT]]", see Listen
    std::vector<std::string> rates;   ///< "SITE 25mbit"; a site without an entry is measured
    double round_budget_s = 60.0;
    double join_budget_s = 600.0;
    std::int64_t streams = 2;
    std::int64_t window_mb = 8;

    void describe(ConfigVisitor&);
    /// Refuses, before anything is started, what cannot work: forms, sites that the run does not
    /// have, addresses that need keys, budgets that contradict each other. ERRORS  throws
    /// Fatal(kUsage) naming key and entry.
    void check(const std::vector<std::string>& sites) const;
    Budget budget() const;

    /// Where a site's data port listens.
    struct Listen {
        std::string address = "127.0.0.1:0";
        std::string advertise;  ///< HOST or HOST:PORT that peers connect to; "": the address
    };
    /// The defaults for a site without an entry.
    /// ERRORS  throws Fatal(kUsage): an entry that is not of that form, naming it.
    Listen listen_of(const std::string& site) const;
    std::optional<double> bytes_per_s_of(const std::string& site) const;
};

/// `[link]`: an emulated thin link between every pair of sites (and to the coordinator) of a run on
/// one machine.
struct LinkConfig {
    std::string rate = {};  ///< "20mbit"; "" = no emulation
    std::string latency = "0ms";
    std::string jitter = "0ms";
    std::string outage = {};  ///< "every=60s,for=5s"; "" = none
    void describe(ConfigVisitor&);
    /// Nothing if `rate` is empty. ERRORS  throws Fatal(kUsage) naming the key.
    std::optional<ShaperConfig> shaper() const;
};

/// Words for links; `what` is named in the error: a key or an option.
/// ERRORS  throw Fatal(kUsage) with what is wrong and an example.

/// "20mbit" -> 20'000'000 bits/s; kbit, mbit, gbit, powers of ten; 1kbit .. 10gbit.
std::int64_t parse_rate(const std::string& text, const std::string& what);
/// "50ms", "1s", "250us"; 0 .. one day.
std::chrono::nanoseconds parse_duration(const std::string& text, const std::string& what);
/// "every=60s,for=5s"; for is shorter than every.
OutageSchedule parse_outage(const std::string& text, const std::string& what);
/// rate x (latency + jitter) lies in memory: at most 256 MB. `what` names where the three are
/// given.
void check_under_way(const ShaperConfig&, const std::string& what);

}  // namespace isthmus::net
