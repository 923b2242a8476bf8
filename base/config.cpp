// Four visitors over the one struct tree: collect its keys, fill it, print it, explain it.
#include "base/config.hpp"

#include <fmt/core.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "base/check.hpp"
#include "base/error.hpp"

namespace isthmus {

namespace {

std::string join(std::string_view path, std::string_view name) {
    return path.empty() ? std::string(name) : fmt::format("{}.{}", path, name);
}

std::string leaf(std::string_view path) {
    return std::string(path.substr(path.rfind('.') + 1));  // npos + 1 == 0
}

std::string list_of(const std::vector<std::string>& names) {
    std::string all;
    for (const auto& name : names) all += (all.empty() ? "" : ", ") + name;
    return all;
}

std::string toml_string(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\') {
            out += {'\\', c};
        } else if (byte < 0x20 || byte == 0x7f) {
            out += fmt::format("\\u{:04X}", byte);
        } else {
            out += c;
        }
    }
    return out + '"';
}

std::string as_toml(bool value) {
    return value ? "true" : "false";
}
std::string as_toml(std::int64_t value) {
    return fmt::format("{}", value);
}
std::string as_toml(double value) {
    std::string text = fmt::format("{}", value);  // the shortest that reads back equal
    const bool looks_integer = text.find_first_not_of("-0123456789") == std::string::npos;
    return looks_integer ? text + ".0" : text;
}
std::string as_toml(const std::string& value) {
    return toml_string(value);
}
std::string as_toml(const std::vector<std::string>& value) {
    std::vector<std::string> items;
    for (const auto& item : value) items.push_back(toml_string(item));
    return "[" + list_of(items) + "]";
}

std::string range_text(const FieldInfo& info) {
    const bool low = std::isfinite(info.min), high = std::isfinite(info.max);
    if (low && high) return fmt::format("{} to {}", info.min, info.max);
    if (low) return fmt::format("at least {}", info.min);
    return high ? fmt::format("at most {}", info.max) : "";
}

/// "peak learning rate (steps; 0 to 10)"
std::string help_text(const FieldInfo& info) {
    std::vector<std::string> facts;
    if (!info.unit.empty()) facts.push_back(info.unit);
    if (auto range = range_text(info); !range.empty()) facts.push_back(range);
    if (!info.one_of.empty()) facts.push_back("one of: " + list_of(info.one_of));
    std::string all;
    for (const auto& fact : facts) all += (all.empty() ? "" : "; ") + fact;
    return all.empty() ? info.help : fmt::format("{} ({})", info.help, all);
}

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
    std::string unknown(const std::string& path) const {
        std::vector<std::string> all = fields;
        all.insert(all.end(), sections.begin(), sections.end());
        std::string near = nearest_name(path, all);
        // The right name in the wrong section: "lr" for "optim.lr".
        for (std::size_t i = 0; near.empty() && i < all.size(); ++i)
            if (leaf(all[i]) == leaf(path)) near = all[i];
        return near.empty() ? fmt::format("{} is not a key", path)
                            : fmt::format("{} is not a key; did you mean {}?", path, near);
    }

    std::vector<std::string> fields, sections;
};

Collector collect(const Describe& describe) {
    Collector collector;
    describe(collector);
    return collector;
}

std::string_view type_name(const toml::node& node) {
    switch (node.type()) {
        case toml::node_type::table:
            return "a table";
        case toml::node_type::array:
            return "a list";
        case toml::node_type::string:
            return "a string";
        case toml::node_type::integer:
            return "an integer";
        case toml::node_type::floating_point:
            return "a number with a fraction";
        case toml::node_type::boolean:
            return "true or false";
        default:
            return "a date or time";
    }
}

toml::table parse(std::string_view text, std::string_view origin) {
    try {
        return toml::parse(text, origin);
    } catch (const toml::parse_error& error) {
        throw fatal(ExitCode::kUsage, "{}:{}: not valid TOML: {}", origin,
                    error.source().begin.line, error.description());
    }
}

/// One `--set key=value`.
struct Override {
    std::string text;   ///< as given
    std::string value;  ///< right of the first '='
    toml::table holder;
    const toml::node& node() const { return *holder.get("v"); }
};

Override parse_override(const std::string& text) {
    Override result{.text = text, .value = text.substr(text.find('=') + 1), .holder = {}};
    try {
        result.holder = toml::parse("v = " + result.value);
    } catch (const toml::parse_error&) {
        result.holder.clear();
    }
    // A bare word is a string; so is what would smuggle in a second key.
    if (result.holder.size() != 1) {
        result.holder.clear();
        result.holder.insert("v", result.value);
    }
    return result;
}

