#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <fstream>

#include "base/error.hpp"
#include "inner/data/token_file.hpp"
#include "launch/command.hpp"
#include "tests/support/temporary_folder.hpp"

namespace isthmus::launch {
namespace {

class DataCommand : public testing::Test {
  protected:
    Path at(const std::string& name) const { return folder_.path() / name; }
    std::string put(const std::string& name, const std::string& bytes) const {
        std::ofstream(at(name), std::ios::binary) << bytes;
        return at(name).string();
    }

    /// stdout of `isthmus data ...`; what it throws comes out as "exit code: message".
    std::string run(std::vector<std::string> arguments) {
        CLI::App app("test", "isthmus");
        add_data_command(app, context_);
        arguments.insert(arguments.begin(), "data");
        std::reverse(arguments.begin(), arguments.end());
        testing::internal::CaptureStdout();
        std::string thrown;
        try {
            app.parse(arguments);
        } catch (const Fatal& e) {
            thrown = std::to_string(static_cast<int>(e.code())) + ": " + e.what();
        } catch (const CLI::CallForHelp&) {
            std::fputs(app.help().c_str(), stdout);
        } catch (const CLI::ParseError& e) {
            thrown = std::string("usage: ") + e.what();
        }
        return testing::internal::GetCapturedStdout() + thrown;
    }
    static testing::AssertionResult has(const std::string& text, const std::string& part) {
        if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
        return testing::AssertionFailure() << "\"" << part << "\" is not in: " << text;
    }

    test::TemporaryFolder folder_;
    std::unique_ptr<FileSystem> files_ = posix_files();
    Log log_{"test", LogLevel::kError};
    bool stop_ = false;
    CommandContext context_{*files_, log_, [this] { return stop_; }, false};
};

TEST_F(DataCommand, PrepareThenInfo) {
    const std::string one = put("one.txt", std::string(6000, 'a'));
    const std::string two = put("two.jsonl", "{\"body\":\"" + std::string(4000, 'b') + "\"}\n");
    const std::string out = at("out").string();
    const std::string said =
        run({"prepare", one, two, "--out", out, "--validation", "0.395", "--field", "body"});
    EXPECT_TRUE(has(said, "tokens       10,000: 6,000 train, 4,000 validation"));
    EXPECT_TRUE(has(said, "byte, vocabulary 256, 1 byte(s) a token"));
    EXPECT_TRUE(has(said, "documents    2"));
    const std::string info = run({"info", out, "--verify"});
    EXPECT_TRUE(has(info, "tokens       10,000: 6,000 train, 4,000 validation"));
    EXPECT_TRUE(has(info, "every checksum, id and document start is right"));
    EXPECT_TRUE(has(run({"prepare", one, "--out", out}), "--overwrite"));
    EXPECT_TRUE(has(run({"prepare", one, "--out", out, "--overwrite"}), "tokens       6,000"));
}

TEST_F(DataCommand, ImportThenInfo) {
    std::string train, validation;
    for (int i = 0; i < 300; ++i) train += std::string{static_cast<char>(i % 60), 0};
    for (int i = 0; i < 50; ++i) validation += std::string{static_cast<char>(i % 60), 0};
    const std::string said = run(
        {"import", put("train.bin", train), "--validation", put("val.bin", validation), "--out",
         at("out").string(), "--format", "nanogpt", "--vocab", "60", "--end-of-document", "59"});
    EXPECT_TRUE(has(said, "tokens       350: 300 train, 50 validation"));
    EXPECT_TRUE(has(said, "documents    6"));
    EXPECT_TRUE(has(run({"info", at("out").string(), "--verify"}), "verified"));
    EXPECT_TRUE(
        has(run({"import", at("train.bin").string(), "--out", at("no").string(), "--vocab", "59"}),
            "3: " + at("train.bin").string() + ": token 59 (byte 118) has id 59"));
    EXPECT_FALSE(std::filesystem::exists(at("no")));
}

TEST_F(DataCommand, DamageIsFoundByVerifyAndStopEndsWith130) {
    const std::string one = put("one.txt", std::string(3 << 20, 'a'));
    const std::string out = at("out").string();
    run({"prepare", one, "--out", out});
    std::fstream file(at("out") / inner::kTokenFileName,
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4096 + (1 << 20) + 17);
    file.put('b');
    file.close();
    EXPECT_TRUE(has(run({"info", out, "--verify"}),
                    "3: " + (at("out") / inner::kTokenFileName).string() + ": block 1 "));
    stop_ = true;
    EXPECT_TRUE(has(run({"info", out, "--verify"}), "130: "));
    EXPECT_TRUE(has(run({"prepare", one, "--out", at("other").string()}), "130: stopped"));
    EXPECT_FALSE(std::filesystem::exists(at("other")));
}

TEST_F(DataCommand, HelpShowsDefaultsAndUsageErrorsAreCaught) {
    EXPECT_TRUE(has(run({"prepare", "--help"}), "SHARE=0.02"));
    EXPECT_TRUE(has(run({"prepare", "--help"}), "NAME=byte"));
    EXPECT_TRUE(has(run({}), "usage: "));
    EXPECT_TRUE(has(run({"prepare"}), "usage: "));
    EXPECT_TRUE(has(run({"import", "a", "--out", "b", "--format", "zip"}), "usage: "));
    EXPECT_TRUE(has(run({"info", at("nowhere").string()}), "3: " + at("nowhere").string()));
}

}  // namespace
}  // namespace isthmus::launch
