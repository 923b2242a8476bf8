// A site's lines add up, and a torn one is left out.
#include "launch/round_records.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/temporary_folder.hpp"

namespace isthmus::launch {
namespace {

SiteRound round_number(std::uint64_t n, double train_s, double lost_s) {
    SiteRound round;
    round.figures.round = Round(n);
    round.figures.state.round = Round(n);
    round.figures.state.hash[0] = std::byte(n);
    round.figures.barrier_s = 0.25 * lost_s;
    round.figures.figures.exchange_s = 0.5 * lost_s;
    round.figures.figures.wait_s = 0.5 * lost_s;
    round.figures.figures.bytes_sent = 2'000'000;
    round.step = static_cast<std::int64_t>(20 * n);
    round.train_s = train_s;
    round.lost_s = lost_s;
    return round;
}

TEST(RoundRecords, ASiteLineIsJsonWithPredictionBesideMeasurement) {
    fmt::memory_buffer out;
    append_json(out, round_number(3, 9, 1), {.bytes_sent = 7, .bytes_received = 8, .seconds = {}});
    const auto json = nlohmann::json::parse(fmt::to_string(out));
    EXPECT_EQ(json["round"], 3);
    EXPECT_EQ(json["step"], 60);
    EXPECT_DOUBLE_EQ(json["utilisation"].get<double>(), 0.9);
    EXPECT_DOUBLE_EQ(json["vote_s"].get<double>(), 0.25) << "what is waited beside the barrier";
    EXPECT_EQ(json["predicted_bytes_sent"], 7);
    EXPECT_TRUE(json["predicted_s"].is_null());
}

TEST(RoundRecords, LinesAddUp) {
    const test::TemporaryFolder folder;
    const auto files = posix_files();
    fmt::memory_buffer out;
    append_json(out, round_number(1, 9, 1), {});
    append_json(out, round_number(2, 7, 3), {});
    ASSERT_TRUE(
        replace_file(*files, folder / "rounds.jsonl", fmt::to_string(out) + "{\"round\":3,\"lost"));
    const auto sum = summarise_rounds(*files, folder / "rounds.jsonl");
    ASSERT_TRUE(sum);
    EXPECT_EQ(sum->rounds, 2u);
    EXPECT_EQ(sum->state.substr(0, 2), "02");
    EXPECT_EQ(
        summary_line(*sum),
        "2 rounds, 2.00 MB sent a round and site, 20.0 % of the time lost to the link (10.0 % "
        "in exchanges, 5.0 % waiting for the others)");
    EXPECT_FALSE(summarise_rounds(*files, folder / "none.jsonl"));
}

}  // namespace
}  // namespace isthmus::launch
