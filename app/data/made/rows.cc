#include "app/data/rows/rows.h"

#include <algorithm>

#include "app/data/made/generated.h"

namespace sotto {

std::unique_ptr<Rows> open_made_rows(const DataOptions& options, Split split) {
  constexpr std::size_t features = 1'000'000, drawn = 120;
  const auto seed = static_cast<std::uint64_t>(options.data_seed);
  const ElementStream plane = element_stream(seed, Purpose::data, 0, 0, 0);
  auto rows = std::make_unique<Rows>();
  rows->features = features;
  rows->seen_labels = {{.label = -1}, {.label = 1}};
  std::vector<std::uint32_t> columns;
  const std::size_t count = generated_size(options, split, 50'000, 10'000);
  for (std::size_t index = 0; index < count; ++index) {
    Philox random = example_random(seed, split, index);
    columns.clear();
    for (std::size_t k = 0; k < drawn; ++k) {
      const double u = random.uniform();
      columns.push_back(static_cast<std::uint32_t>(u * u * u * u * u * u * features));
    }
    std::ranges::sort(columns);
    columns.erase(std::ranges::unique(columns).begin(), columns.end());
    float side = 0;
    for (const std::uint32_t column : columns) {
      const float value = between(random, 0.5F, 1.5F);
      rows->columns.push_back(column);
      rows->values.push_back(value);
      side += value * (2 * plane.uniform(column) - 1) * 500 / (500 + static_cast<float>(column));
    }
    const bool turned = random.below(20) == 0;
    rows->end_row((side > 0) != turned ? 1.0F : -1.0F);
  }
  return rows;
}

}  // namespace sotto
