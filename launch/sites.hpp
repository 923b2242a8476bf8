// A site's part in a run of several, as hooks of its training loop: it asks the outer loop for work
// before the first step, tells it of each step, and ends when the outer loop says so.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/files.hpp"
#include "base/log.hpp"
#include "launch/run_config.hpp"
#include "launch/training.hpp"

namespace isthmus::launch {

struct SiteRun {
    RunConfig config;
    std::string name;
    Path folder;                           ///< exists; rounds.jsonl and end.json go here
    std::string listen;                    ///< "ADDRESS:PORT" of its data; "": as configured
    std::string advertise;                 ///< "HOST:PORT" that peers connect to; "": as configured
    std::string key_file;                  ///< "": net.keys/NAME.key
    std::vector<std::string> coordinator;  ///< "HOST:PORT"; empty: as configured
    std::uint64_t data_fingerprint = 0;
    std::function<bool()> stop;  ///< Ctrl-C or SIGTERM came
};

/// end.json in a site's folder, once it has ended its part: with what.
struct SiteEnd {
    std::string state;       ///< name of the outer state, hex
    std::string parameters;  ///< digest of the parameters themselves, hex
    std::uint64_t round = 0;
    bool drained = false;  ///< left early, as an operator asked
};
void write_site_end(FileSystem&, const Path& site_folder, const SiteEnd&);
/// ERRORS  missing, or not such a file.
Result<SiteEnd> read_site_end(FileSystem&, const Path& site_folder);

/// THREAD  the training thread.
class SiteMeeting {
  public:
    /// ERRORS  throws Fatal(kUsage): keys, addresses, a name that the run does not have.
    SiteMeeting(SiteRun, FileSystem&, Log&);
    /// A site that goes without having ended its run tells the others so.
    ~SiteMeeting();
    SiteMeeting(const SiteMeeting&) = delete;
    SiteMeeting& operator=(const SiteMeeting&) = delete;

    /// They hold on to this object.
    /// ERRORS  they throw Fatal(kPeerLost) saying why the run ended for this site,
    /// Fatal(kInterrupted) when `stop` came before the first step, Fatal(kResources) when a socket
    /// cannot be had.
    TrainingHooks hooks();
    /// Whether it has trained to the end of the run or was drained.
    bool finished() const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace isthmus::launch
