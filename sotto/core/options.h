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
#include <vector>

#include "sotto/core/sentence.h"

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

// Every component keeps its options in one struct, with defaults in place and a member
//   void visit(OptionVisitor& v) { v.option("ratio", ratio, "share of the elements that are sent", Bounds::share()); }
// One visit each gives parsing from a sentence, flags, help text, range checks and the record in the run folder.
class OptionVisitor {
 public:
  virtual ~OptionVisitor() = default;
  // Whether this visit writes the canonical text of the values. An option that came after others stands there only
  // where it is not the default, so that the texts of older choices, which messages carry a hash of, stay as they are.
  virtual bool records() const { return false; }
  virtual void option(std::string_view name, bool& value, std::string_view help) = 0;
  virtual void option(std::string_view name, std::int64_t& value, std::string_view help, Bounds bounds = {}) = 0;
  virtual void option(std::string_view name, double& value, std::string_view help, Bounds bounds = {}) = 0;
  // Optional ones: `auto` is to leave it to the component, which is what nothing said means.
  virtual void option(std::string_view name, std::optional<std::int64_t>& value, std::string_view help,
                      Bounds bounds = {});
  virtual void option(std::string_view name, std::optional<double>& value, std::string_view help, Bounds bounds = {});
  // `choices` empty: any text.
  virtual void option(std::string_view name, std::string& value, std::string_view help,
                      std::initializer_list<std::string_view> choices = {}) = 0;
};

struct NoOptions {
  void visit(OptionVisitor& /*visitor*/) {}
};

// A struct of options, by value, whose type only its component knows. What no range of a single option can say, a
// member `std::string problem() const` says, in words; empty: nothing is wrong.
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
  // REQUIRES the type that it was made of.
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

// The options of a call, over the values that `options` have: positional arguments in the order of visit(), then by
// name; `5%` is 0.05, booleans are true/false/on/off/yes/no. Unknown, repeated or surplus arguments, wrong types,
// values out of bounds and a problem() are ConfigErrors with a caret: "codec topk(1.5): ratio must be in (0, 1]".
AnyOptions read_options(const Sentence& sentence, const Call& call, AnyOptions options);
template <class Options>
void read_options(const Sentence& sentence, const Call& call, Options& options) {
  options = read_options(sentence, call, AnyOptions(options)).template as<Options>();
}

// The canonical text, every option named: "topk(ratio=0.01, scope=segment)"; "sign" alone when there are no options.
// Reading it back gives the same options. Doubles are printed with as few digits as bring them back exactly.
std::string record_options(std::string_view name, AnyOptions options);

// One line an option: "  ratio=0.01   share of the elements that are sent, in (0, 1]".
std::string help_options(AnyOptions options);

// The names of the options, in the order of visit().
std::vector<std::string> names_of_options(AnyOptions options);

// An option that is a number, whole or not, by its name; nothing where there is none. set_number() says whether there
// is one, and checks nothing.
std::optional<double> number_of(AnyOptions options, std::string_view name);
bool set_number(AnyOptions& options, std::string_view name, double value);

// Parsing of single values, shared with flags and files. They throw ConfigError("NAME must be ...") without a place.
bool parse_bool(std::string_view name, std::string_view text);
std::int64_t parse_int(std::string_view name, std::string_view text, Bounds bounds = {});
double parse_double(std::string_view name, std::string_view text, Bounds bounds = {});
std::string format_double(double value);  // shortest text that reads back as the same value
// The same of optional options: "auto" of nothing.
std::optional<std::int64_t> parse_optional_int(std::string_view name, std::string_view text, Bounds bounds = {});
std::optional<double> parse_optional_double(std::string_view name, std::string_view text, Bounds bounds = {});
std::string format_optional(const std::optional<std::int64_t>& value);
std::string format_optional(const std::optional<double>& value);

}  // namespace sotto
