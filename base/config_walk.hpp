// What the walks over a configuration tree share; only base/config*.cpp include it.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.hpp"
#include "base/config.hpp"

namespace isthmus::config_walk {

std::string join(std::string_view path, std::string_view name);
/// Behind the last dot.
std::string leaf(std::string_view path);
/// "a, b, c"
std::string list_of(const std::vector<std::string>& names);
/// A TOML basic string, with quotes.
std::string toml_string(std::string_view text);
/// "0 to 10", "at least 0", "at most 10" or "".
std::string range_text(const FieldInfo&);

/// Keeps the dotted path, and brings the five kinds of field to one template `at(path, value,
/// info)`.
template <class Self>
class Walker : public ConfigVisitor {
  public:
    void field(std::string_view name, bool& v, const FieldInfo& i) override { go(name, v, i); }
    void field(std::string_view name, std::int64_t& v, const FieldInfo& i) override {
        go(name, v, i);
    }
    void field(std::string_view name, double& v, const FieldInfo& i) override { go(name, v, i); }
    void field(std::string_view name, std::string& v, const FieldInfo& i) override {
        go(name, v, i);
    }
    void field(std::string_view name, std::vector<std::string>& v, const FieldInfo& i) override {
        go(name, v, i);
    }

  protected:
    void enter(std::string_view name, std::string_view help) override {
        path_ = join(path_, name);
        static_cast<Self*>(this)->section_starts(path_, help);
    }
    void leave() override {
        const auto dot = path_.rfind('.');
        path_ = dot == std::string::npos ? "" : path_.substr(0, dot);
    }

  private:
    template <class T>
    void go(std::string_view name, T& value, const FieldInfo& info) {
        static_cast<Self*>(this)->at(join(path_, name), value, info);
    }
    std::string path_;
};

class Collector final : public Walker<Collector> {
  public:
    template <class T>
    void at(const std::string& path, T&, const FieldInfo&) {
        CHECK(std::find(fields.begin(), fields.end(), path) == fields.end(),
              "config key {} is declared twice", path);
        fields.push_back(path);
    }
    void section_starts(const std::string& path, std::string_view) { sections.push_back(path); }

    bool is_field(const std::string& path) const {
        return std::find(fields.begin(), fields.end(), path) != fields.end();
    }
    bool is_section(const std::string& path) const {
        return std::find(sections.begin(), sections.end(), path) != sections.end();
    }
    /// "optim.lrr is not a key; did you mean optim.lr?"
    std::string unknown(const std::string& path) const;

    std::vector<std::string> fields, sections;
};

Collector collect(const Describe&);

}  // namespace isthmus::config_walk
