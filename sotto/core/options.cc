#include "sotto/core/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "sotto/core/error.h"

namespace sotto {
namespace {

constexpr std::array<std::string_view, 3> true_words{"true", "on", "yes"};
constexpr std::array<std::string_view, 3> false_words{"false", "off", "no"};
constexpr std::string_view unsaid = "auto";  // the text of a std::optional without a value

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

// Hands each option its argument: the i-th positional one, or the one with its name.
class Reader final : public OptionVisitor {
 public:
  Reader(const Expression& expression, const Call& call)
      : expression_(expression), call_(call), used_(call.arguments.size(), false) {
    const auto& arguments = call.arguments;
    const auto has_key = [](const Argument& a) { return !a.key.empty(); };
    const auto keyed = std::find_if(arguments.begin(), arguments.end(), has_key);
    positional_ = static_cast<std::size_t>(keyed - arguments.begin());
    const auto late = std::find_if_not(keyed, arguments.end(), has_key);
    if (late != arguments.end()) fail(late->position, "an argument without a name cannot follow one with a name");
  }

  void visit(const Option& option) override {
    if (std::holds_alternative<std::string*>(option.value)) text_help_ = option.help;
    take(option.name, [&](const std::string& text) { option.read(option.name, text); });
  }

  void finish() const {
    for (std::size_t i = 0; i < used_.size(); ++i) {
      if (used_[i]) continue;
      const Argument& argument = call_.arguments[i];
      if (names_.empty()) fail(argument.position, fmt::format("`{}` takes no arguments", call_.name));
      if (argument.key.empty()) {
        // If the only option is a text, it may be a list: its help says how a list is written.
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
    fail_at(expression_, call_, position, message);
  }

  const Expression& expression_;
  const Call& call_;
  std::vector<bool> used_;
  std::vector<std::string_view> names_;
  std::string_view text_help_;  // of the last option that is a text
  std::size_t positional_ = 0;
};

// Lists "name=value" of every option, with its help and range.
class Lister final : public OptionVisitor {
 public:
  struct Line {
    std::string_view name;
    std::string setting;
    std::string help;
    bool has_value = false;
  };
  void visit(const Option& option) override {
    lines.push_back({option.name, fmt::format("{}={}", option.name, option.text()),
                     fmt::format("{}{}", option.help, option.range()), option.has_value()});
  }
  std::vector<Line> lines;
};

// Finds a numeric option by its name, and replaces it if a new value is given.
class NumberAccess final : public OptionVisitor {
 public:
  NumberAccess(std::string_view name, std::optional<double> value) : name_(name), value_(value) {}

  void visit(const Option& option) override {
    if (option.name == name_ && option.has_value()) std::visit([this](auto* value) { access(value); }, option.value);
  }

  std::optional<double> found;

 private:
  template <class T>
  void access(T* value) {
    if (value_) *value = static_cast<T>(*value_);
    found = static_cast<double>(*value);
  }
  template <class T>
  void access(std::optional<T>* value) {
    access(&**value);
  }
  void access(bool* /*value*/) {}
  void access(std::string* /*value*/) {}

  std::string_view name_;
  std::optional<double> value_;
};

std::string text_of(bool value) { return value ? "true" : "false"; }
std::string text_of(std::int64_t value) { return fmt::to_string(value); }
std::string text_of(double value) { return format_double(value); }
std::string text_of(const std::string& value) { return value; }
template <class T>
std::string text_of(const std::optional<T>& value) {
  return value ? text_of(*value) : std::string(unsaid);
}

void parse_into(bool& value, std::string_view where, std::string_view text, Bounds /*bounds*/) {
  value = parse_bool(where, text);
}
void parse_into(std::int64_t& value, std::string_view where, std::string_view text, Bounds bounds) {
  value = parse_int(where, text, bounds);
}
void parse_into(double& value, std::string_view where, std::string_view text, Bounds bounds) {
  value = parse_double(where, text, bounds);
}
void parse_into(std::string& value, std::string_view /*where*/, std::string_view text, Bounds /*bounds*/) {
  value = text;
}
template <class T>
void parse_into(std::optional<T>& value, std::string_view where, std::string_view text, Bounds bounds) {
  if (text == unsaid || (std::is_same_v<T, std::string> && text.empty())) return value.reset();
  T read{};
  parse_into(read, where, text, bounds);
  value = std::move(read);
}

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

bool Option::has_value() const {
  return std::visit(
      [](const auto* held) {
        if constexpr (requires { held->has_value(); }) {
          return held->has_value();
        } else {
          return true;
        }
      },
      value);
}

std::string Option::text() const {
  return std::visit([](const auto* held) { return text_of(*held); }, value);
}

std::string Option::range() const {
  return choices.empty() ? range_of(bounds) : fmt::format(", one of {}", fmt::join(choices, ", "));
}

void Option::read(std::string_view where, std::string_view text) const {
  if (!choices.empty() && std::ranges::find(choices, text) == choices.end()) {
    throw ConfigError(fmt::format("{} must be one of {}, not `{}`", where, fmt::join(choices, ", "), text));
  }
  std::visit([&](auto* held) { parse_into(*held, where, text, bounds); }, value);
}

std::string format_optional(const std::optional<std::int64_t>& value) { return text_of(value); }
std::string format_optional(const std::optional<double>& value) { return text_of(value); }
std::string format_optional(const std::optional<std::string>& value) { return text_of(value); }

std::string format_double(double value) {
  std::array<char, 32> buffer;
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return {buffer.data(), result.ptr};
}

AnyOptions read_options(const Expression& expression, const Call& call, AnyOptions options) {
  Reader reader(expression, call);
  options.visit(reader);
  reader.finish();
  if (const std::string problem = options.problem(); !problem.empty())
    fail_at(expression, call, call.position, problem);
  return options;
}

std::string record_options(std::string_view name, AnyOptions options, std::string_view except) {
  Lister lister;
  options.visit(lister);
  std::vector<std::string_view> settings;
  for (const auto& line : lister.lines) {
    if (line.has_value && line.name != except) settings.push_back(line.setting);
  }
  return settings.empty() ? std::string(name) : fmt::format("{}({})", name, fmt::join(settings, ", "));
}

std::string help_options(AnyOptions options) {
  Lister lister;
  options.visit(lister);
  std::size_t width = 0;
  for (const auto& line : lister.lines) width = std::max(width, line.setting.size());
  std::string text;
  for (const auto& line : lister.lines) text += fmt::format("  {:<{}}   {}\n", line.setting, width, line.help);
  return text;
}

std::vector<std::string> names_of_options(AnyOptions options) {
  Lister lister;
  options.visit(lister);
  std::vector<std::string> names;
  for (const auto& line : lister.lines) names.emplace_back(line.name);
  return names;
}

std::vector<std::string> changed_options(AnyOptions options, AnyOptions others) {
  struct Texts final : OptionVisitor {
    std::vector<std::pair<std::string, std::string>> all;
    void visit(const Option& option) override { all.emplace_back(option.name, option.text()); }
  };
  Texts texts, other_texts;
  options.visit(texts);
  others.visit(other_texts);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < texts.all.size(); ++i) {
    if (texts.all[i] != other_texts.all.at(i)) names.push_back(texts.all[i].first);
  }
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
