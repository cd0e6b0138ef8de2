#include "app/cli/flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <variant>

#include "sotto/core/error.h"

namespace sotto {
namespace {

constexpr std::size_t name_width = 30;
constexpr std::size_t help_width = 88;

// "text [default]", broken into lines of help_width; CLI11 indents them.
std::string wrapped(std::string_view text) {
  std::string lines;
  std::size_t column = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (column > 0 && column + 1 + end > help_width) {
      lines += '\n';
      column = 0;
    } else if (column > 0) {
      lines += ' ';
      ++column;
    }
    lines += text.substr(0, end);
    column += end;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

class HelpFormatter final : public CLI::Formatter {
 public:
  HelpFormatter() { column_width(name_width); }
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    if (is_positional) return option->get_name(true, false);
    const std::string letters = fmt::format("{}", fmt::join(option->get_snames(), ", -"));
    return fmt::format("{}{}--{}", letters.empty() ? "" : "-" + letters, letters.empty() ? "" : ", ",
                       fmt::join(option->get_lnames(), ", --"));
  }
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    return CLI::detail::find_and_replace(CLI::Formatter::make_help(app, std::move(name), mode), "\n\n\n", "\n\n");
  }
  std::string make_usage(const CLI::App* app, std::string name) const override {
    return "\n" + CLI::Formatter::make_usage(app, std::move(name));
  }
};

std::string with_default(std::string_view help, std::string_view range, std::string_view value) {
  return wrapped(fmt::format("{}{}{}", help, range, value.empty() ? "" : fmt::format(" [{}]", value)));
}

// A lower bound of 0 or 1 is obvious for a count, so it is not shown.
std::string range_text(Bounds bounds) {
  return bounds.low_open || std::isfinite(bounds.high) ? ", in " + bounds.text() : "";
}

std::string heading_of(std::string_view option, std::span<const FlagGroup> groups) {
  for (const FlagGroup& group : groups) {
    if (std::ranges::find(group.options, option) != group.options.end()) return std::string(group.heading);
  }
  return groups.empty() ? "Options" : std::string(groups.back().heading);
}

}  // namespace

class Flags::Impl {
 public:
  Impl(std::string_view name, std::string_view summary, std::string_view examples)
      : app(std::string(summary), fmt::format("sotto {}", name)) {
    app.formatter(std::make_shared<HelpFormatter>());
    app.set_help_flag("-h,--help", "this text");
    app.footer(std::string(examples));
    app.allow_extras();
  }

  CLI::Option* add(const std::string& names, const std::string& kind, std::string help, const std::string& group) {
    CLI::Option* option = kind.empty() ? app.add_flag(names) : app.add_option(names, texts[names], "");
    option->description(std::move(help))->group(group);
    if (!kind.empty()) option->option_text(kind);
    return option;
  }

  std::string names(std::string_view name) const {
    const auto other = aliases.find(name);
    if (other == aliases.end()) return fmt::format("--{}", name);
    return fmt::format("--{},{}{}", name, other->second.size() == 1 ? "-" : "--", other->second);
  }

  // The values given for an option, or null.
  const CLI::Option* find(std::string_view name) const {
    const CLI::Option* option = app.get_option_no_throw("--" + std::string(name));
    return option != nullptr && option->count() > 0 ? option : nullptr;
  }

  // Refuses an option without a value, for which CLI11 would take the next option, and an option that is given twice.
  void require_values(std::span<const std::string> arguments) const {
    std::set<const CLI::Option*> seen;
    for (std::size_t i = 0; i < arguments.size() && arguments[i] != "--"; ++i) {
      const std::size_t equals = arguments[i].find('=');
      const std::string name = arguments[i].substr(0, equals);
      const CLI::Option* option = name.starts_with('-') ? app.get_option_no_throw(name) : nullptr;
      if (option == nullptr || option->get_items_expected_max() == 0) continue;
      if (!seen.insert(option).second && option->get_items_expected_max() == 1) {
        throw ConfigError(fmt::format("{}: it is given twice; say it once", name));
      }
      if (equals != std::string::npos) continue;
      if (++i == arguments.size() || arguments[i].starts_with("--")) {
        throw ConfigError(fmt::format("{}: it needs a value{}; see {} --help", name,
                                      i < arguments.size() ? fmt::format(", and {} follows", arguments[i]) : "",
                                      app.get_name()));
      }
    }
  }

  // Refuses --overlap with --no-overlap, of which the last one would count.
  void require_one_way() const {
    for (const CLI::Option* option : app.get_options()) {
      const auto& said = option->results();
      if (option->get_items_expected_max() > 0 ||
          std::ranges::count(said, said.empty() ? "" : said[0]) == std::ssize(said)) {
        continue;
      }
      throw ConfigError(fmt::format("{}: it is given both ways, as {}; say one of them", option->get_name(),
                                    fmt::join(said, " and as ")));
    }
  }

  [[noreturn]] void fail_unknown(const std::string& argument) const {
    if (!argument.starts_with("--")) {
      throw ConfigError(
          fmt::format("{}: unexpected argument `{}`; see {} --help", app.get_name(), argument, app.get_name()));
    }
    const std::string name = argument.substr(0, argument.find('='));
    std::vector<std::string> known;
    for (const CLI::Option* option : app.get_options()) {
      for (const std::string& other : option->get_lnames()) known.push_back("--" + other);
    }
    const std::vector<std::string_view> views(known.begin(), known.end());
    const std::string nearest = nearest_name(name, views);
    throw ConfigError(fmt::format("{}: unknown option {};{} see {} --help", app.get_name(), name,
                                  nearest.empty() ? "" : fmt::format(" did you mean {}?", nearest), app.get_name()));
  }

