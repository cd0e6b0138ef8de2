#include "sotto/codec/quantise/cluster_training.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <numeric>

#include "sotto/codec/quantise/cluster_training.h"
#include "sotto/codec/quantise/samples.h"
#include "sotto/kernels/reduce.h"

namespace sotto {

double histogram_entropy(std::span<const float> ascending, std::span<std::uint32_t> bins) {
  if (ascending.empty() || ascending.front() == ascending.back()) return 0;
  std::ranges::fill(bins, 0U);
  const auto low = static_cast<double>(ascending.front());
  const double width = static_cast<double>(ascending.back()) - low;
  const auto count = static_cast<double>(bins.size());
  for (const float number : ascending) {
    const double place = (static_cast<double>(number) - low) / width * count;
    ++bins[std::min(static_cast<std::size_t>(place), bins.size() - 1)];
  }
  double entropy = 0;
  for (const std::uint32_t bin : bins) {
    const double p = static_cast<double>(bin) / static_cast<double>(ascending.size());
    if (bin > 0) entropy -= p * std::log2(p);
  }
  return entropy;
}

void share_out(std::size_t total, std::size_t least, std::span<const double> weights, std::span<std::uint32_t> sizes) {
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  const std::size_t spare = total - least * sizes.size();
  double sum = 0;
  std::size_t given = 0;
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    sum += weights[k];
    const double share = all > 0 ? sum / all : static_cast<double>(k + 1) / static_cast<double>(sizes.size());
    const bool last = k + 1 == sizes.size();
    const std::size_t until =
        last ? spare : std::min(static_cast<std::size_t>(share * static_cast<double>(spare)), spare);
    sizes[k] = static_cast<std::uint32_t>(least + until - given);
    given = until;
  }
}

namespace {

// Numbers of the random draws of the centres; the draws of the sample have smaller numbers.
constexpr std::uint32_t draws_positive = 1U << 31;
constexpr std::uint32_t draws_others = draws_positive + (1U << 16);

// The numbers of a text such as 40/60/400; nothing unless they are whole numbers.
std::optional<std::vector<std::uint32_t>> numbers_in(std::string_view text) {
  std::vector<std::uint32_t> numbers;
  const char* const end = text.data() + text.size();
  for (const char* place = text.data(); place <= end;) {
    std::uint32_t number = 0;
    const auto [next, error] = std::from_chars(place, end, number);
    if (error != std::errc() || (next != end && *next != '/')) return std::nullopt;
    numbers.push_back(number);
    place = next + 1;
  }
  return numbers;
}

}  // namespace

void ClustersOptions::visit(OptionVisitor& v) {
  v.option("c", c, "clusters of positive values, and as many of the others", Bounds{1, most_clusters / 2});
  v.option("decode", decode, "a value becomes the mean of its bucket of its cluster's table, or its cluster's centre",
           {"hash", "centre"});
  v.option("percentile", percentile, "magnitudes beyond it are a separate cluster; 100: there is none",
           Bounds{0, 100, true});
  v.option("retrain", retrain, "steps after which clusters are found again", Bounds{1, 1e9});
  v.option("sample", sample, "values, at most, that clusters are found from", Bounds{1, 1U << 24});
  v.option("raw", raw, "segments of at most so many values go as floats", Bounds{0, 1U << 30});
  v.option("buckets", buckets, "of all tables together", Bounds{2, 1e7});
  v.option("least", least, "buckets that each table has at least", Bounds{1, 1000});
  v.option("sizes", sizes, "by the product of what, of each cluster, the other buckets are shared out",
           {"entropy_centre_density", "entropy_centre", "entropy", "density"});
  v.option("outliers", outliers, "times as much for clusters of outliers", Bounds{0, 1e6});
  v.option("bins", bins, "of the histogram that a cluster's entropy is of", Bounds{2, 10000});
  v.option("shared", shared,
           "the ranks agree on clusters first, so that `gather` merges messages before it decodes them; at most 8 "
           "clusters a side");
  v.option("scope", scope, "clusters and tables of each segment, or of all values of a bucket together",
           {"segment", "bucket"});
  v.option("tables", tables,
           "buckets of each table, in place of `sizes`: of the clusters of one side, from zero on, as 40/60/400");
}

std::vector<std::uint32_t> ClustersOptions::table_sizes() const {
  if (!tables) return {};
  const std::vector<std::uint32_t> side = numbers_in(*tables).value();
  std::vector<std::uint32_t> both(side.rbegin(), side.rend());
  both.insert(both.end(), side.begin(), side.end());
  return both;
}

std::string ClustersOptions::problem() const {
  if (c == 1 && percentile < 100) return "one cluster a side leaves none for outliers: say percentile=100, or c=2";
  if (decode == "hash" && buckets < 2 * c * least) {
    return fmt::format("{} clusters of at least {} buckets each are more than buckets={}", 2 * c, least, buckets);
  }
  if (tables) {
    if (decode != "hash") return "only values that are decoded by a hash have tables: leave out tables";
    const auto side = numbers_in(*tables);
    if (!side || std::ssize(*side) != c) {
      return fmt::format("tables={}: there must be {} whole numbers, separated by /, one for each cluster of a side",
                         *tables, c);
    }
    if (std::ranges::any_of(*side, [&](std::uint32_t size) { return size < least; })) {
      return fmt::format("each of the tables has {} buckets or more (least)", least);
    }
    const auto all = 2 * std::accumulate(side->begin(), side->end(), std::int64_t{0});
    if (all != buckets) return fmt::format("the tables of both sides have {} buckets: say buckets={}", all, all);
  }
  if (shared && c > 8) return "shared clusters can be 8 a side, or fewer: say c=8";
  return "";
}

