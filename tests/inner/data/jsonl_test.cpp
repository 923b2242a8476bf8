#include "inner/data/jsonl.hpp"

#include "tests/inner/data/support/data_fixture.hpp"

namespace isthmus::inner {
namespace {

class JsonlTest : public DataTest {
  protected:
    std::vector<std::string> texts(const std::string& content, const std::string& field = "text") {
        const Path path = put("in.jsonl", content);
        const auto source = open_source(*files_, path, kNoWait);
        JsonlReader reader(*source, path, field);
        std::vector<std::string> found;
        std::string text;
        while (reader.next(text)) found.push_back(text);
        return found;
    }
    std::string error_of(const std::string& content) {
        return fatal_of([&] { texts(content); });
    }
    using Texts = std::vector<std::string>;
};

TEST_F(JsonlTest, TakesTheFieldOfEachLine) {
    EXPECT_EQ(texts("{\"text\":\"one\"}\n{\"id\":3,\"text\":\"two\"}\n"), (Texts{"one", "two"}));
    EXPECT_EQ(texts("{\"text\":\"no newline at the end\"}"), (Texts{"no newline at the end"}));
    EXPECT_EQ(texts("{\"text\":\"a\"}\r\n\n  \n{\"text\":\"b\"}\r\n"), (Texts{"a", "b"}));
    EXPECT_EQ(texts("{\"body\":\"x\",\"text\":1}\n", "body"), (Texts{"x"}));
    EXPECT_EQ(texts(""), Texts{});
    EXPECT_EQ(texts("{\"text\":\"\"}\n"), Texts{""});
}

TEST_F(JsonlTest, EscapesBecomeUtf8) {
    EXPECT_EQ(texts(R"({"text":"a\n\"b\"\u00e9\ud83d\ude00"})"), (Texts{"a\n\"b\"é😀"}));
}

TEST_F(JsonlTest, OnlyTheOutermostFieldCounts) {
    EXPECT_EQ(
        texts(R"({"meta":{"text":5,"more":[{"text":null}]},"text":"outer","z":[1,{"text":true}]})"),
        (Texts{"outer"}));
    EXPECT_TRUE(has(error_of(R"({"meta":{"text":"inner"}})"), "line 1: no field \"text\""));
}

TEST_F(JsonlTest, ErrorsNameFileAndLine) {
    const std::string good = "{\"text\":\"fine\"}\n";
    const struct {
        const char* line;
        const char* message;
    } cases[] = {{"{\"text\":\"open", "not valid JSON at its byte"},
                 {"{\"text\":\"a\"} x", "not valid JSON at its byte"},
                 {"plain text", "not valid JSON at its byte"},
                 {"{\"text\":\"\xff\xfe\"}", "not valid JSON at its byte"},
                 {"{\"other\":\"a\"}", "no field \"text\""},
                 {"{\"text\":5}", "field \"text\" is a number, not a string"},
                 {"{\"text\":-5.5}", "field \"text\" is a number, not a string"},
                 {"{\"text\":null}", "field \"text\" is null, not a string"},
                 {"{\"text\":true}", "field \"text\" is a boolean, not a string"},
                 {"{\"text\":[\"a\"]}", "field \"text\" is an array, not a string"},
                 {"{\"text\":{\"a\":1}}", "field \"text\" is an object, not a string"},
                 {"[\"text\"]", "not a JSON object"},
                 {"\"text\"", "not a JSON object"},
                 {"7", "not a JSON object"}};
    for (const auto& c : cases) {
        const std::string error = error_of(good + "\n" + good + c.line + "\n" + good);
        EXPECT_TRUE(has(error, "3: " + at("in.jsonl").string() + ": line 4: " + c.message));
    }
}

TEST_F(JsonlTest, LongLinesPassAndEndlessOnesAreRefused) {
    const std::string text = sample_text(3000000, 4);
    std::string safe = text;
    std::replace(safe.begin(), safe.end(), '\n', ' ');
    EXPECT_EQ(texts("{\"text\":\"" + safe + "\"}\n{\"text\":\"b\"}\n"), (Texts{safe, "b"}));
    EXPECT_TRUE(has(error_of(std::string(kMaxJsonlLineBytes + (1u << 20), 'x')),
                    "line 1 is longer than 64 MiB"));
}

}  // namespace
}  // namespace isthmus::inner
