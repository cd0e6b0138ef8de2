#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/core/options.h"

namespace sotto {

// A heading of the help text, and the options that stand under it.
struct FlagGroup {
  std::string_view heading;
  std::vector<std::string_view> options;
};

// The flags of one command, made from options structs: `option("lr", ...)` of a visit() is `--lr NUMBER`, a boolean is
// `--overlap` (and `--no-overlap` where it is on without). parse() reads the command line, assign() then puts what was
// given over what a struct holds, so that a file of options can be read in between.
class Flags {
 public:
  // `examples` ends the help text.
  Flags(std::string_view command, std::string_view summary, std::string_view examples);
  ~Flags();

  // Another name of an option that is added later.
  void alias(std::string_view option, std::string_view other);
  // Options that no group names stand under the last one; those that there already are are left out.
  template <class Options>
  void add(Options& options, std::span<const FlagGroup> groups = {}) {
    add_all([&](OptionVisitor& v) { options.visit(v); }, groups);
  }
  // A flag with any number of values, given together or one at a time.
  void add_list(std::string_view name, std::vector<std::string>& values, std::string_view help);
  // Arguments without a flag, in this order.
  void add_positional(std::string_view name, std::string& value, std::string_view help, bool required);

  // False when help was asked for, and has been printed. ConfigError for anything that is not known or not complete.
  bool parse(std::span<const std::string> arguments);
  bool given(std::string_view option) const;
  // ConfigError: "--lr -1: must be in [0, inf)".
  template <class Options>
  void assign(Options& options) const {
    assign_all([&](OptionVisitor& v) { options.visit(v); });
  }

 private:
  using Visit = std::function<void(OptionVisitor&)>;
  void add_all(const Visit& visit, std::span<const FlagGroup> groups);
  void assign_all(const Visit& visit) const;

  class Impl;
  std::unique_ptr<Impl> impl_;
};

// The flags that give exactly these options: {"--lr=0.05", "--overlap=true", ...}.
std::vector<std::string> to_flags(AnyOptions options);

// How the command line writes an option: --codec topk(2). A name of several words is that of a command whose argument
// the text is, and stays as it is.
std::string flag_spelling(std::string_view option, std::string_view value);

}  // namespace sotto