Boundaries::Boundaries(std::span<const float> centres) : count(std::bit_ceil(centres.size()) - 1) {
  std::ranges::fill(room, std::numeric_limits<float>::infinity());
  for (std::size_t k = 0; k + 1 < centres.size(); ++k) {
    room[k] = static_cast<float>((static_cast<double>(centres[k]) + static_cast<double>(centres[k + 1])) / 2);
  }
  room[centres.size() / 2 - 1] = 0;  // between negative and positive clusters
}

void ClusterTraining::reserve(std::size_t values, Clusters& out) {
  const std::size_t most = std::min(values, static_cast<std::size_t>(options_.sample));
  sample_.room(most);
  distances_.room(most);
  bins_.room(static_cast<std::size_t>(options_.bins));
  out.centres.reserve(2 * static_cast<std::size_t>(options_.c));
  out.sizes.reserve(2 * static_cast<std::size_t>(options_.c));
}

bool ClusterTraining::train(std::span<const float> values, const ElementStream& stream, Clusters& out) {
  const Sides sides = sample(values, stream);
  for (const auto side : {sides.others, sides.positive}) {
    if (!kernels::all_finite(side)) return false;
    std::ranges::sort(side);
  }
  const auto c = static_cast<std::size_t>(options_.c);
  out.centres.resize(2 * c);
  const auto others = std::span(out.centres).first(c);
  find_side(sides.others, stream, draws_others, others);
  std::ranges::reverse(others);
  for (float& centre : others) centre = 0.0F - centre;  // so that a zero becomes +0
  find_side(sides.positive, stream, draws_positive, std::span(out.centres).subspan(c));
  if (!table_sizes_.empty()) {
    out.sizes = table_sizes_;
  } else if (options_.decode == "hash") {
    share_buckets(sides, out);
  }
  return true;
}

// Draws one value from each of equal stretches that cover the values.
ClusterTraining::Sides ClusterTraining::sample(std::span<const float> values, const ElementStream& stream) {
  const std::size_t count = std::min(values.size(), static_cast<std::size_t>(options_.sample));
  const auto room = sample_.room(count);
  std::size_t positive = 0;
  std::size_t others = count;
  const auto add = [&](float value) {
    if (value > 0) {
      room[positive++] = value;
    } else {
      room[--others] = std::abs(value);
    }
  };
  visit_sample(values.size(), count, stream, [&](std::size_t i) { add(values[i]); });
  return {room.subspan(others), room.first(positive)};
}

void ClusterTraining::find_side(std::span<const float> magnitudes, const ElementStream& stream, std::uint32_t first,
                                std::span<float> centres) {
  const auto distances = distances_.room(magnitudes.size());
  if (options_.percentile >= 100) return find_centres(magnitudes, stream, first, distances, centres);
  const double share = options_.percentile / 100 * (1 - 1e-12);
  const auto rest =
      magnitudes.first(static_cast<std::size_t>(std::ceil(share * static_cast<double>(magnitudes.size()))));
  find_centres(rest, stream, first, distances, centres.first(centres.size() - 1));
  centres.back() = rest.empty() ? 0.0F : rest.back();
}

void ClusterTraining::share_buckets(const Sides& sides, Clusters& out) {
  const std::size_t c = out.centres.size() / 2;
  const Boundaries boundaries(out.centres);
  std::array<double, most_clusters> densities{};
  std::array<double, most_clusters> entropies{};
  const auto bins = bins_.room(static_cast<std::size_t>(options_.bins));
  // Goes from the smallest magnitudes on; cluster k has the values above boundary k - 1, up to boundary k.
  const auto visit = [&](std::span<const float> side, bool positive) {
    auto begin = side.begin();
    double sum = 0;
    for (std::size_t j = 0; j < c; ++j) {
      const std::size_t k = positive ? c + j : c - 1 - j;
      const auto end = j + 1 == c ? side.end()
                       : positive ? std::upper_bound(begin, side.end(), boundaries.room[k])
                                  : std::lower_bound(begin, side.end(), -boundaries.room[k - 1]);
      densities[k] = side.empty() ? 0 : static_cast<double>(end - begin) / static_cast<double>(side.size());
      entropies[k] = histogram_entropy({begin, end}, bins);
      sum += entropies[k];
      begin = end;
    }
    for (std::size_t j = 0; j < c && sum > 0; ++j) entropies[positive ? c + j : j] /= sum;
  };
  visit(sides.others, false);
  visit(sides.positive, true);

  const double most =
      std::max(std::abs(static_cast<double>(out.centres.front())), std::abs(static_cast<double>(out.centres.back())));
  std::array<double, most_clusters> weights;
  for (std::size_t k = 0; k < 2 * c; ++k) {
    const double centre = most > 0 ? std::abs(static_cast<double>(out.centres[k])) / most : 0;
    const bool outliers = options_.percentile < 100 && (k == 0 || k + 1 == 2 * c);
    weights[k] = weight(densities[k], entropies[k], centre) * (outliers ? options_.outliers : 1);
  }
  out.sizes.resize(2 * c);
  share_out(static_cast<std::size_t>(options_.buckets), static_cast<std::size_t>(options_.least),
            std::span(weights).first(2 * c), out.sizes);
}

double ClusterTraining::weight(double density, double entropy, double centre) const {
  if (options_.sizes == "density") return density;
  if (options_.sizes == "entropy") return entropy;
  return options_.sizes == "entropy_centre" ? entropy * centre : entropy * centre * density;
}

}  // namespace sotto