/// A value with the place that an error about it names.
struct Found {
    const toml::node* node = nullptr;
    std::string where;
    const Override* from = nullptr;
};

class Loader final : public Walker<Loader> {
  public:
    Loader(const Collector& keys, std::string_view origin) : keys_(keys), origin_(origin) {}

    /// Notes every value of the file; refuses unknown keys.
    void take(const toml::table& table, const std::string& prefix = {}) {
        for (const auto& [key, node] : table) {
            const std::string path = join(prefix, key.str());
            std::string where = fmt::format("{}:{}", origin_, node.source().begin.line);
            if (keys_.is_section(path)) {
                if (!node.is_table()) refuse_section(where, path);
                take(*node.as_table(), path);
            } else if (!keys_.is_field(path)) {
                throw fatal(ExitCode::kUsage, "{}: {}", where, keys_.unknown(path));
            } else {
                found_[path] = {&node, std::move(where), nullptr};
            }
        }
    }

    void take(const Override& one) {
        const std::string where = "--set " + one.text;
        const auto equals = one.text.find('=');
        if (equals == std::string::npos || equals == 0)
            throw fatal(ExitCode::kUsage, "{}: expected key=value, such as optim.lr=0.001", where);
        const std::string path = one.text.substr(0, equals);
        if (keys_.is_section(path)) refuse_section(where, path);
        if (!keys_.is_field(path))
            throw fatal(ExitCode::kUsage, "{}: {}", where, keys_.unknown(path));
        found_[path] = {&one.node(), where, &one};
    }

    template <class T>
    void at(const std::string& path, T& value, const FieldInfo& info) {
        const auto it = found_.find(path);
        if (it == found_.end()) return;
        read(path, it->second, value, info);
    }
    void section_starts(const std::string&, std::string_view) {}

  private:
    [[noreturn]] static void refuse_section(const std::string& where, const std::string& path) {
        throw fatal(ExitCode::kUsage,
                    "{}: {} is a section of keys, not a key; `isthmus config "
                    "--explain {}` lists them",
                    where, path, path);
    }
    [[noreturn]] static void wrong_type(const std::string& path, const Found& found,
                                        std::string_view wanted) {
        throw fatal(ExitCode::kUsage, "{}: {} must be {}, not {}", found.where, path, wanted,
                    type_name(*found.node));
    }
    template <class T>
    static void check_range(const std::string& path, const Found& found, T value,
                            const FieldInfo& info) {
        const auto number = static_cast<double>(value);
        if (!std::isfinite(number))
            throw fatal(ExitCode::kUsage, "{}: {} = {} must be finite", found.where, path, value);
        if (number < info.min || number > info.max)
            throw fatal(ExitCode::kUsage, "{}: {} = {} is out of range: {}", found.where, path,
                        value, range_text(info));
    }
    static void check_string(const std::string& path, const Found& found, const std::string& value,
                             const FieldInfo& info) {
        if (!info.allow_empty && value.empty())
            throw fatal(ExitCode::kUsage, "{}: {} must not be empty", found.where, path);
        const auto& allowed = info.one_of;
        if (allowed.empty() || std::find(allowed.begin(), allowed.end(), value) != allowed.end())
            return;
        const std::string near = nearest_name(value, allowed);
        throw fatal(ExitCode::kUsage, "{}: {} = {} is not one of {}{}", found.where, path,
                    toml_string(value), list_of(allowed),
                    near.empty() ? "" : fmt::format("; did you mean {}?", near));
    }

    static void read(const std::string& path, const Found& found, bool& value, const FieldInfo&) {
        if (!found.node->is_boolean()) wrong_type(path, found, "true or false");
        value = found.node->as_boolean()->get();
    }
    static void read(const std::string& path, const Found& found, std::int64_t& value,
                     const FieldInfo& info) {
        if (!found.node->is_integer()) wrong_type(path, found, "an integer");
        const std::int64_t number = found.node->as_integer()->get();
        check_range(path, found, number, info);
        value = number;
    }
    static void read(const std::string& path, const Found& found, double& value,
                     const FieldInfo& info) {
        if (!found.node->is_number()) wrong_type(path, found, "a number");
        const double number = *found.node->value<double>();
        check_range(path, found, number, info);
        value = number;
    }
    static void read(const std::string& path, const Found& found, std::string& value,
                     const FieldInfo& info) {
        // On a command line `run.name=2024` means the text: quotes there would have to survive a
        // shell.
        if (!found.node->is_string() && !found.from) wrong_type(path, found, "a string");
        std::string text =
            found.node->is_string() ? found.node->as_string()->get() : found.from->value;
        check_string(path, found, text, info);
        value = std::move(text);
    }
    static void read(const std::string& path, const Found& found, std::vector<std::string>& value,
                     const FieldInfo& info) {
        const std::string_view wanted = "a list of strings, such as [\"a\", \"b\"]";
        const toml::array* array = found.node->as_array();
        if (!array) wrong_type(path, found, wanted);
        std::vector<std::string> items;
        for (const auto& item : *array) {
            if (!item.is_string()) wrong_type(path, {&item, found.where, nullptr}, wanted);
            items.push_back(item.as_string()->get());
            check_string(path, found, items.back(), info);
        }
        value = std::move(items);
    }

