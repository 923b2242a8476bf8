// The configuration tree: each key is declared once, and parser, --help, checks and dumps derive
// from it.
//
// A section is a plain struct with member defaults and one function that names its fields:
//
//   struct OptimConfig {
//       double lr = 2e-3;
//       void describe(ConfigVisitor& v) {
//           v.field("lr", lr, {.help = "peak learning rate", .min = 0, .max = 10});
//       }
//   };
//
// The visitor decides what happens at each field: fill it from a TOML table, print it, explain it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace isthmus {

struct FieldInfo {
    std::string help;       ///< one line; says what 0 or "" means where that is special
    std::string unit = {};  ///< "tokens", "steps", "s", "bytes", ... or empty
    double min = -std::numeric_limits<double>::infinity();  ///< numbers only, inclusive
    double max = std::numeric_limits<double>::infinity();
    std::vector<std::string> one_of = {};  ///< strings only: the allowed values
    bool allow_empty = true;               ///< strings only
};

class ConfigVisitor {
  public:
    virtual ~ConfigVisitor() = default;
    virtual void field(std::string_view name, bool& value, const FieldInfo&) = 0;
    virtual void field(std::string_view name, std::int64_t& value, const FieldInfo&) = 0;
    virtual void field(std::string_view name, double& value, const FieldInfo&) = 0;
    virtual void field(std::string_view name, std::string& value, const FieldInfo&) = 0;
    virtual void field(std::string_view name, std::vector<std::string>& value,
                       const FieldInfo&) = 0;

    /// A nested table: v.section("optim", optim, "AdamW and its schedule");
    template <class Section>
    void section(std::string_view name, Section& section, std::string_view help) {
        enter(name, help);
        section.describe(*this);
        leave();
    }

  protected:
    virtual void enter(std::string_view name, std::string_view help) = 0;
    virtual void leave() = 0;
};

/// A root section, type-erased: what the functions below walk.
using Describe = std::function<void(ConfigVisitor&)>;

/// Fills the tree from TOML text and `key=value` overrides (dotted keys, TOML values; a bare word
/// is a string). ERRORS throws Fatal(kUsage): unknown key with the nearest known one, wrong type,
/// out of range, not one of; each names `origin`, and the line where TOML gives one.
void load_config(const Describe&, std::string_view toml_text, std::string_view origin,
                 const std::vector<std::string>& overrides = {});

/// The whole tree as commented TOML that load_config reads back to equal values.
std::string dump_config(const Describe&, bool with_help);

/// Help of one key or section ("optim.lr", "optim"). ERRORS throws Fatal(kUsage) naming the nearest
/// key.
std::string explain_config(const Describe&, std::string_view key);

/// The candidate with the smallest edit distance, or "" if none is near.
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace isthmus
