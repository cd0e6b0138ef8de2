#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>
#include <string_view>

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
  virtual void option(std::string_view name, bool& value, std::string_view help) = 0;
  virtual void option(std::string_view name, std::int64_t& value, std::string_view help, Bounds bounds = {}) = 0;
  virtual void option(std::string_view name, double& value, std::string_view help, Bounds bounds = {}) = 0;
  // `choices` empty: any text.
  virtual void option(std::string_view name, std::string& value, std::string_view help,
                      std::initializer_list<std::string_view> choices = {}) = 0;
};

class Visitable {  // a struct of options, seen from outside
 public:
  virtual ~Visitable() = default;
  virtual void visit(OptionVisitor& visitor) = 0;
};

namespace detail {
template <class Options>
class VisitableRef final : public Visitable {
 public:
  explicit VisitableRef(Options& options) : options_(options) {}
  void visit(OptionVisitor& visitor) override { options_.visit(visitor); }

 private:
  Options& options_;
};
void read_options(const Sentence& sentence, const Call& call, Visitable& options);
std::string record_options(std::string_view name, Visitable& options);
std::string help_options(Visitable& options);
}  // namespace detail

// Fills `options` from the arguments of a call: positional ones in the order of visit(), then by key; `5%` is 0.05,
// booleans are true/false/on/off/yes/no. Unknown, repeated or surplus arguments, wrong types and values out of bounds
// are ConfigErrors with a caret: "--codec topk(1.5): ratio must be in (0, 1]".
template <class Options>
void read_options(const Sentence& sentence, const Call& call, Options& options) {
  detail::VisitableRef<Options> ref(options);
  detail::read_options(sentence, call, ref);
}

// The canonical text, every option named: "topk(ratio=0.01, scope=segment)"; "sign" alone when there are no options.
// Reading it back gives the same options. Doubles are printed with as few digits as bring them back exactly.
template <class Options>
std::string record_options(std::string_view name, Options options) {
  detail::VisitableRef<Options> ref(options);
  return detail::record_options(name, ref);
}

// One line an option: "  ratio=0.01   share of the elements that are sent, in (0, 1]".
template <class Options>
std::string help_options(Options options) {
  detail::VisitableRef<Options> ref(options);
  return detail::help_options(ref);
}

// Parsing of single values, shared with flags and files. They throw ConfigError("NAME must be ...") without a place.
bool parse_bool(std::string_view name, std::string_view text);
std::int64_t parse_int(std::string_view name, std::string_view text, Bounds bounds = {});
double parse_double(std::string_view name, std::string_view text, Bounds bounds = {});
std::string format_double(double value);  // shortest text that reads back as the same value

}  // namespace sotto
