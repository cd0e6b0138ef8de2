#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/core/options.h"

namespace sotto {

// A heading of the help text, and the options under it.
struct FlagGroup {
  std::string_view heading;
  std::vector<std::string_view> options;
};

// The flags of one command, made from options structs: `option("lr", ...)` in a visit() is the flag `--lr NUMBER`. A
// boolean is `--overlap` (or `--no-overlap` if it is on by default). parse() reads the command line. assign() then
// overwrites a struct with the given values. Between the two, a command can read a file of options into the struct.
class Flags {
 public:
  using Visit = std::function<void(OptionVisitor&)>;

  // The help text ends with `examples`.
  Flags(std::string_view command, std::string_view summary, std::string_view examples);
  ~Flags();

  // Declares another name of an option that is added later; a name of one letter takes one dash.
  void alias(std::string_view option, std::string_view other);
  // Adds the options of a struct, except those that were added before. The last group also gets the options that no
  // group names.
  template <class Options>
  void add(Options& options, std::span<const FlagGroup> groups = {}) {
    add_all([&](OptionVisitor& v) { options.visit(v); }, groups);
  }
  // Adds a flag with any number of values, given together or one at a time.
  void add_list(std::string_view name, std::vector<std::string>& values, std::string_view help);
  // Adds arguments without a flag, in this order.
  void add_positional(std::string_view name, std::string& value, std::string_view help, bool required);
  // Adds any number of arguments without a flag; at least one if `required`.
  void add_positionals(std::string_view name, std::vector<std::string>& values, std::string_view help,
                       bool required = true);

  // Returns false after printing help, if help was asked for. ConfigError for anything unknown or incomplete.
  bool parse(std::span<const std::string> arguments);
  bool given(std::string_view option) const;
  // ConfigError if one of these options is given with an empty string, as in --secret "$UNSET".
  void refuse_empty(std::initializer_list<std::string_view> options) const;
  // Overwrites `options` with the given values. ConfigError such as "--lr -1: must be in [0, inf)".
  template <class Options>
  void assign(Options& options) const {
    assign_all([&](OptionVisitor& v) { options.visit(v); });
  }
  // add(), parse() and assign(), for a command whose options are one struct, or visited by one function.
  template <class Options>
  bool read(std::span<const std::string> arguments, Options& options) {
    return read(arguments, Visit([&](OptionVisitor& v) { options.visit(v); }));
  }
  bool read(std::span<const std::string> arguments, const Visit& visit);

 private:
  void add_all(const Visit& visit, std::span<const FlagGroup> groups);
  void assign_all(const Visit& visit) const;

  class Impl;
  std::unique_ptr<Impl> impl_;
};

// A visitor that sets the option `name` to the value in `text`, as a flag does. ConfigError, which begins with `where`,
// if the option cannot have this value.
std::unique_ptr<OptionVisitor> setter(std::string_view name, const std::string& text, std::string_view where);

// ConfigError with this text, if something is wrong.
template <class... Values>
void refuse(bool wrong, fmt::format_string<const Values&...> why, const Values&... values) {
  if (wrong) throw ConfigError(fmt::format(why, values...));
}

// ConfigError unless the name of `file` ends in `ending`: "--out x.pdf: use a name that ends in .html".
void require_ending(std::string_view option, const std::string& file, std::string_view ending);

// The flags that give exactly these options: {"--lr=0.05", "--overlap=true", ...}.
std::vector<std::string> to_flags(AnyOptions options);

// How the command line spells an option and its value: --codec topk(2). A name of several words is a command; it stays
// as it is, and `value` is its argument.
std::string flag_spelling(std::string_view option, std::string_view value);

// "MIN" or "MIN:MAX" ranks.
struct RankRange {
  std::int64_t least = 1;
  std::optional<std::int64_t> most;
};
// Parses "MIN" or "MIN:MAX". ConfigError, which begins with `said`, if `text` is neither, or MIN is above MAX.
RankRange read_rank_range(const std::string& said, const std::string& text);

}  // namespace sotto
