#include "app/report/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace sotto {
namespace {

constexpr std::array no_settings =
    std::to_array<std::string_view>({"train-dir", "resume", "master", "capture", "csv-format", "measure-errors",
                                     "csv-tag", "tensorboard", "metrics-port"});
constexpr std::string_view seed = "seed";

std::string value_of(const Settings& settings, std::string_view name) {
  const auto found = std::ranges::find(settings, name, &Setting::name);
  return found == settings.end() ? "" : found->value;
}

Settings without_seed(Settings settings) {
  std::erase_if(settings, [](const Setting& option) { return option.name == seed; });
  return settings;
}

// "ef | topk(0.01)" where only one option differs, "codec=none, lr=0.1" where several do.
std::string group_name(std::span<const Difference> differing, std::size_t group) {
  const auto said = [&](const Difference& one) {
    const std::string& value = one.values[group];
    return value.empty() ? std::string("-") : value;
  };
  if (differing.size() == 1) return said(differing[0]);
  std::string name;
  for (const Difference& one : differing) {
    name += fmt::format("{}{}={}", name.empty() ? "" : ", ", one.name, said(one));
  }
  return name;
}

}  // namespace

std::string RunGroup::title() const { return runs.size() > 1 ? fmt::format("{} ({} runs)", name, runs.size()) : name; }

Settings settings_of(Settings options) {
  std::erase_if(options,
                [](const Setting& option) { return std::ranges::find(no_settings, option.name) != no_settings.end(); });
  return options;
}

std::vector<Difference> differences(std::span<const Settings> runs) {
  std::vector<std::string> names;
  for (const Settings& settings : runs) {
    for (const Setting& option : settings) {
      if (std::ranges::find(names, option.name) == names.end()) names.push_back(option.name);
    }
  }
  std::vector<Difference> found;
  for (const std::string& name : names) {
    Difference one{name, {}};
    for (const Settings& settings : runs) one.values.push_back(value_of(settings, name));
    if (std::ranges::any_of(one.values, [&](const std::string& value) { return value != one.values[0]; })) {
      found.push_back(std::move(one));
    }
  }
  return found;
}

std::vector<RunGroup> group_by_seed(std::span<const Settings> runs, std::span<const std::string> folders) {
  std::vector<RunGroup> groups;
  std::vector<Settings> kinds;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    Settings kind = without_seed(runs[r]);
    const auto at = static_cast<std::size_t>(std::ranges::find(kinds, kind) - kinds.begin());
    if (at == kinds.size()) {
      kinds.push_back(std::move(kind));
      groups.emplace_back();
    }
    groups[at].runs.push_back(r);
  }
  const std::vector<Difference> differing = differences(kinds);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    groups[g].name = groups.size() == 1 ? folders[groups[g].runs[0]] : group_name(differing, g);
  }
  return groups;
}

}  // namespace sotto
