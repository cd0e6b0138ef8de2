#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "sotto/core/expression.h"

namespace sotto {

// The interval that an option may lie in; printed as "(0, 1]".
struct Bounds {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_open = false;
  bool high_open = false;

  bool contains(double value) const;
  std::string text() const;
  static constexpr Bounds at_least(double low) { return {low, std::numeric_limits<double>::infinity(), false, true}; }
  static constexpr Bounds positive() { return {0, std::numeric_limits<double>::infinity(), true, true}; }
  static constexpr Bounds share() { return {0, 1, true, false}; }  // (0, 1]
};

// An option of a component: where its value lies, and its description.
struct Option {
  // An option without a fixed default is a std::optional. If the user gives `auto` or nothing, the component chooses
  // the value.
  using Value = std::variant<bool*, std::int64_t*, double*, std::string*, std::optional<std::int64_t>*,
                             std::optional<double>*, std::optional<std::string>*>;
  std::string_view name;
  Value value;
  std::string_view help;
  Bounds bounds{};                              // of a number
  std::span<const std::string_view> choices{};  // the allowed values of a text; empty: any

  bool has_value() const;  // false: the component chooses the value
  std::string text() const;
  std::string range() const;  // as a text that follows the help: ", in (0, 1]", ", one of a, b", or empty
  // Replaces the value. ConfigError("WHERE must be ...").
  void read(std::string_view where, std::string_view text) const;
};

// Every component keeps its options in one struct, with defaults in place and a member
//   void visit(OptionVisitor& v) { v.option("ratio", ratio, "share of the elements that are sent", Bounds::share()); }
// Visitors parse expressions, read flags, print help, check ranges, and write the record in the run folder.
class OptionVisitor {
 public:
  virtual ~OptionVisitor() = default;
  template <class T>
  requires(!std::is_same_v<T, std::string>) void option(std::string_view name, T& value, std::string_view help,
                                                        Bounds bounds = {}) {
    visit({name, &value, help, bounds});
  }
  void option(std::string_view name, std::string& value, std::string_view help,
              std::initializer_list<std::string_view> choices = {}) {
    visit({name, &value, help, {}, choices});
  }

 protected:
  virtual void visit(const Option& option) = 0;
};

struct NoOptions {
  void visit(OptionVisitor& /*visitor*/) {}
};

// Holds a struct of options by value. Only its component knows the type of the struct. For rules beyond the range of a
// single option, the struct may have a member `std::string problem() const`: what is wrong, or empty.
class AnyOptions {
 public:
  AnyOptions() : AnyOptions(NoOptions{}) {}
  template <class Options>
  requires(!std::is_same_v<Options, AnyOptions> && requires(Options options, OptionVisitor& v) { options.visit(v); })
      AnyOptions(Options options)
      : held_(std::make_unique<Holder<Options>>(std::move(options))) {}
  AnyOptions(const AnyOptions& other) : held_(other.held_->copy()) {}
  AnyOptions(AnyOptions&&) noexcept = default;
  AnyOptions& operator=(AnyOptions other) noexcept {
    held_ = std::move(other.held_);
    return *this;
  }
  ~AnyOptions() = default;

  void visit(OptionVisitor& visitor) { held_->visit(visitor); }
  std::string problem() const { return held_->problem(); }
  // REQUIRES the type of the struct that is held.
  template <class Options>
  const Options& as() const {
    return dynamic_cast<const Holder<Options>&>(*held_).options;
  }

 private:
  struct Held {
    virtual ~Held() = default;
    virtual std::unique_ptr<Held> copy() const = 0;
    virtual void visit(OptionVisitor& visitor) = 0;
    virtual std::string problem() const = 0;
  };
  template <class Options>
  struct Holder final : Held {
    explicit Holder(Options o) : options(std::move(o)) {}
    std::unique_ptr<Held> copy() const override { return std::make_unique<Holder>(options); }
    void visit(OptionVisitor& visitor) override { options.visit(visitor); }
    std::string problem() const override {
      if constexpr (requires { options.problem(); }) {
        return options.problem();
      } else {
        return "";
      }
    }
    Options options;
  };
  std::unique_ptr<Held> held_;
};

// Reads the arguments of a call. Options that the call does not give keep their value in `options`. Positional
// arguments come first, in the order of visit(), then arguments with a name. `5%` is 0.05, booleans are
// true/false/on/off/yes/no. Unknown, repeated or surplus arguments, wrong types, values out of bounds and a problem()
// are ConfigErrors with a caret: "codec topk(1.5): ratio must be in (0, 1]".
AnyOptions read_options(const Expression& expression, const Call& call, AnyOptions options);
template <class Options>
void read_options(const Expression& expression, const Call& call, Options& options) {
  options = read_options(expression, call, AnyOptions(options)).template as<Options>();
}

// The canonical text, with every option named: "topk(ratio=0.01, scope=segment)", or just "sign" without options.
// Reading it back gives the same options: doubles are printed with the fewest digits that read back exactly. The option
// `except` is left out.
std::string record_options(std::string_view name, AnyOptions options, std::string_view except = "");

// One line for each option: "  ratio=0.01   share of the elements that are sent, in (0, 1]".
std::string help_options(AnyOptions options);

// The names of the options, in the order of visit().
std::vector<std::string> names_of_options(AnyOptions options);

// The names of the options whose values differ. REQUIRES two structs of the same type.
std::vector<std::string> changed_options(AnyOptions options, AnyOptions others);

// The value of a numeric option by its name; nothing if there is no such option, or if its value is left to the
// component. set_number() replaces such a value and returns true, or returns false if there is none. It checks no
// bounds.
std::optional<double> number_of(AnyOptions options, std::string_view name);
bool set_number(AnyOptions& options, std::string_view name, double value);

// Parsers of single values, also for flags and files. They throw ConfigError("NAME must be ...") without a place.
bool parse_bool(std::string_view name, std::string_view text);
std::int64_t parse_int(std::string_view name, std::string_view text, Bounds bounds = {});
double parse_double(std::string_view name, std::string_view text, Bounds bounds = {});
std::string format_double(double value);  // shortest text that reads back as the same value
// The value as text; "auto" if there is none.
std::string format_optional(const std::optional<std::int64_t>& value);
std::string format_optional(const std::optional<double>& value);
std::string format_optional(const std::optional<std::string>& value);

}  // namespace sotto
