// Printing and explaining the one struct tree, and the names nearest to a misspelt one.
#include "base/config.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/config_walk.hpp"
#include "base/error.hpp"

namespace isthmus {

namespace config_walk {

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

std::string range_text(const FieldInfo& info) {
    const bool low = std::isfinite(info.min), high = std::isfinite(info.max);
    if (low && high) return fmt::format("{} to {}", info.min, info.max);
    if (low) return fmt::format("at least {}", info.min);
    return high ? fmt::format("at most {}", info.max) : "";
}

std::string Collector::unknown(const std::string& path) const {
    std::vector<std::string> all = fields;
    all.insert(all.end(), sections.begin(), sections.end());
    std::string near = nearest_name(path, all);
    // The right name in the wrong section: "lr" for "optim.lr".
    for (std::size_t i = 0; near.empty() && i < all.size(); ++i)
        if (leaf(all[i]) == leaf(path)) near = all[i];
    return near.empty() ? fmt::format("{} is not a key", path)
                        : fmt::format("{} is not a key; did you mean {}?", path, near);
}

Collector collect(const Describe& describe) {
    Collector collector;
    describe(collector);
    return collector;
}

}  // namespace config_walk

using namespace config_walk;

namespace {

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
