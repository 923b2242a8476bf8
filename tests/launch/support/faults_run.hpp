// A run of three sites whose processes are started one by one, so that any of them can fail.
#pragma once

#include <map>

#include "launch/run_folder.hpp"
#include "launch/sites.hpp"
#include "tests/launch/support/program.hpp"
#include "tests/launch/support/sites_run.hpp"

namespace isthmus::test {

class FaultsRun : public SitesRun {
  protected:
    static constexpr const char* kRoundsOfFive =
        "sites = [\"paris\", \"oslo\", \"rome\"]\nsync_every_steps = 5\n";
    /// `fault` is ISTHMUS_TEST_FAULT of launch/test_faults.hpp.
    Program& start(const std::string& name, const std::string& fault = "",
                   std::vector<std::string> more = {}) {
        std::vector<std::string> words{"site", file_.string(), "--name", name};
        if (name == "coordinator") words = {"coordinator", file_.string()};
        words.insert(words.end(), more.begin(), more.end());
        Program::Environment environment{{"OMP_WAIT_POLICY", "passive"}};
        if (!fault.empty()) environment.emplace_back("ISTHMUS_TEST_FAULT", fault);
        auto& program = programs_[name];
        program = std::make_unique<Program>(std::move(words), std::move(environment));
        return *program;
    }
    /// All four, one of which has the fault.
    void start_all(const std::string& faulty = "", const std::string& fault = "") {
        for (const char* name : {"coordinator", "paris", "oslo", "rome"})
            start(name, name == faulty ? fault : "");
    }
    Program& program(const std::string& name) { return *programs_.at(name); }
    void ctl(std::vector<std::string> words) {
        words.insert(words.begin(), {"ctl", run_.string()});
        Program program(std::move(words));
        EXPECT_TRUE(program.end().ok()) << program.text();
    }
    std::string all_text() {
        std::string text;
        for (auto& [name, program] : programs_) text += "---- " + name + "\n" + program->text();
        return text;
    }
    /// Everyone ends well and all sites with the same bits, which are returned; the journal proves
    /// that no sample counts twice.
    std::string expect_one_end(std::vector<std::string> sites = {"paris", "oslo", "rome"}) {
        std::string parameters;
        for (const std::string& site : sites) {
            EXPECT_TRUE(program(site).end().ok()) << site << "\n" << all_text();
            const auto end = launch::read_site_end(*files_, launch::site_folder(run_, site));
            EXPECT_TRUE(end) << site;
            if (!end) continue;
            if (parameters.empty()) parameters = end->parameters;
            EXPECT_EQ(end->parameters, parameters) << site << "\n" << all_text();
        }
        EXPECT_TRUE(program("coordinator").end().ok()) << all_text();
        Program ledger({"data", "ledger", run_.string()});
        EXPECT_TRUE(ledger.end().ok()) << ledger.text();
        EXPECT_NE(ledger.text().find("proven"), std::string::npos) << ledger.text();
        return parameters;
    }

    Path file_;

  private:
    std::map<std::string, std::unique_ptr<Program>> programs_;
};

}  // namespace isthmus::test
