#include "sotto/train/buckets.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "sotto/core/error.h"

namespace sotto {
namespace {

bool is_size(const TrainOptions& options) { return options.buckets != "layer" && options.buckets != "whole"; }

std::size_t size_of(const TrainOptions& options) {
  const std::string& said = options.buckets;
  constexpr std::array<std::pair<std::string_view, double>, 6> units{
      {{"KiB", 1024}, {"MiB", 1024 * 1024}, {"GiB", 1024 * 1024 * 1024}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}}};
  const auto unit = std::ranges::find_if(units, [&](const auto& each) { return said.ends_with(each.first); });
  if (unit == units.end()) {
    throw ConfigError(fmt::format("--buckets {}: must be layer, whole or a size, as 25MB", said));
  }
  const std::string number = said.substr(0, said.size() - unit->first.size());
  const double bytes = parse_double("--buckets " + said + ": the size", number, Bounds::positive()) * unit->second;
  constexpr double least = 1024, most = 2.0 * 1024 * 1024 * 1024;
  if (bytes < least || bytes > most) {
    throw ConfigError(fmt::format("--buckets {}: must be in [1KiB, 2GiB]", said));
  }
  return static_cast<std::size_t>(bytes);
}

}  // namespace

std::vector<BucketPlan> plan_buckets(const Layout& layout, const TrainOptions& options) {
  if (options.buckets == "layer") return plan_layers(layout);
  return plan_buckets(layout, is_size(options) ? size_of(options) : std::numeric_limits<std::size_t>::max());
}

void check_buckets(const TrainOptions& options) {
  if (is_size(options)) size_of(options);
}

std::string bucket_text(const TrainOptions& options) {
  return is_size(options) ? std::to_string(size_of(options)) : options.buckets;
}

}  // namespace sotto
