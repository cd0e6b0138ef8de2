#include "sotto/core/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <type_traits>
#include <vector>

#include "sotto/core/error.h"

namespace sotto {
namespace {

constexpr std::array<std::string_view, 3> true_words{"true", "on", "yes"};
constexpr std::array<std::string_view, 3> false_words{"false", "off", "no"};
constexpr std::string_view unsaid = "auto";  // the text of an optional option without a value

// Nothing when the text is not a number; ConfigError when the number does not fit T.
template <class T>
std::optional<T> parse_whole(std::string_view name, std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size() || error == std::errc::invalid_argument) return std::nullopt;
  if (error == std::errc::result_out_of_range) {
    throw ConfigError(
        fmt::format("{} is too large{}: `{}`", name, std::is_integral_v<T> ? "" : ", or too near 0", text));
  }
  return value;
}

void require(std::string_view name, double value, Bounds bounds) {
  if (!bounds.contains(value)) throw ConfigError(fmt::format("{} must be in {}", name, bounds.text()));
}

std::string range_of(Bounds bounds) {
  return std::isfinite(bounds.low) || std::isfinite(bounds.high) ? ", in " + bounds.text() : "";
}

std::string_view bool_text(bool value) { return value ? "true" : "false"; }

// Hands each option its argument: the i-th positional one, or the one with its name.
class Reader final : public OptionVisitor {
 public:
  Reader(const Sentence& sentence, const Call& call)
      : sentence_(sentence), call_(call), used_(call.arguments.size(), false) {
    const auto& arguments = call.arguments;
    const auto has_key = [](const Argument& a) { return !a.key.empty(); };
    const auto keyed = std::find_if(arguments.begin(), arguments.end(), has_key);
    positional_ = static_cast<std::size_t>(keyed - arguments.begin());
    const auto late = std::find_if_not(keyed, arguments.end(), has_key);
    if (late != arguments.end()) fail(late->position, "an argument without a name cannot follow one with a name");
  }

  void option(std::string_view name, bool& value, std::string_view) override {
    take(name, [&](const std::string& text) { value = parse_bool(name, text); });
  }
  void option(std::string_view name, std::int64_t& value, std::string_view, Bounds bounds) override {
    take(name, [&](const std::string& text) { value = parse_int(name, text, bounds); });
  }
  void option(std::string_view name, double& value, std::string_view, Bounds bounds) override {
    take(name, [&](const std::string& text) { value = parse_double(name, text, bounds); });
  }
  void option(std::string_view name, std::optional<std::int64_t>& value, std::string_view, Bounds bounds) override {
    take(name, [&](const std::string& text) { value = parse_optional_int(name, text, bounds); });
  }
  void option(std::string_view name, std::optional<double>& value, std::string_view, Bounds bounds) override {
    take(name, [&](const std::string& text) { value = parse_optional_double(name, text, bounds); });
  }
  void option(std::string_view name, std::optional<std::string>& value, std::string_view) override {
    take(name, [&](const std::string& text) { value = parse_optional_text(text); });
  }
  void option(std::string_view name, std::string& value, std::string_view help,
              std::initializer_list<std::string_view> choices) override {
    text_help_ = help;
    take(name, [&](const std::string& text) {
      if (choices.size() != 0 && std::find(choices.begin(), choices.end(), text) == choices.end()) {
        throw ConfigError(fmt::format("{} must be one of {}, not `{}`", name, fmt::join(choices, ", "), text));
      }
      value = text;
    });
  }

  void finish() const {
    for (std::size_t i = 0; i < used_.size(); ++i) {
      if (used_[i]) continue;
      const Argument& argument = call_.arguments[i];
      if (names_.empty()) fail(argument.position, fmt::format("`{}` takes no arguments", call_.name));
      if (argument.key.empty()) {
        // A single text may be a list, whose help says how it is written.
        const std::string hint = names_.size() == 1 && !text_help_.empty() ? fmt::format(", {}", text_help_) : "";
        fail(argument.position,
             fmt::format("too many arguments; `{}` takes {}{}", call_.name, fmt::join(names_, ", "), hint));
      }
      fail(argument.position, unknown_name("option", argument.key, names_));
    }
  }

 private:
  template <class Parse>
  void take(std::string_view name, const Parse& parse) {
    const std::size_t index = names_.size();
    names_.push_back(name);
    bool given = false;
    for (std::size_t i = 0; i < used_.size(); ++i) {
      const Argument& argument = call_.arguments[i];
      if (i < positional_ ? i != index : argument.key != name) continue;
      if (given) fail(argument.position, fmt::format("{} is given twice", name));
      given = used_[i] = true;
      try {
        parse(argument.value);
      } catch (const ConfigError& error) {
        fail(argument.value_position, error.what());
      }
    }
  }
  [[noreturn]] void fail(std::size_t position, const std::string& message) const {
    fail_at(sentence_, call_, position, message);
  }

