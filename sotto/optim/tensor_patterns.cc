#include "sotto/optim/tensor_patterns.h"

#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <set>

#include "sotto/core/error.h"
#include "sotto/core/expression.h"
#include "sotto/core/text.h"

namespace sotto {
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
