#include "app/train/options/buckets.h"

#include <fmt/format.h>

#include <limits>

#include "app/train/options/options.h"
#include "sotto/core/error.h"
#include "sotto/core/options.h"

namespace sotto {

std::string Bucketing::text() const {
  if (layers) return "layer";
  return most == 0 ? "whole" : std::to_string(most);
}

Bucketing read_buckets(std::string_view option, std::string_view text) {
  if (text == "layer") return {.layers = true};
  if (text == "whole") return {};
  const std::string said = named(option, text);
  const auto size = parse_bytes(said + ": the size", text);
  if (!size) throw ConfigError(said + ": must be layer, whole or a size, as 25MB");
  constexpr double least = 1024, most = 2.0 * 1024 * 1024 * 1024;
  if (*size < least || *size > most) throw ConfigError(said + ": must be in [1KiB, 2GiB]");
  return {.most = static_cast<std::size_t>(*size)};
}

std::vector<BucketPlan> plan_buckets(const Layout& layout, const Bucketing& buckets) {
  if (buckets.layers) return plan_layers(layout);
  return plan_buckets(layout, buckets.most == 0 ? std::numeric_limits<std::size_t>::max() : buckets.most);
}

void require_whole_tensors(const Optimiser& optimiser, const Layout& layout, std::span<const BucketPlan> buckets) {
  if (!optimiser.needs_whole_tensors()) return;
  for (const BucketPlan& bucket : buckets) {
    const Segment& segment = layout.segments()[bucket.first];
    if (bucket.range.begin <= segment.offset && bucket.range.end >= segment.range().end) continue;
    throw ConfigError(fmt::format(
        "{}: its step depends on whole tensors, and `{}` of {} elements is cut into several messages; take one that "
        "works element by element, such as sgd or adamw",
        named("optimiser"), segment.name, segment.numel()));
  }
}

}  // namespace sotto