  const Sentence& sentence_;
  const Call& call_;
  std::vector<bool> used_;
  std::vector<std::string_view> names_;
  std::string_view text_help_;  // of the last option that is a text
  std::size_t positional_ = 0;
};

// Lists "name=value" of every option, with its help and range.
class Lister final : public OptionVisitor {
 public:
  using OptionVisitor::option;
  struct Line {
    std::string setting;
    std::string help;
  };
  enum class Unsaid { shown, left_out };  // optional options without a value
  explicit Lister(Unsaid those) : unsaid_(those) {}

  void option(std::string_view name, bool& value, std::string_view help) override {
    add(name, bool_text(value), help, "");
  }
  void option(std::string_view name, std::int64_t& value, std::string_view help, Bounds bounds) override {
    add(name, fmt::to_string(value), help, range_of(bounds));
  }
  void option(std::string_view name, double& value, std::string_view help, Bounds bounds) override {
    add(name, format_double(value), help, range_of(bounds));
  }
  void option(std::string_view name, std::string& value, std::string_view help,
              std::initializer_list<std::string_view> choices) override {
    add(name, value, help, choices.size() == 0 ? "" : fmt::format(", one of {}", fmt::join(choices, ", ")));
  }

  const std::vector<Line>& lines() const { return lines_; }
  void option(std::string_view name, std::optional<std::int64_t>& value, std::string_view help,
              Bounds bounds) override {
    add_optional(name, value, help, bounds);
  }
  void option(std::string_view name, std::optional<double>& value, std::string_view help, Bounds bounds) override {
    add_optional(name, value, help, bounds);
  }
  void option(std::string_view name, std::optional<std::string>& value, std::string_view help) override {
    add_optional(name, value, help);
  }

 private:
  void add(std::string_view name, std::string_view value, std::string_view help, const std::string& range) {
    lines_.push_back({fmt::format("{}={}", name, value), fmt::format("{}{}", help, range)});
  }

  template <class T, class... Rest>
  void add_optional(std::string_view name, std::optional<T>& value, Rest... rest) {
    if (value || unsaid_ == Unsaid::shown) OptionVisitor::option(name, value, rest...);
  }

  Unsaid unsaid_;
  std::vector<Line> lines_;
};

// Finds a numeric option by its name, and replaces it if a new value is given.
class NumberAccess final : public OptionVisitor {
 public:
  using OptionVisitor::option;
  NumberAccess(std::string_view name, std::optional<double> value) : name_(name), value_(value) {}

  void option(std::string_view /*name*/, bool& /*value*/, std::string_view /*help*/) override {}
  void option(std::string_view name, std::int64_t& value, std::string_view /*help*/, Bounds /*bounds*/) override {
    access(name, value);
  }
  void option(std::string_view name, double& value, std::string_view /*help*/, Bounds /*bounds*/) override {
    access(name, value);
  }
  void option(std::string_view name, std::optional<std::int64_t>& value, std::string_view /*help*/,
              Bounds /*bounds*/) override {
    if (value) access(name, *value);
  }
  void option(std::string_view name, std::optional<double>& value, std::string_view /*help*/,
              Bounds /*bounds*/) override {
    if (value) access(name, *value);
  }
  void option(std::string_view /*name*/, std::string& /*value*/, std::string_view /*help*/,
              std::initializer_list<std::string_view> /*choices*/) override {}

  std::optional<double> found;

 private:
  template <class T>
  void access(std::string_view name, T& value) {
    if (name != name_) return;
    if (value_) value = static_cast<T>(*value_);
    found = static_cast<double>(value);
  }

  std::string_view name_;
  std::optional<double> value_;
};

}  // namespace

bool Bounds::contains(double value) const {
  return (low_open ? value > low : value >= low) && (high_open ? value < high : value <= high);
}

std::string Bounds::text() const {
  return fmt::format("{}{}, {}{}", low_open ? '(' : '[', format_double(low), format_double(high),
                     high_open ? ')' : ']');
}

bool parse_bool(std::string_view name, std::string_view text) {
  if (std::find(true_words.begin(), true_words.end(), text) != true_words.end()) return true;
  if (std::find(false_words.begin(), false_words.end(), text) != false_words.end()) return false;
  throw ConfigError(fmt::format("{} must be true or false, not `{}`", name, text));
}

