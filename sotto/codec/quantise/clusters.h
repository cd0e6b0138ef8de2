#pragma once

#include <map>

#include "sotto/codec/quantise/cluster_tables.h"
#include "sotto/codec/quantise/cluster_training.h"
#include "sotto/codec/quantise/packed_symbols.h"
#include "sotto/codec/stage.h"

namespace sotto {

// LSS-SGD: a value is sent as its cluster, the nearest of c on its side of zero. A hash of the value's position then
// finds a bucket of the cluster's table. The value decodes to the mean of all values in that bucket or, if decoded to
// centres, to the centre of the cluster (1, 2 or 3 bits per value with 1, 2 or 4 clusters per side). The message
// contains the tables or centres, so a decoder needs nothing else. The quantiser remembers the clusters of each segment
// and finds them anew every `retrain` steps, or sooner if the centres have become far too large for the values.
class ClusterQuantiser final : public Quantise, public WholeUnits {
 public:
  using Options = ClustersOptions;
  explicit ClusterQuantiser(const ClustersOptions& options);

  std::size_t side_bytes(std::size_t values) const override;
  std::size_t max_packed_bytes(std::size_t values) const override;
  std::size_t packed_size(std::span<const std::byte> side, std::size_t values) const override;
  void list_runs(std::span<const std::byte> side, std::size_t values, std::vector<SymbolRun>& runs) const override;
  void reserve(std::optional<std::uint64_t> place, std::size_t values) override;
  bool encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) override;
  void check(std::span<const std::byte> side, std::span<const std::byte> packed, std::size_t values) const override;
  void add_decoded(std::span<const std::byte> side, std::span<const std::byte> packed, float scale,
                   std::span<float> out) const override;
  void visit_state(StateVisitor& visitor) override;
  Contract contract(std::size_t largest) const override;

 private:
  struct Found {  // clusters, and the step in which they were found
    Clusters clusters;
    std::uint64_t step = 0;
    bool any() const { return !clusters.centres.empty(); }
  };
  bool goes_raw(std::size_t values) const { return values <= raw_; }
  unsigned width_of(std::size_t values) const { return goes_raw(values) ? 32 : width_; }
  bool hashed() const { return options_.decode == "hash"; }
  std::size_t clusters() const { return 2 * static_cast<std::size_t>(options_.c); }
  PackedSymbols symbols() const { return {width_}; }
  std::size_t chunks_at_once() const;
  const Clusters* clusters_for(const Values& values);
  bool reach_too_far(std::span<const float> centres, std::span<const float> values) const;
  bool encode_hashed(std::span<const float> values, const Clusters& found, std::span<std::byte> side,
                     std::span<std::byte> packed);
  bool encode_centred(std::span<const float> values, const Clusters& found, std::span<std::byte> side,
                      std::span<std::byte> packed);
  void check_tables(std::span<const std::byte> side) const;
  static bool are_centres(std::span<const std::byte> centres);
  bool are_clusters(std::span<const float> centres, std::span<const float> sizes) const;

  ClustersOptions options_;
  std::size_t raw_;
  unsigned width_;
  ClusterTraining training_;
  std::map<std::uint64_t, Found> found_;  // by place
  Found once_;                            // for values without a place
  Scratch<kernels::BucketSum> sums_;
};

}  // namespace sotto
