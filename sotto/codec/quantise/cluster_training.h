#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sotto/codec/scratch.h"
#include "sotto/core/options.h"
#include "sotto/core/random.h"

namespace sotto {

// Finds the cluster centres of numbers on a line, in ascending order: k-means++ (Arthur, Vassilvitskii, SODA 2007),
// then at most twenty rounds of moving each centre to the mean of the numbers nearest to it (Lloyd, 1982). The random
// draws are the numbers `first`, `first` + 1 ... of the stream. If there are fewer distinct numbers than centres, the
// last centre is repeated; without numbers all centres are 0. docs/wire describes the steps. REQUIRES ascending,
// finite, non-negative numbers, and room for as many distances.
void find_centres(std::span<const float> ascending, const ElementStream& stream, std::uint32_t first,
                  std::span<double> distances, std::span<float> centres);

// Shannon entropy, in bits, of a histogram of these numbers from the first to the last. 0 if there are no numbers or
// all are equal. REQUIRES ascending numbers; `bins` are overwritten.
double histogram_entropy(std::span<const float> ascending, std::span<std::uint32_t> bins);

// Gives `least` to each of `sizes`, and shares out the rest of `total` in proportion to `weights`, rounded so that the
// sum is `total`. Equal shares if all weights are 0.
void share_out(std::size_t total, std::size_t least, std::span<const double> weights, std::span<std::uint32_t> sizes);

inline constexpr std::size_t most_clusters = 512;  // of both sides

struct ClustersOptions {
  std::int64_t c = 30;
  std::string decode = "hash";
  double percentile = 95;
  std::int64_t retrain = 10;
  std::int64_t sample = 100000;
  std::int64_t raw = 1000;
  std::int64_t buckets = 1000;
  std::int64_t least = 10;
  std::string sizes = "entropy_centre";
  double outliers = 2;
  std::int64_t bins = 100;
  bool shared = false;
  std::string scope = "segment";
  std::optional<std::string> tables;
  void visit(OptionVisitor& v);
  // The sizes of the tables, in the ascending order of their clusters; empty if the sizes follow from the values.
  // REQUIRES options without a problem.
  std::vector<std::uint32_t> table_sizes() const;
  std::string problem() const;
};

// The clusters of one unit: c for values that are not positive and c for positive values, in ascending order.
struct Clusters {
  std::vector<float> centres;
  std::vector<std::uint32_t> sizes;  // number of buckets of each cluster; empty if values are decoded to centres
};

// Boundaries between neighbouring clusters: a value above boundary k belongs to cluster k + 1 or a later one.
// Infinities pad them to a number that is one below a power of two.
struct Boundaries {
  explicit Boundaries(std::span<const float> centres);
  std::span<const float> all() const { return std::span(room).first(count); }
  std::array<float, most_clusters> room;
  std::size_t count;
};

// Finds clusters of a sample of the values. On each side the values beyond a percentile form their own cluster, with
// that percentile as centre; k-means clusters the others. docs/wire describes the steps.
class ClusterTraining {
 public:
  explicit ClusterTraining(const ClustersOptions& options) : options_(options), table_sizes_(options.table_sizes()) {}

  void reserve(std::size_t values, Clusters& out);
  // Returns false if a value of the sample is not finite; `out` is then unchanged.
  bool train(std::span<const float> values, const ElementStream& stream, Clusters& out);

 private:
  struct Sides {  // magnitudes of the sample, ascending
    std::span<float> others, positive;
  };
  Sides sample(std::span<const float> values, const ElementStream& stream);
  void find_side(std::span<const float> magnitudes, const ElementStream& stream, std::uint32_t first,
                 std::span<float> centres);
  void share_buckets(const Sides& sides, Clusters& out);
  double weight(double density, double entropy, double centre) const;

  ClustersOptions options_;
  std::vector<std::uint32_t> table_sizes_;
  Scratch<float> sample_;
  Scratch<double> distances_;
  Scratch<std::uint32_t> bins_;
};

}  // namespace sotto
