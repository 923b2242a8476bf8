// Every documented setting is accepted (row 43 of the list of scenarios): each key by its own name,
// with each of its choices; every key and every TOML text that a README or a new run shows.
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "base/error.hpp"
#include "launch/new_run.hpp"
#include "launch/run_config.hpp"
#include "tests/support/temporary_folder.hpp"

namespace isthmus::launch {
namespace {

struct Setting {
    std::string key, value;  ///< as TOML
    std::vector<std::string> choices;
};

/// Walks a configuration as the parser does.
class Collect : public ConfigVisitor {
  public:
    std::vector<Setting> all;
    void field(std::string_view name, bool& v, const FieldInfo&) override {
        add(name, v ? "true" : "false");
    }
    void field(std::string_view name, std::int64_t& v, const FieldInfo&) override {
        add(name, fmt::format("{}", v));
    }
    void field(std::string_view name, double& v, const FieldInfo&) override {
        add(name, fmt::format("{:f}", v));
    }
    void field(std::string_view name, std::string& v, const FieldInfo& info) override {
        add(name, "\"" + v + "\"");
        all.back().choices = info.one_of;
    }
    void field(std::string_view name, std::vector<std::string>&, const FieldInfo&) override {
        add(name, "[]");
    }

  protected:
    void enter(std::string_view name, std::string_view) override { sections_.emplace_back(name); }
    void leave() override { sections_.pop_back(); }

  private:
    void add(std::string_view name, std::string value) {
        std::string key;
        for (const std::string& section : sections_) key += section + ".";
        all.push_back({key + std::string(name), std::move(value), {}});
    }
    std::vector<std::string> sections_;
};

std::vector<Setting> settings() {
    RunConfig config;
    Collect collect;
    config.describe(collect);
    return collect.all;
}

std::set<std::string> keys() {
    std::set<std::string> out;
    for (const Setting& s : settings()) {
        out.insert(s.key);
        out.insert(s.key.substr(0, s.key.find('.')));
    }
    return out;
}

/// What is wrong with these overrides, or "".
std::string refusal(const std::vector<std::string>& overrides, bool resolve = false) {
    RunConfig config;
    try {
        load_config(describe_of(config), "", "test.toml", overrides);
        if (resolve) config.resolve();
    } catch (const Fatal& error) {
        return error.what();
    }
    return "";
}

std::string text_of(const Path& file) {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
}

std::vector<Path> readmes() {
    std::vector<Path> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(ISTHMUS_SOURCE_DIR)) {
        if (entry.path().filename() == "README.md") files.push_back(entry.path());
    }
    return files;
}

TEST(DocumentedSettings, EveryKeyTakesItsDefaultByName) {
    const auto all = settings();
    ASSERT_GT(all.size(), 50u);
    for (const Setting& s : all) {
        EXPECT_EQ(refusal({s.key + "=" + s.value}, true), "") << s.key;
        RunConfig config;
        EXPECT_NE(explain_config(describe_of(config), s.key), "") << s.key;
    }
}

TEST(DocumentedSettings, EveryChoiceIsTaken) {
    std::size_t choices = 0;
    for (const Setting& s : settings()) {
        const std::string leaf = s.key.substr(s.key.rfind('.') + 1);
        for (const std::string& choice : s.choices) {
            ++choices;
            EXPECT_EQ(refusal({s.key + "=\"" + choice + "\""}), "") << s.key;
            // What else it needs may be missing, but then that is what the message names.
            const std::string why = refusal({s.key + "=\"" + choice + "\""}, true);
            EXPECT_TRUE(why.empty() || why.find(leaf) != std::string::npos) << s.key << ": " << why;
        }
        EXPECT_TRUE(s.choices.empty() || refusal({s.key + "=\"no such choice\""}) != "") << s.key;
    }
    EXPECT_GT(choices, 15u);
}

TEST(DocumentedSettings, EveryKeyThatAReadmeNamesIsThere) {
    const auto known = keys();
    const std::regex key("`((?:model|train|optim|outer|net|link)\\.[a-z_0-9]+)(?: ?=[^`]*)?`");
    const std::set<std::string> endings{"cpp", "hpp", "safetensors", "json", "toml", "md", "sh"};
    std::size_t named = 0;
    for (const Path& file : readmes()) {
        const std::string text = text_of(file);
        for (std::sregex_iterator it(text.begin(), text.end(), key), end; it != end; ++it) {
            const std::string name = (*it)[1];
            if (endings.contains(name.substr(name.find('.') + 1))) continue;
            ++named;
            EXPECT_TRUE(known.contains(name)) << name << " in " << file;
        }
    }
    EXPECT_GT(named, 0u);
}

TEST(DocumentedSettings, EveryTomlTextOfAReadmeIsRead) {
    std::size_t texts = 0;
    for (const Path& file : readmes()) {
        std::istringstream lines(text_of(file));
        std::string text;
        bool inside = false;
        for (std::string line; std::getline(lines, line);) {
            if (line.starts_with("```")) {
                if (inside) {
                    ++texts;
                    RunConfig config;
                    EXPECT_NO_THROW(load_config(describe_of(config), text, file.string()))
                        << file << "\n"
                        << text;
                }
                inside = !inside && line == "```toml";
                text.clear();
            } else if (inside) {
                text += line + "\n";
            }
        }
    }
    EXPECT_GT(texts, 0u);
}

// What a new run's file shows behind "# key = value" can be had by taking the "# " away.
TEST(DocumentedSettings, WhatANewRunShowsAsCommentsIsTaken) {
    const test::TemporaryFolder folder;
    const auto files = posix_files();
    NewRun run;
    run.file = (folder.path() / "mine").string();
    run.model = "tiny";
    run.data = "some data";
    run.sites = {"paris", "oslo"};
    std::istringstream lines(text_of(write_new_run(*files, run)));
    const std::regex commented(R"(# ([a-z_]+ = .*|\[[a-z]+\]))");
    std::string text;
    std::size_t shown = 0;
    for (std::string line; std::getline(lines, line); text += line + "\n") {
        std::smatch match;
        if (!std::regex_match(line, match, commented)) continue;
        ++shown;
        line = std::string(match[1]);
    }
    EXPECT_GT(shown, 2u);
    RunConfig config;
    EXPECT_NO_THROW(load_config(describe_of(config), text, "mine.toml")) << text;
    EXPECT_NO_THROW(config.resolve()) << text;
}

}  // namespace
}  // namespace isthmus::launch
