#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>

#include "sotto/codec/quantise/cluster_training.h"
#include "sotto/codec/quantise/packed_symbols.h"
#include "sotto/codec/stage.h"
#include "sotto/kernels/clusters.h"

namespace sotto {

// The buckets that belong to each cluster.
inline std::array<kernels::Table, most_clusters> tables_of(std::span<const std::uint32_t> sizes) {
  std::array<kernels::Table, most_clusters> tables{};
  std::uint32_t first = 0;
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    tables[k] = {first, sizes[k]};
    first += sizes[k];
  }
  return tables;
}

// LSS-SGD: a value is sent as the number of its cluster, the nearest of c clusters on its side of zero. A hash of the
// value's position then chooses a bucket of the cluster's table. The value decodes to the mean of all values in that
// bucket or, if decoded to centres, to the centre of the cluster (1, 2 or 3 bits per value with 1, 2 or 4 clusters per
// side). The message contains the tables or centres, so a decoder needs nothing else. The quantiser remembers the
// clusters of each segment and finds them again every `retrain` steps, or sooner if the centres have become far too
// large for the values.
//
// With `shared`, each rank proposes its clusters, and all ranks take the largest of the proposed numbers. Tables then
// have the same buckets on every rank, and messages can be merged. The tables become their mean, and the symbols of a
// value become counts: how many ranks have each symbol. The sum is decoded once.
class ClusterQuantiser final : public Quantise,
                               public WholeUnits,
                               public AgreedNumbers,
                               public MergedUnits,
                               public PooledUnits {
 public:
  using Options = ClustersOptions;
  explicit ClusterQuantiser(const ClustersOptions& options);

  std::size_t side_bytes(std::size_t values) const override;
  std::size_t max_packed_bytes(std::size_t values) const override;
  std::size_t packed_size(std::span<const std::byte> side, std::size_t values) const override;
  void list_runs(std::span<const std::byte> side, std::size_t values, std::vector<SymbolRun>& runs) const override;
  void reserve(std::optional<std::uint64_t> place, std::size_t values) override;
  bool encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) override;
  void check(const Quantised& in, std::size_t values) const override;
  void add_decoded(const Quantised& in, float scale, std::span<float> out) const override;
  std::size_t agreed_count() const override { return options_.shared ? (shares_out() ? 2 : 1) * clusters() : 0; }
  void propose(std::span<const float> values, std::uint64_t place, std::span<float> numbers) override;
  bool merges() const override { return options_.shared; }
  bool pools() const override { return options_.scope == "bucket"; }
  bool can_merge(std::span<const Quantised> units, std::size_t values) const override;
  void add_merged(std::span<const Quantised> units, float scale, std::span<std::byte> merged,
                  std::span<float> out) const override;
  void visit_state(StateVisitor& visitor) override;
  Contract contract(std::size_t largest) const override;

 private:
  struct Found {
    Clusters clusters;
    std::uint64_t step = 0;  // the step that found them; if shared: how often they were proposed
    bool any() const { return !clusters.centres.empty(); }
  };
  bool goes_raw(std::size_t values) const { return values <= raw_; }
  unsigned width_of(std::size_t values) const { return goes_raw(values) ? 32 : width_; }
  bool hashed() const { return options_.decode == "hash"; }
  bool shares_out() const { return hashed() && table_sizes_.empty(); }  // sizes of tables follow from the values
  std::size_t clusters() const { return 2 * static_cast<std::size_t>(options_.c); }
  PackedSymbols symbols() const { return {width_}; }
  bool has_many_buckets() const { return options_.buckets > 65535; }
  std::size_t size_bytes() const { return has_many_buckets() ? sizeof(std::uint32_t) : sizeof(std::uint16_t); }
  std::size_t sizes_bytes() const { return hashed() ? clusters() * size_bytes() : 0; }  // of all tables
  std::size_t chunks_at_once() const;
  const Clusters* clusters_for(const Values& values);
  const Clusters& agreed_clusters(std::span<const float> numbers);
  bool fit_badly(std::span<const float> centres, std::span<const float> values) const;
  bool encode_hashed(std::span<const float> values, const Clusters& found, std::span<std::byte> side,
                     std::span<std::byte> packed);
  void sum_buckets(std::span<const float> values, const Clusters& found, std::span<std::byte> packed);
  void sum_many_buckets(std::span<const float> values, const Clusters& found, std::span<std::byte> packed);
  bool encode_centred(std::span<const float> values, const Clusters& found, std::span<std::byte> side,
                      std::span<std::byte> packed);
  std::array<std::uint32_t, most_clusters> read_sizes(std::span<const std::byte> side) const;
  void check_tables(std::span<const std::byte> side) const;
  void count(std::span<const Quantised> units, std::size_t begin, std::span<std::uint8_t> counts) const;
  void merge_tables(std::span<const Quantised> units, std::span<std::byte> merged) const;
  static bool are_centres(std::span<const std::byte> centres);
  bool are_clusters(std::span<const float> centres, std::span<const float> sizes) const;

  ClustersOptions options_;
  std::size_t raw_;
  unsigned width_;
  std::vector<std::uint32_t> table_sizes_;  // of the option `tables`
  ClusterTraining training_;
  std::map<std::uint64_t, Found> found_;  // by place
  Found once_;                            // for values without a place
  Clusters agreed_;
  Scratch<kernels::BucketSum> sums_;  // first the sums of the whole unit
};

}  // namespace sotto
