#include "app/train/size_text.h"

#include <algorithm>
#include <array>
#include <utility>

#include "sotto/core/options.h"

namespace sotto {

std::optional<double> parse_bytes(std::string_view name, std::string_view text) {
  constexpr std::array<std::pair<std::string_view, double>, 6> units{
      {{"KiB", 1024}, {"MiB", 1024 * 1024}, {"GiB", 1024 * 1024 * 1024}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}}};
  const auto* const unit = std::ranges::find_if(units, [&](const auto& each) { return text.ends_with(each.first); });
  if (unit == units.end()) return std::nullopt;
  return parse_double(name, text.substr(0, text.size() - unit->first.size()), Bounds::positive()) * unit->second;
}

}  // namespace sotto
