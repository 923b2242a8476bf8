// An operator's words arrive, are answered, and nobody waits for a coordinator that is not there.
#include "launch/operator_desk.hpp"

#include <gtest/gtest.h>

#include <future>

#include "tests/support/temporary_folder.hpp"

namespace isthmus::launch {
namespace {

using namespace std::chrono_literals;
using What = outer::Operate::What;

/// Far longer than a socket's path may be.
Path deep_folder(const test::TemporaryFolder& folder) {
    Path deep = folder.path();
    for (int i = 0; i < 4; ++i) deep /= std::string(60, 'd');
    std::filesystem::create_directories(deep);
    return deep;
}

/// Serves until the answer is there; returns it, and what was to be done.
std::pair<Result<std::string>, std::vector<outer::Operate>> ask(const Path& folder,
                                                                const std::string& words) {
    net::Context context;
    auto desk = OperatorDesk::open(context, folder);
    if (!desk) return {desk.error(), {}};
    (*desk)->know({"paris", "oslo"});
    auto answer =
        std::async(std::launch::async, [&] { return ask_coordinator(folder, words, 30s); });
    std::vector<outer::Operate> done;
    while (answer.wait_for(1ms) != std::future_status::ready) {
        for (auto& operation : (*desk)->take()) {
            done.push_back(operation.operate);
            operation.answer("done");
        }
    }
    return {answer.get(), done};
}

TEST(OperatorDesk, PassesOnAndAnswersInADeepFolder) {
    const test::TemporaryFolder folder;
    const auto [answer, done] = ask(deep_folder(folder), "drain paris");
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_NE(answer->find("paris"), std::string::npos);
    ASSERT_EQ(done.size(), 1u);
    EXPECT_EQ(done[0].what, What::kDrain);
    EXPECT_EQ(done[0].site, "paris");
}

TEST(OperatorDesk, RefusesASiteThatIsNotThereWithTheNearest) {
    const test::TemporaryFolder folder;
    const auto [answer, done] = ask(folder.path(), "drop pariz");
    ASSERT_FALSE(answer);
    EXPECT_NE(answer.error().message.find("did you mean paris?"), std::string::npos)
        << answer.error().message;
    EXPECT_TRUE(done.empty());
}

TEST(OperatorDesk, OpensAgainWhereAKilledOneLeftItsSocket) {
    const test::TemporaryFolder folder;
    ASSERT_TRUE(ask(folder.path(), "pause").first);
    EXPECT_TRUE(ask(folder.path(), "resume").first);
}

TEST(OperatorDesk, NobodyThereIsSaidWithinTheTime) {
    const test::TemporaryFolder folder;
    const auto answer = ask_coordinator(folder.path(), "pause", 30s);
    ASSERT_FALSE(answer);
    EXPECT_NE(answer.error().message.find("no coordinator"), std::string::npos);
}

TEST(OperatorDesk, WordsAreParsed) {
    EXPECT_EQ(parse_operation("pause")->what, What::kPause);
    EXPECT_EQ(parse_operation("drop oslo")->site, "oslo");
    for (const char* bad : {"", "drain", "pause oslo", "revoke oslo", "Pause"})
        EXPECT_FALSE(parse_operation(bad)) << bad;
}

}  // namespace
}  // namespace isthmus::launch