  CLI::App app;
  std::map<std::string, std::string, std::less<>> aliases;
  std::map<std::string, std::string> texts;  // where CLI11 puts values; they are read as results()
};

namespace {

class Assigner final : public OptionVisitor {
 public:
  // The text of an option, if it has one, and how an error names it with that text.
  using Find = std::function<std::optional<std::string>(std::string_view name)>;
  using Where = std::function<std::string(std::string_view name, std::string_view text)>;
  Assigner(Find given, Where where) : given_(std::move(given)), where_(std::move(where)) {}

  void visit(const Option& option) override {
    if (const auto text = given_(option.name)) option.read(where_(option.name, *text) + ":", *text);
  }

 private:
  Find given_;
  Where where_;
};

class Writer final : public OptionVisitor {
 public:
  void visit(const Option& option) override {
    const std::string text = option.text();
    if (!text.empty()) return flags.push_back(fmt::format("--{}={}", option.name, text));
    // An empty string is written, too: otherwise a resumed run would take the value from its record.
    flags.push_back(fmt::format("--{}", option.name));
    flags.emplace_back();
  }
  std::vector<std::string> flags;
};

class Adder final : public OptionVisitor {
 public:
  // `kind` is empty for a switch; `is_on`: a switch that is on unless it is turned off.
  using Add = std::function<void(std::string_view name, const char* kind, std::string help, bool is_on)>;
  explicit Adder(Add add) : add_(std::move(add)) {}

  void visit(const Option& option) override {
    if (const auto* flag = std::get_if<bool*>(&option.value)) {
      return add_(option.name, "", with_default(option.help, "", **flag ? "on" : ""), **flag);
    }
    const bool is_whole = std::holds_alternative<std::int64_t*>(option.value);
    const bool is_number = is_whole || std::holds_alternative<double*>(option.value);
    const std::string range = is_number                ? range_text(option.bounds)
                              : option.choices.empty() ? option.range()
                                                       : fmt::format(": {}", fmt::join(option.choices, ", "));
    add_(option.name,
         is_whole    ? "N"
         : is_number ? "X"
                     : "TEXT",
         with_default(option.help, range, option.text()), false);
  }

 private:
  Add add_;
};

}  // namespace

Flags::Flags(std::string_view command, std::string_view summary, std::string_view examples)
    : impl_(std::make_unique<Impl>(command, summary, examples)) {}

Flags::~Flags() = default;

void Flags::add_all(const Visit& visit, std::span<const FlagGroup> groups) {
  Adder adder([&](std::string_view name, const char* kind, std::string help, bool is_on) {
    if (impl_->app.get_option_no_throw("--" + std::string(name)) != nullptr) return;
    const std::string names = impl_->names(name) + (is_on ? fmt::format(",!--no-{}", name) : "");
    impl_->add(names, kind, std::move(help), heading_of(name, groups));
  });
  visit(adder);
}

void Flags::alias(std::string_view option, std::string_view other) { impl_->aliases.emplace(option, other); }

void Flags::add_list(std::string_view name, std::vector<std::string>& values, std::string_view help) {
  impl_->app.add_option(impl_->names(name), values, wrapped(help))->option_text("TEXT ...");
}

void Flags::add_positional(std::string_view name, std::string& value, std::string_view help, bool required) {
  impl_->app.add_option(std::string(name), value, wrapped(help))->required(required)->option_text(" ");
}

void Flags::add_positionals(std::string_view name, std::vector<std::string>& values, std::string_view help,
                            bool required) {
  impl_->app.add_option(std::string(name), values, wrapped(help))->required(required)->option_text("...");
}

bool Flags::parse(std::span<const std::string> arguments) {
  CLI::App& app = impl_->app;
  impl_->require_values(arguments);
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));  // CLI11 takes them in reverse order
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return false;
  } catch (const CLI::ParseError& error) {
    throw ConfigError(fmt::format("{}: {}; see {} --help", app.get_name(), error.what(), app.get_name()));
  }
  impl_->require_one_way();
  const auto rest = app.remaining();
  if (!rest.empty()) impl_->fail_unknown(rest.front());
  return true;
}

bool Flags::given(std::string_view option) const { return impl_->find(option) != nullptr; }

void Flags::refuse_empty(std::initializer_list<std::string_view> options) const {
  for (const std::string_view option : options) {
    const CLI::Option* found = impl_->find(option);
    if (found != nullptr && found->results().back().empty()) {
      throw ConfigError(named(option) + ": it is empty; leave it out, or give it a value");
    }
  }
}

void Flags::assign_all(const Visit& visit) const {
  const auto given = [this](std::string_view name) {
    const CLI::Option* option = impl_->find(name);
    return option == nullptr ? std::nullopt : std::optional(option->results().back());
  };
  Assigner assigner(given, flag_spelling);
  visit(assigner);
}

std::unique_ptr<OptionVisitor> setter(std::string_view name, const std::string& text, std::string_view where) {
  return std::make_unique<Assigner>(
      [=, name = std::string(name)](std::string_view other) {
        return other == name ? std::optional(text) : std::nullopt;
      },
      [where = std::string(where)](std::string_view /*name*/, std::string_view /*text*/) { return where; });
}

void require_ending(std::string_view option, const std::string& file, std::string_view ending) {
  if (!file.ends_with(ending))
    throw ConfigError(fmt::format("{}: use a name that ends in {}", named(option, file), ending));
}

std::vector<std::string> to_flags(AnyOptions options) {
  Writer writer;
  options.visit(writer);
  return std::move(writer.flags);
}

std::string flag_spelling(std::string_view option, std::string_view value) {
  const std::string_view dashes = option.find(' ') == option.npos ? "--" : "";
  return fmt::format("{}{}{}{}", dashes, option, value.empty() ? "" : " ", value);
}

}  // namespace sotto
