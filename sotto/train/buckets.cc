#include "sotto/train/buckets.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "sotto/core/error.h"

namespace sotto {

void resolve_buckets(TrainOptions& options) {
  std::string& said = options.buckets;
  if (said.empty()) return;
  if (options.bucket_kib != TrainOptions{}.bucket_kib) {
    throw ConfigError(
        fmt::format("--buckets {}: contradicts --bucket-kib {}; say one of them", said, options.bucket_kib));
  }
  if (said == "layer" || said == "whole") return;
  constexpr std::array<std::pair<std::string_view, double>, 6> units{
      {{"KiB", 1024}, {"MiB", 1024 * 1024}, {"GiB", 1024 * 1024 * 1024}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}}};
  const auto unit = std::ranges::find_if(units, [&](const auto& each) { return said.ends_with(each.first); });
  if (unit == units.end()) {
    throw ConfigError(fmt::format("--buckets {}: must be layer, whole or a size, as 25MB", said));
  }
  const std::string number = said.substr(0, said.size() - unit->first.size());
  const double kib = parse_double("--buckets " + said + ": the size", number, Bounds::positive()) * unit->second / 1024;
  if (kib < 1 || kib > 2097152) throw ConfigError(fmt::format("--buckets {}: must be in [1KiB, 2GiB]", said));
  options.bucket_kib = static_cast<std::int64_t>(kib);
  said.clear();  // said once, in KiB
}

std::vector<BucketPlan> plan_buckets(const Layout& layout, const TrainOptions& options) {
  if (options.buckets == "layer") return plan_layers(layout);
  if (options.buckets == "whole") return plan_buckets(layout, std::numeric_limits<std::size_t>::max());
  return plan_buckets(layout, static_cast<std::size_t>(options.bucket_kib) * 1024);
}

std::string bucket_text(const TrainOptions& options) {
  return options.buckets.empty() ? std::to_string(options.bucket_kib) : options.buckets;
}

}  // namespace sotto
