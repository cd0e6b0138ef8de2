#include "app/cli/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <map>
#include <ranges>
#include <set>

namespace sotto {
namespace {

constexpr std::size_t name_width = 30;
constexpr std::size_t help_width = 88;

// "text [default]", broken into lines of help_width; CLI11 indents them.
std::string wrapped(std::string_view text) {
  std::string lines;
  std::size_t column = 0;
  for (const auto part : std::views::split(text, ' ')) {
    const std::string_view word(part.begin(), part.end());
    if (column > 0) {
      const bool fits = column + 1 + word.size() <= help_width;
      lines += fits ? ' ' : '\n';
      column = fits ? column + 1 : 0;
    }
    lines += word;
    column += word.size();
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

  // Refuses an option that is given twice, and one without a value: CLI11 would take the next option for the value.
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

  // Refuses --overlap together with --no-overlap: CLI11 would use the last one.
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
  std::map<std::string, std::string> texts;  // CLI11 needs a place for values; we read them by results()
};

namespace {

// Calls a function for each option.
template <class Function>
class Each final : public OptionVisitor {
 public:
  explicit Each(Function function) : function_(std::move(function)) {}
  void visit(const Option& option) override { function_(option); }

 private:
  Function function_;
};

}  // namespace

Flags::Flags(std::string_view command, std::string_view summary, std::string_view examples)
    : impl_(std::make_unique<Impl>(command, summary, examples)) {}

Flags::~Flags() = default;

void Flags::add_all(const Visit& visit, std::span<const FlagGroup> groups) {
  Each adder([&](const Option& option) {
    if (impl_->app.get_option_no_throw("--" + std::string(option.name)) != nullptr) return;
    const auto* flag = std::get_if<bool*>(&option.value);
    const bool is_on = flag != nullptr && **flag;  // a switch that is on unless it is turned off
    const bool is_whole = std::holds_alternative<std::int64_t*>(option.value);
    const bool is_number = is_whole || std::holds_alternative<double*>(option.value);
    const std::string range = flag != nullptr          ? ""
                              : is_number              ? range_text(option.bounds)
                              : option.choices.empty() ? option.range()
                                                       : fmt::format(": {}", fmt::join(option.choices, ", "));
    const std::string value = flag == nullptr ? option.text() : is_on ? "on" : "";
    impl_->add(impl_->names(option.name) + (is_on ? fmt::format(",!--no-{}", option.name) : ""),
               flag != nullptr ? ""
               : is_whole      ? "N"
               : is_number     ? "X"
                               : "TEXT",
               wrapped(fmt::format("{}{}{}", option.help, range, value.empty() ? "" : fmt::format(" [{}]", value))),
               heading_of(option.name, groups));
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

bool Flags::read(std::span<const std::string> arguments, const Visit& visit) {
  add_all(visit, {});
  if (!parse(arguments)) return false;
  assign_all(visit);
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
  Each assigner([this](const Option& option) {
    const CLI::Option* found = impl_->find(option.name);
    if (found == nullptr) return;
    const std::string& text = found->results().back();
    option.read(flag_spelling(option.name, text) + ":", text);
  });
  visit(assigner);
}

std::unique_ptr<OptionVisitor> setter(std::string_view name, const std::string& text, std::string_view where) {
  auto set = [name = std::string(name), text, where = fmt::format("{}:", where)](const Option& option) {
    if (option.name == name) option.read(where, text);
  };
  return std::make_unique<Each<decltype(set)>>(std::move(set));
}

void require_ending(std::string_view option, const std::string& file, std::string_view ending) {
  if (!file.ends_with(ending))
    throw ConfigError(fmt::format("{}: use a name that ends in {}", named(option, file), ending));
}

std::vector<std::string> to_flags(AnyOptions options) {
  std::vector<std::string> flags;
  Each writer([&](const Option& option) {
    const std::string text = option.text();
    if (!text.empty()) return flags.push_back(fmt::format("--{}={}", option.name, text));
    // An empty string is a flag, too: without it a resumed run would take the value from its record.
    flags.push_back(fmt::format("--{}", option.name));
    flags.emplace_back();
  });
  options.visit(writer);
  return flags;
}

std::string flag_spelling(std::string_view option, std::string_view value) {
  const std::string_view dashes = option.find(' ') == option.npos ? "--" : "";
  return fmt::format("{}{}{}{}", dashes, option, value.empty() ? "" : " ", value);
}

RankRange read_rank_range(const std::string& said, const std::string& text) {
  RankRange range;
  const auto colon = text.find(':');
  range.least = parse_int(said + ": the least number of ranks", text.substr(0, colon), {1, 65535});
  if (colon == std::string::npos) return range;
  range.most = parse_int(said + ": the greatest number of ranks", text.substr(colon + 1), {1, 65535});
  if (range.least > *range.most)
    throw ConfigError(fmt::format("{}: {} is more than {}", said, range.least, *range.most));
  return range;
}

}  // namespace sotto