    const Collector& keys_;
    std::string origin_;
    std::map<std::string, Found> found_;
};

/// Prints a level's own keys before its sections: after a [header] TOML has no way back up.
class Dumper final : public Walker<Dumper> {
  public:
    explicit Dumper(bool with_help) : with_help_(with_help) { order_.push_back(""); }

    template <class T>
    void at(const std::string& path, T& value, const FieldInfo& info) {
        const auto dot = path.rfind('.');
        std::string& text = bodies_[dot == std::string::npos ? "" : path.substr(0, dot)];
        if (with_help_) text += fmt::format("# {}\n", help_text(info));
        text += fmt::format("{} = {}\n", leaf(path), as_toml(value));
    }
    void section_starts(const std::string& path, std::string_view help) {
        order_.push_back(path);
        helps_[path] = help;
    }
    std::string text() const {
        std::string all;
        for (const auto& path : order_) {
            const auto body = bodies_.find(path);
            if (body == bodies_.end()) continue;
            if (!path.empty()) {
                if (!all.empty()) all += '\n';
                if (with_help_) all += fmt::format("# {}\n", helps_.at(path));
                all += fmt::format("[{}]\n", path);
            }
            all += body->second;
        }
        return all;
    }

  private:
    bool with_help_;
    std::vector<std::string> order_;
    std::map<std::string, std::string> bodies_, helps_;
};

class Explainer final : public Walker<Explainer> {
  public:
    explicit Explainer(std::string key) : key_(std::move(key)) {}

    template <class T>
    void at(const std::string& path, T& value, const FieldInfo& info) {
        if (path != key_ && !path.starts_with(key_ + ".")) return;
        text += fmt::format("{} = {}\n    {}\n", path, as_toml(value), help_text(info));
    }
    void section_starts(const std::string& path, std::string_view help) {
        if (path == key_ || path.starts_with(key_ + "."))
            text += fmt::format("[{}]  {}\n", path, help);
    }
    std::string text;

  private:
    std::string key_;
};

/// Optimal string alignment: insert, delete, replace, swap two neighbours cost 1 each.
std::size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::vector<std::size_t>> cost(a.size() + 1,
                                               std::vector<std::size_t>(b.size() + 1));
    for (std::size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
    for (std::size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        for (std::size_t j = 1; j <= b.size(); ++j) {
            cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1,
                                   cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
        }
    }
    return cost[a.size()][b.size()];
}

}  // namespace

void load_config(const Describe& describe, std::string_view toml_text, std::string_view origin,
                 const std::vector<std::string>& overrides) {
    const Collector keys = collect(describe);
    const toml::table table = parse(toml_text, origin);
    std::vector<Override> parsed;
    for (const auto& text : overrides) parsed.push_back(parse_override(text));
    Loader loader(keys, origin);
    loader.take(table);
    for (const auto& one : parsed) loader.take(one);
    describe(loader);
}

std::string dump_config(const Describe& describe, bool with_help) {
    Dumper dumper(with_help);
    describe(dumper);
    return dumper.text();
}

std::string explain_config(const Describe& describe, std::string_view key) {
    const std::string path(key);
    const Collector keys = collect(describe);
    if (!keys.is_field(path) && !keys.is_section(path))
        throw fatal(ExitCode::kUsage, "{}", keys.unknown(path));
    Explainer explainer(path);
    describe(explainer);
    return explainer.text;
}

std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
    const std::size_t limit = std::clamp<std::size_t>(name.size() / 3, 1, 3);
    std::size_t best = limit + 1;
    std::string nearest;
    for (const auto& candidate : candidates) {
        const std::size_t distance = edit_distance(name, candidate);
        if (distance < best) {
            best = distance;
            nearest = candidate;
        }
    }
    return nearest;
}

}  // namespace isthmus
