#include "sotto/codec/gradient_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sotto/core/error.h"

namespace sotto {

void require_finite(const std::filesystem::path& path, const GradientFile& file) {
  const auto bad = std::ranges::find_if(file.values, [](float value) { return !std::isfinite(value); });
  if (bad == file.values.end()) return;
  const auto at = static_cast<std::size_t>(bad - file.values.begin());
  throw FileError(fmt::format("{}: {} holds {}", path.string(), file.layout.name_at(at), *bad));
}

std::vector<float> without_padding(const Layout& layout, std::span<const float> values) {
  std::vector<float> all;
  all.reserve(layout.numel());
  for (const Segment& segment : layout.segments()) {
    const auto its = values.subspan(segment.offset, segment.numel());
    all.insert(all.end(), its.begin(), its.end());
  }
  return all;
}

}  // namespace sotto