std::int64_t parse_int(std::string_view name, std::string_view text, Bounds bounds) {
  const auto value = parse_whole<std::int64_t>(name, text);
  if (!value) throw ConfigError(fmt::format("{} must be a whole number, not `{}`", name, text));
  require(name, static_cast<double>(*value), bounds);
  return *value;
}

double parse_double(std::string_view name, std::string_view text, Bounds bounds) {
  // Reads 5% as 5e-2, which is the same double as 0.05; dividing 5 by 100 might not be.
  const bool percent = text.ends_with('%');
  const auto value =
      parse_whole<double>(name, percent ? fmt::format("{}e-2", text.substr(0, text.size() - 1)) : std::string(text));
  if (!value || !std::isfinite(*value)) throw ConfigError(fmt::format("{} must be a number, not `{}`", name, text));
  require(name, *value, bounds);
  return *value;
}

std::optional<std::int64_t> parse_optional_int(std::string_view name, std::string_view text, Bounds bounds) {
  return text == unsaid ? std::nullopt : std::optional(parse_int(name, text, bounds));
}

std::optional<double> parse_optional_double(std::string_view name, std::string_view text, Bounds bounds) {
  return text == unsaid ? std::nullopt : std::optional(parse_double(name, text, bounds));
}

std::optional<std::string> parse_optional_text(std::string_view text) {
  return text.empty() || text == unsaid ? std::nullopt : std::optional<std::string>(text);
}

std::string format_optional(const std::optional<std::int64_t>& value) {
  return value ? fmt::to_string(*value) : std::string(unsaid);
}

std::string format_optional(const std::optional<double>& value) {
  return value ? format_double(*value) : std::string(unsaid);
}

std::string format_optional(const std::optional<std::string>& value) { return value.value_or(std::string(unsaid)); }

// The defaults of optional options suit visitors that show values; visitors that read values override them.
void OptionVisitor::option(std::string_view name, std::optional<std::int64_t>& value, std::string_view help,
                           Bounds bounds) {
  std::string text = format_optional(value);
  option(name, text, fmt::format("{}{}", help, range_of(bounds)), {});
}

void OptionVisitor::option(std::string_view name, std::optional<double>& value, std::string_view help, Bounds bounds) {
  std::string text = format_optional(value);
  option(name, text, fmt::format("{}{}", help, range_of(bounds)), {});
}

void OptionVisitor::option(std::string_view name, std::optional<std::string>& value, std::string_view help) {
  std::string text = format_optional(value);
  option(name, text, help, {});
}

std::string format_double(double value) {
  std::array<char, 32> buffer;
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return {buffer.data(), result.ptr};
}

AnyOptions read_options(const Sentence& sentence, const Call& call, AnyOptions options) {
  Reader reader(sentence, call);
  options.visit(reader);
  reader.finish();
  if (const std::string problem = options.problem(); !problem.empty()) fail_at(sentence, call, call.position, problem);
  return options;
}

std::string record_options(std::string_view name, AnyOptions options, std::string_view except) {
  Lister lister(Lister::Unsaid::left_out);
  options.visit(lister);
  std::vector<std::string_view> settings;
  for (const auto& line : lister.lines()) {
    if (line.setting.substr(0, line.setting.find('=')) != except) settings.push_back(line.setting);
  }
  return settings.empty() ? std::string(name) : fmt::format("{}({})", name, fmt::join(settings, ", "));
}

std::string help_options(AnyOptions options) {
  Lister lister(Lister::Unsaid::shown);
  options.visit(lister);
  std::size_t width = 0;
  for (const auto& line : lister.lines()) width = std::max(width, line.setting.size());
  std::string text;
  for (const auto& line : lister.lines()) text += fmt::format("  {:<{}}   {}\n", line.setting, width, line.help);
  return text;
}

std::vector<std::string> names_of_options(AnyOptions options) {
  Lister lister(Lister::Unsaid::shown);
  options.visit(lister);
  std::vector<std::string> names;
  for (const auto& line : lister.lines()) names.push_back(line.setting.substr(0, line.setting.find('=')));
  return names;
}

std::optional<double> number_of(AnyOptions options, std::string_view name) {
  NumberAccess access(name, std::nullopt);
  options.visit(access);
  return access.found;
}

bool set_number(AnyOptions& options, std::string_view name, double value) {
  NumberAccess access(name, value);
  options.visit(access);
  return access.found.has_value();
}

}  // namespace sotto
