#include "base/config.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace isthmus {
namespace {

struct Optim {
    double lr = 2e-3;
    std::int64_t warmup_steps = 100;
    std::string schedule = "cosine";
    void describe(ConfigVisitor& v) {
        v.field("lr", lr, {.help = "peak learning rate", .min = 0, .max = 10});
        v.field("warmup_steps", warmup_steps, {.help = "warm-up", .unit = "steps", .min = 0});
        v.field("schedule", schedule, {.help = "shape", .one_of = {"cosine", "linear", "wsd"}});
    }
};

struct Settings {
    std::string name = "demo";
    bool resume = false;
    std::vector<std::string> inputs = {"a b", "c\"d\\\n"};
    Optim optim;
    void describe(ConfigVisitor& v) {
        v.field("name", name, {.help = "name of the run", .allow_empty = false});
        v.section("optim", optim, "AdamW and its schedule");
        v.field("resume", resume, {.help = "go on where it stopped"});
        v.field("inputs", inputs, {.help = "files"});
    }
};

Describe walk(Settings& run) {
    return [&run](ConfigVisitor& v) { run.describe(v); };
}

Settings load(const std::string& text, const std::vector<std::string>& overrides = {}) {
    Settings run;
    load_config(walk(run), text, "run.toml", overrides);
    return run;
}

std::string error_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
    try {
        load(text, overrides);
    } catch (const Fatal& error) {
        EXPECT_EQ(error.code(), ExitCode::kUsage);
        return error.what();
    }
    return "no error";
}

TEST(Config, FillsWhatIsNamedAndKeepsDefaults) {
    const Settings run = load("name = \"x\"\ninputs = []\n[optim]\nlr = 1\nschedule = \"wsd\"\n");
    EXPECT_EQ(run.name, "x");
    EXPECT_TRUE(run.inputs.empty());
    EXPECT_EQ(run.optim.lr, 1.0);  // an integer is a number
    EXPECT_EQ(run.optim.schedule, "wsd");
    EXPECT_EQ(run.optim.warmup_steps, 100);
}

TEST(Config, OverridesComeAfterTheFile) {
    const Settings run = load("resume = false\n[optim]\nlr = 1\n",
                              {"optim.lr=0.5", "optim.schedule=linear", "resume=true", "name=2024",
                               "inputs=[\"q\"]", "optim.lr=0.25"});
    EXPECT_EQ(run.optim.lr, 0.25);
    EXPECT_EQ(run.optim.schedule, "linear");
    EXPECT_TRUE(run.resume);
    EXPECT_EQ(run.name, "2024");
    EXPECT_EQ(run.inputs, std::vector<std::string>{"q"});
    EXPECT_EQ(load("", {"name=a = b # c"}).name, "a = b # c");
    EXPECT_EQ(load("", {"name=\"quoted\""}).name, "quoted");
    EXPECT_EQ(load("", {"name=1\nresume = true"}).name, "1\nresume = true");
}

TEST(Config, UnknownKeyNamesTheNearest) {
    EXPECT_EQ(error_of("\n[optim]\nlrr = 1\n"),
              "run.toml:3: optim.lrr is not a key; did you mean optim.lr?");
    EXPECT_EQ(error_of("[optm]\nlr = 1\n"), "run.toml:1: optm is not a key; did you mean optim?");
    EXPECT_EQ(error_of("lr = 1\n"), "run.toml:1: lr is not a key; did you mean optim.lr?");
    EXPECT_EQ(error_of("colour = 1\n"), "run.toml:1: colour is not a key");
    EXPECT_EQ(error_of("", {"optim.rl=1"}),
              "--set optim.rl=1: optim.rl is not a key; did you mean optim.lr?");
    EXPECT_EQ(error_of("optim.lr.x = 1\n"), "run.toml:1: optim.lr must be a number, not a table");
    EXPECT_EQ(error_of("", {"optim.lr.x=1"}),
              "--set optim.lr.x=1: optim.lr.x is not a key; did you mean optim.lr?");
}

TEST(Config, WrongType) {
    EXPECT_EQ(error_of("[optim]\nlr = \"high\"\n"),
              "run.toml:2: optim.lr must be a number, not a string");
    EXPECT_EQ(error_of("[optim]\nwarmup_steps = 1.5\n"),
              "run.toml:2: optim.warmup_steps must be an integer, not a number with a fraction");
    EXPECT_EQ(error_of("resume = 1\n"), "run.toml:1: resume must be true or false, not an integer");
    EXPECT_EQ(error_of("name = 2024-01-01\n"),
              "run.toml:1: name must be a string, not a date or time");
    EXPECT_EQ(error_of("inputs = \"a\"\n"),
              "run.toml:1: inputs must be a list of strings, such as [\"a\", \"b\"], not a string");
    EXPECT_EQ(
        error_of("inputs = [\"a\", 1]\n"),
        "run.toml:1: inputs must be a list of strings, such as [\"a\", \"b\"], not an integer");
    EXPECT_EQ(error_of("optim = 3\n"),
              "run.toml:1: optim is a section of keys, not a key; `isthmus config --explain optim` "
              "lists them");
    EXPECT_EQ(error_of("", {"optim.lr=fast"}),
              "--set optim.lr=fast: optim.lr must be a number, not a string");
    EXPECT_EQ(error_of("", {"optim=3"}),
              "--set optim=3: optim is a section of keys, not a key; `isthmus config --explain "
              "optim` lists them");
}

