// Filling the tree: TOML text first, then `--set key=value` in their order, then one walk.
#include <fmt/core.h>
#include <toml++/toml.h>

#include <cmath>
#include <map>

#include "base/config_walk.hpp"
#include "base/error.hpp"

namespace isthmus {

using namespace config_walk;

namespace {

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

}  // namespace isthmus
