#include "sotto/optim/parameter_groups.h"

#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <set>

#include "sotto/core/text.h"

namespace sotto {
namespace {

// The options of a group: its optimiser's options, and a factor of the rate.
struct GroupOptions {
  double lr_scale = 1;
  AnyOptions own;
  void visit(OptionVisitor& v) {
    v.option("lr-scale", lr_scale, "multiplies the learning rate", Bounds::at_least(0));
    own.visit(v);
  }
  std::string problem() const { return own.problem(); }
};

ParameterGroup read_group(std::string_view option, const std::string& text, const OptimiserSpec& all) {
  const std::string here = named(option, text);
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) {
    throw ConfigError(here + ": no `:`; a group is PATTERNS: OPTION=VALUE, as `*.bias,*norm*: weight-decay=0`");
  }
  ParameterGroup group;
  group.patterns = read_patterns(here, text.substr(0, colon));
  if (colon + 1 == text.size()) {
    throw ConfigError(here + ": says no option; leave the group out, or write weight-decay=0");
  }
  // The settings are read as arguments of the optimiser, as everywhere.
  const Expression expression = parse_arguments(option, text, colon + 1);
  const Call& call = expression.calls.front();
  for (const Argument& argument : call.arguments) {
    if (argument.key.empty()) fail_at(expression, call, argument.position, "say which option it is, as weight-decay=0");
  }
  GroupOptions options{1, all.options};
  read_options(expression, call, options);
  group.lr_scale = options.lr_scale;
  group.optimiser = {all.entry, options.own, place_of(expression, call)};
  return group;
}

}  // namespace

std::string ParameterGroup::names() const { return fmt::format("{}", fmt::join(patterns, ",")); }

std::vector<ParameterGroup> read_groups(std::string_view option, std::string_view text, const OptimiserSpec& all) {
  std::vector<ParameterGroup> groups;
  for (const std::string& group : split_trimmed(text, ';')) {
    if (group.empty()) {
      throw ConfigError(named(option, text) + ": a group is empty; `;` stands between two of them, and not at the end");
    }
    groups.push_back(read_group(option, group, all));
  }
  return groups;
}

std::vector<std::size_t> groups_of_tensors(std::string_view option, std::span<const ParameterGroup> groups,
                                           const Layout& layout) {
  std::vector<std::size_t> of(layout.segments().size(), groups.size());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    bool found = false;
    for (const std::string& pattern : groups[g].patterns) {
      bool any = false, took = false;
      for (std::size_t s = 0; s < of.size(); ++s) {
        if (!matches(pattern, layout.segments()[s].name)) continue;
        any = true;
        if (of[s] == groups.size()) of[s] = g;
        took |= of[s] == g;
      }
      if (any && !took) {
        throw ConfigError(fmt::format("{}: `{}` has only tensors of earlier groups; the first group of a tensor counts",
                                      named(option), pattern));
      }
      found |= any;
    }
    if (!found) throw ConfigError(no_tensor(option, groups[g].patterns.front(), layout));
  }
  return of;
}

std::string groups_doubt(std::string_view option, std::span<const ParameterGroup> groups, const Layout& layout) {
  for (const ParameterGroup& group : groups) {
    for (const std::string& pattern : group.patterns) {
      const auto fits = [&](const Segment& segment) { return matches(pattern, segment.name); };
      if (std::ranges::none_of(layout.segments(), fits)) return no_tensor(option, pattern, layout);
    }
  }
  return "";
}

namespace {

// The tensors that a pattern without a match may have meant.
std::string hint(const std::string& pattern, const Layout& layout) {
  std::vector<std::string> names;
  std::set<std::string> parts;
  for (const Segment& segment : layout.segments()) {
    names.push_back(segment.name);
    for (std::string& part : split_trimmed(segment.name, '.')) parts.insert(std::move(part));
  }
  const std::vector<std::string_view> known(parts.begin(), parts.end());
  std::vector<std::string> near;
  for (std::string word : split_trimmed(pattern, '.')) {
    std::erase_if(word, [](char c) { return c == '*' || c == '?'; });
    const std::string part = word.empty() ? "" : nearest_name(word, known);
    for (const std::string& name : names) {
      const auto own = split_trimmed(name, '.');
      if (!part.empty() && part != word && std::ranges::count(own, part) > 0) near.push_back(name);
    }
  }
  const bool found = !near.empty();
  std::vector<std::string>& shown = found ? near : names;
  constexpr std::size_t most = 6;
  const std::size_t all = shown.size();
  if (all > most) shown.resize(most);
  return fmt::format("{}{}{}", found ? "did you mean " : "there are ", fmt::join(shown, ", "),
                     all > most ? fmt::format(" .. ({} in all)", all) : "");
}

}  // namespace

std::vector<std::string> split_trimmed(std::string_view text, char at) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t end = text.find(at);
    parts.emplace_back(trimmed(text.substr(0, end)));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::vector<std::string> read_patterns(const std::string& said, std::string_view text) {
  std::vector<std::string> patterns = split_trimmed(text, ',');
  if (std::ranges::count(patterns, "") > 0) throw ConfigError(said + ": a pattern is empty");
  return patterns;
}

bool matches(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

std::string no_tensor(std::string_view option, const std::string& pattern, const Layout& layout) {
  return fmt::format("{}: `{}` is the name of no tensor; {}", named(option), pattern, hint(pattern, layout));
}

}  // namespace sotto