TEST(Config, OutOfRange) {
    EXPECT_EQ(error_of("[optim]\nlr = 20\n"), "run.toml:2: optim.lr = 20 is out of range: 0 to 10");
    EXPECT_EQ(error_of("[optim]\nlr = nan\n"), "run.toml:2: optim.lr = nan must be finite");
    EXPECT_EQ(error_of("[optim]\nwarmup_steps = -1\n"),
              "run.toml:2: optim.warmup_steps = -1 is out of range: at least 0");
    EXPECT_EQ(error_of("name = \"\"\n"), "run.toml:1: name must not be empty");
}

TEST(Config, NotOneOf) {
    EXPECT_EQ(error_of("[optim]\nschedule = \"cosin\"\n"),
              "run.toml:2: optim.schedule = \"cosin\" is not one of cosine, linear, wsd; did you "
              "mean cosine?");
    EXPECT_EQ(error_of("", {"optim.schedule=3"}),
              "--set optim.schedule=3: optim.schedule = \"3\" is not one of cosine, linear, wsd");
}

TEST(Config, BrokenTomlAndBrokenOverrideNameThePlace) {
    EXPECT_TRUE(error_of("name = \"a\"\nresume = \n").starts_with("run.toml:2: not valid TOML: "));
    EXPECT_TRUE(
        error_of("name = \"a\"\nname = \"b\"\n").starts_with("run.toml:2: not valid TOML: "));
    EXPECT_EQ(error_of("", {"optim.lr"}),
              "--set optim.lr: expected key=value, such as optim.lr=0.001");
    EXPECT_EQ(error_of("", {"=3"}), "--set =3: expected key=value, such as optim.lr=0.001");
}

TEST(Config, DumpReadsBackEqual) {
    Settings run;
    run.name = "tab\t \"q\" \\ \x01 ü";
    run.resume = true;
    run.optim = {.lr = 0.1 + 0.2, .warmup_steps = 1ll << 60, .schedule = "wsd"};
    for (const bool with_help : {false, true}) {
        const std::string text = dump_config(walk(run), with_help);
        const Settings back = load(text);
        EXPECT_EQ(back.name, run.name);
        EXPECT_EQ(back.resume, run.resume);
        EXPECT_EQ(back.inputs, run.inputs);
        EXPECT_EQ(back.optim.lr, run.optim.lr);
        EXPECT_EQ(back.optim.warmup_steps, run.optim.warmup_steps);
        EXPECT_EQ(back.optim.schedule, run.optim.schedule);
    }
    for (const double lr : {1.0, 1e-8, 0.0, 10.0, 5e-324}) {
        run.optim.lr = lr;
        EXPECT_EQ(load(dump_config(walk(run), false)).optim.lr, lr);
    }
}

TEST(Config, DumpPutsKeysBeforeSections) {
    Settings run;
    run.inputs = {"a"};
    EXPECT_EQ(dump_config(walk(run), true),
              "# name of the run\nname = \"demo\"\n"
              "# go on where it stopped\nresume = false\n"
              "# files\ninputs = [\"a\"]\n\n"
              "# AdamW and its schedule\n[optim]\n"
              "# peak learning rate (0 to 10)\nlr = 0.002\n"
              "# warm-up (steps; at least 0)\nwarmup_steps = 100\n"
              "# shape (one of: cosine, linear, wsd)\nschedule = \"cosine\"\n");
}

TEST(Config, Explain) {
    Settings run;
    EXPECT_EQ(explain_config(walk(run), "optim.lr"),
              "optim.lr = 0.002\n    peak learning rate (0 to 10)\n");
    const std::string section = explain_config(walk(run), "optim");
    EXPECT_TRUE(section.starts_with("[optim]  AdamW and its schedule\noptim.lr = 0.002\n"));
    EXPECT_NE(section.find("optim.schedule"), std::string::npos);
    EXPECT_EQ(section.find("resume"), std::string::npos);
    try {
        explain_config(walk(run), "optim.warmup_step");
        FAIL();
    } catch (const Fatal& error) {
        EXPECT_STREQ(error.what(),
                     "optim.warmup_step is not a key; did you mean optim.warmup_steps?");
    }
}

TEST(Config, NearestName) {
    EXPECT_EQ(nearest_name("lr", {"batch", "lrr"}), "lrr");
    EXPECT_EQ(nearest_name("bacth", {"batch", "bath"}), "batch");  // a swap costs one
    EXPECT_EQ(nearest_name("xyz", {"batch"}), "");
}

}  // namespace
}  // namespace isthmus
