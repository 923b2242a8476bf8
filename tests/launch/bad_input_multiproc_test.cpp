// What a user gets wrong, and a disk that is full, as real processes say it.
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/error.hpp"
#include "launch/keys.hpp"
#include "launch/meeting_place.hpp"
#include "net/address.hpp"
#include "net/link.hpp"
#include "tests/launch/support/faults_run.hpp"

namespace isthmus::launch {
namespace {

using test::Program;

class BadInput : public test::FaultsRun {
  protected:
    static constexpr const char* kTwo = "sites = [\"paris\", \"oslo\"]\nsync_every_steps = 5\n";
    static std::string host_port(const std::string& endpoint) {
        return endpoint.substr(net::kTcp.size());
    }
    void expect_refusal(Program& program, ExitCode code, const std::vector<std::string>& words) {
        EXPECT_EQ(program.end().code, static_cast<int>(code)) << program.text();
        for (const std::string& word : words)
            EXPECT_NE(program.last_line().find(word), std::string::npos)
                << word << " in " << program.text();
    }
};

TEST_F(BadInput, AKeyThatOthersCanReadIsRefused) {
    const Path keys = folder_.path() / "keys";
    const std::string coordinator_key = make_run_keys(keys, {"paris", "oslo"});
    file_ = write_config(10, std::string(kTwo) + fmt::format("[net]\nkeys = \"{}\"\n"
                                                             "coordinator_key = \"{}\"\n",
                                                             keys.string(), coordinator_key));
    const Path file = keys / "paris.key";
    ASSERT_EQ(::chmod(file.c_str(), 0644), 0);
    expect_refusal(start("paris"), ExitCode::kUsage,
                   {file.string(), "0644", "chmod 600 " + file.string()});
    ASSERT_EQ(::chmod((keys / "coordinator.key").c_str(), 0640), 0);
    expect_refusal(start("coordinator"), ExitCode::kUsage, {"coordinator.key", "0640"});
}

TEST_F(BadInput, AnAddressInUseIsNamedWithItsHolder) {
    file_ = write_config(10, kTwo);
    net::Context context;
    const auto holder = net::Link::listen(context, net::LinkKind::kServer);
    ASSERT_TRUE(holder);
    const std::string taken = host_port((*holder)->endpoint());
    const std::string pid = std::to_string(::getpid());
    expect_refusal(start("coordinator", "", {"--listen", taken}), ExitCode::kResources,
                   {"listening on " + taken, "address in use, by", pid});
    expect_refusal(start("paris", "", {"--listen", taken}), ExitCode::kResources,
                   {"listening on " + taken, "address in use, by", pid});
}

TEST_F(BadInput, TheSecondAddressOfTheCoordinatorIsTried) {
    file_ = write_config(20, std::string(kTwo) + "[net]\nround_budget_s = 6.0\n");
    start("coordinator");
    ASSERT_TRUE(program("coordinator").says("waiting for 2 sites at "));
    const std::string right = host_port(read_coordinator_address(*files_, run_));
    // Bound by nobody after this line.
    std::string wrong;
    {
        net::Context context;
        wrong = host_port((*net::Link::listen(context, net::LinkKind::kServer))->endpoint());
    }
    start("paris", "", {"--coordinator", wrong, "--coordinator", right});
    start("oslo");
    expect_one_end({"paris", "oslo"});
    EXPECT_NE(program("paris").text().find(fmt::format(
                  "no answer from the coordinator at tcp://{}; trying tcp://{}", wrong, right)),
              std::string::npos)
        << program("paris").text();
}

TEST_F(BadInput, AModelOfAnotherShapeIsNamed) {
    file_ = write_config(1'000'000, kTwo);
    start("coordinator");
    start("paris");
    expect_refusal(start("oslo", "", {"--set", "model.ffn_dim=96"}), ExitCode::kPeerLost,
                   {"model.ffn_dim = 96 there, 64 here", "model parameters = "});
}

/// A small file system of its own, as long as it lives.
class SmallDisk {
  public:
    explicit SmallDisk(Path at) : at_(std::move(at)) {
        std::filesystem::create_directories(at_);
        mounted_ = ::mount("tmpfs", at_.c_str(), "tmpfs", 0, "size=128k") == 0;
        why_ = mounted_ ? 0 : errno;
    }
    ~SmallDisk() {
        if (mounted_) ::umount2(at_.c_str(), MNT_DETACH);
    }
    bool mounted() const { return mounted_; }
    std::string why() const { return std::strerror(why_); }
    Path filler() const { return at_ / "filler"; }
    void fill() const {
        std::ofstream file(filler(), std::ios::binary);
        const std::string page(4096, 'x');
        while (file.write(page.data(), static_cast<std::streamsize>(page.size())).flush()) {
        }
    }

  private:
    Path at_;
    bool mounted_ = false;
    int why_ = 0;
};

TEST_F(BadInput, AFullDiskPausesTheRunUntilThereIsRoom) {
    const SmallDisk disk(run_);
    if (!disk.mounted()) GTEST_SKIP() << "mounting a tmpfs needs root: " << disk.why();
    // Only the coordinator's files are on the small disk.
    for (const char* site : {"paris", "oslo"}) {
        std::filesystem::create_directories(folder_.path() / site);
        std::filesystem::create_directory_symlink(folder_.path() / site, site_folder(run_, site));
    }
    file_ = write_config(300, kTwo);
    for (const char* name : {"coordinator", "paris", "oslo"}) start(name);
    ASSERT_TRUE(program("paris").says("round 2 after"));
    disk.fill();
    const ExitStatus status = program("coordinator").end();
    EXPECT_EQ(status.code, static_cast<int>(ExitCode::kResources)) << all_text();
    EXPECT_NE(program("coordinator").last_line().find("the run pauses: "), std::string::npos)
        << program("coordinator").text();
    std::filesystem::remove(disk.filler());
    start("coordinator");
    expect_one_end({"paris", "oslo"});
}

}  // namespace
}  // namespace isthmus::launch
