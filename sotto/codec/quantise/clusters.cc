#include "sotto/codec/quantise/clusters.h"

#include <fmt/format.h>

#include <atomic>
#include <bit>
#include <cmath>

#include "sotto/codec/quantise/clusters.h"
#include "sotto/codec/shared_work.h"
#include "sotto/kernels/cast.h"
#include "sotto/kernels/reduce.h"

namespace sotto {

ClusterQuantiser::ClusterQuantiser(const ClustersOptions& options)
    : options_(options),
      raw_(static_cast<std::size_t>(options.raw)),
      width_(static_cast<unsigned>(std::bit_width(2 * static_cast<unsigned>(options.c) - 1))),
      table_sizes_(options.table_sizes()),
      training_(options) {}

std::size_t ClusterQuantiser::side_bytes(std::size_t values) const {
  if (goes_raw(values)) return 0;
  return hashed() ? sizes_bytes() + static_cast<std::size_t>(options_.buckets) * sizeof(float)
                  : clusters() * sizeof(float);
}

std::size_t ClusterQuantiser::max_packed_bytes(std::size_t values) const {
  return std::max(kernels::packed_bytes(values, width_), std::min(values, raw_) * sizeof(float));
}

std::size_t ClusterQuantiser::packed_size(std::span<const std::byte>, std::size_t values) const {
  return kernels::packed_bytes(values, width_of(values));
}

void ClusterQuantiser::list_runs(std::span<const std::byte>, std::size_t values, std::vector<SymbolRun>& runs) const {
  runs.push_back({.width = width_of(values), .count = values});
}

void ClusterQuantiser::reserve(std::optional<std::uint64_t> place, std::size_t values) {
  if (goes_raw(values)) return;
  training_.reserve(values, place ? found_[*place].clusters : once_.clusters);
  if (hashed()) sums_.room((chunks_at_once() + 1) * static_cast<std::size_t>(options_.buckets));
  agreed_.centres.reserve(clusters());
  agreed_.sizes.reserve(clusters());
}

std::size_t ClusterQuantiser::chunks_at_once() const {
  return pool().threads() == 1 || has_many_buckets() ? 1 : 4 * static_cast<std::size_t>(pool().threads());
}

// Returns null if a value is not finite.
const Clusters* ClusterQuantiser::clusters_for(const Values& values) {
  Found& found = values.place ? found_[*values.place] : once_;
  const bool old = !found.any() || !values.place || values.step < found.step ||
                   values.step - found.step >= static_cast<std::uint64_t>(options_.retrain) ||
                   (!hashed() && fit_badly(found.clusters.centres, values.data));
  if (old) {
    if (!training_.train(values.data, values.draws.stream, found.clusters)) return nullptr;
    found.step = values.step;
  }
  return &found.clusters;
}

// Centres of an earlier step may fit much larger values, for example after a spike, and would enlarge small values.
// (The mean of a bucket cannot.) The centres of a gradient of zeros fit no other gradient. Values that are not finite
// are detected later.
bool ClusterQuantiser::fit_badly(std::span<const float> centres, std::span<const float> values) const {
  constexpr double most = 2;  // times the largest value of its side
  std::array<float, 2> ends{values[0], values[0]};
  join_in_order<std::array<float, 2>>(
      pool(), values.size(), kernels::sum_chunk,
      [&](std::size_t begin, std::size_t end) {
        std::array<float, 2> its;
        kernels::interval_blocks(values.subspan(begin, end - begin), end - begin,
                                 std::as_writable_bytes(std::span(its)));
        return its;
      },
      [&](std::size_t, const std::array<float, 2>& its) {
        ends = {std::min(ends[0], its[0]), std::max(ends[1], its[1])};
      });
  const auto [low, high] = ends;
  const bool all_zero = centres.front() == 0 && centres.back() == 0;
  return (all_zero && (low != 0 || high != 0)) || (low <= 0 && centres.front() < most * low) ||
         (high > 0 && centres.back() > most * high);
}

bool ClusterQuantiser::encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) {
  if (goes_raw(values.data.size())) {
    kernels::to_f32(values.data, 1, packed.first(values.data.size_bytes()));
    return kernels::all_finite(values.data);
  }
  const Clusters* found = options_.shared ? &agreed_clusters(values.agreed) : clusters_for(values);
  if (found == nullptr) return false;
  return hashed() ? encode_hashed(values.data, *found, side, packed)
                  : encode_centred(values.data, *found, side, packed);
}

// Sums are computed chunk by chunk, several chunks at once, and joined in order.
void ClusterQuantiser::sum_buckets(std::span<const float> values, const Clusters& found, std::span<std::byte> packed) {
  const Boundaries boundaries(found.centres);
  const auto tables = tables_of(found.sizes);
  const auto buckets = static_cast<std::size_t>(options_.buckets);
  const std::size_t at_once = chunks_at_once() * kernels::sum_chunk;
  const auto sums = sums_.room((chunks_at_once() + 1) * buckets);
  const auto sums_of = [&](std::size_t begin) {
    return sums.subspan((begin % at_once / kernels::sum_chunk + 1) * buckets, buckets);
  };
  const auto total = sums.first(buckets);
  std::ranges::fill(total, kernels::BucketSum{});
  for (std::size_t first = 0; first < values.size(); first += at_once) {
    const std::size_t end_of_some = std::min(first + at_once, values.size());
    pool().run_stretches(end_of_some - first, kernels::sum_chunk, [&](std::size_t begin, std::size_t end) {
      const auto its = sums_of(begin);
      std::ranges::fill(its, kernels::BucketSum{});
      symbols().pack(first + begin, first + end, packed, [&](std::size_t from, std::span<std::uint16_t> out) {
        const auto part = values.subspan(from, out.size());
        kernels::find_clusters(part, boundaries.all(), out);
        kernels::add_to_buckets(part, out, from, tables, its);
      });
    });
    for (std::size_t begin = first; begin < end_of_some; begin += kernels::sum_chunk) {
      const auto its = sums_of(begin);
      for (std::size_t b = 0; b < buckets; ++b) {
        total[b].sum += its[b].sum;
        total[b].count += its[b].count;
      }
    }
  }
}

// The same sums, for chunks that have fewer values than there are buckets. The sum of a chunk waits apart for each
// bucket, and is added to the bucket's sum when a value of another chunk falls into that bucket.
void ClusterQuantiser::sum_many_buckets(std::span<const float> values, const Clusters& found,
                                        std::span<std::byte> packed) {
  const Boundaries boundaries(found.centres);
  const auto tables = tables_of(found.sizes);
  const auto buckets = static_cast<std::size_t>(options_.buckets);
  const auto sums = sums_.room(2 * buckets);
  const auto total = sums.first(buckets);
  const auto waiting = sums.subspan(buckets);  // the sum of a chunk, and the number of that chunk, from 1
  std::ranges::fill(sums, kernels::BucketSum{});
  symbols().pack(0, values.size(), packed, [&](std::size_t from, std::span<std::uint16_t> out) {
    const auto part = values.subspan(from, out.size());
    kernels::find_clusters(part, boundaries.all(), out);
    kernels::add_to_waiting(part, out, from, tables, from / kernels::sum_chunk + 1, total, waiting);
  });
  for (std::size_t b = 0; b < buckets; ++b) total[b].sum += waiting[b].sum;
}

bool ClusterQuantiser::encode_hashed(std::span<const float> values, const Clusters& found, std::span<std::byte> side,
                                     std::span<std::byte> packed) {
  has_many_buckets() ? sum_many_buckets(values, found, packed) : sum_buckets(values, found, packed);
  for (std::size_t k = 0; k < clusters(); ++k) {
    if (has_many_buckets()) {
      kernels::store(side.data(), k, found.sizes[k]);
    } else {
      kernels::store(side.data(), k, static_cast<std::uint16_t>(found.sizes[k]));
    }
  }
  const auto total = sums_.room(static_cast<std::size_t>(options_.buckets));
  const auto means = side.subspan(sizes_bytes());
  bool finite = true;
  for (std::size_t b = 0; b < total.size(); ++b) {
    const double mean = total[b].count > 0 ? total[b].sum / static_cast<double>(total[b].count) : 0;
    finite = finite && std::isfinite(mean);
    kernels::store(means.data(), b, static_cast<float>(mean) + 0.0F);
  }
  return finite;
}

bool ClusterQuantiser::encode_centred(std::span<const float> values, const Clusters& found, std::span<std::byte> side,
                                      std::span<std::byte> packed) {
  const Boundaries boundaries(found.centres);
  std::memcpy(side.data(), found.centres.data(), side.size());
  std::atomic<bool> finite = true;
  pool().run_stretches(values.size(), PackedSymbols::task(pool()), [&](std::size_t begin, std::size_t end) {
    symbols().pack(begin, end, packed, [&](std::size_t from, std::span<std::uint16_t> out) {
      const auto part = values.subspan(from, out.size());
      if (!kernels::all_finite(part)) finite = false;
      kernels::find_clusters(part, boundaries.all(), out);
    });
  });
  return finite;
}

void ClusterQuantiser::visit_state(StateVisitor& visitor) {
  auto count = static_cast<std::uint64_t>(found_.size());
  visitor.visit("clusters_places", count);
  // A StateVisitor that reads replaces the places one by one, and fails at the first that is missing.
  std::map<std::uint64_t, Found> visited;
  auto next = found_.begin();
  for (std::uint64_t i = 0; i < count; ++i) {
    std::uint64_t place = next != found_.end() ? next->first : 0;
    Found found;
    if (next != found_.end()) found = (next++)->second;
    visitor.visit(fmt::format("clusters_place_{}", i), place);
    visitor.visit(fmt::format("clusters_step_{}", i), found.step);
    visitor.visit(fmt::format("clusters_centres_{}", i), found.clusters.centres);
    std::vector<float> sizes(found.clusters.sizes.begin(), found.clusters.sizes.end());
    visitor.visit(fmt::format("clusters_sizes_{}", i), sizes);
    if (!are_clusters(found.clusters.centres, sizes)) {
      throw FileError(fmt::format("clusters_{}: not {} clusters as `{}` finds them", i, clusters(),
                                  record_options("clusters", options_)));
    }
    found.clusters.sizes.assign(sizes.begin(), sizes.end());
    visited[place] = std::move(found);
  }
  found_ = std::move(visited);
}

// Checks that these may be clusters, or none, for a place not yet used.
bool ClusterQuantiser::are_clusters(std::span<const float> centres, std::span<const float> sizes) const {
  if (centres.empty()) return sizes.empty();
  if (centres.size() != clusters() || !are_centres(std::as_bytes(centres))) return false;
  if (!hashed()) return sizes.empty();
  const auto least = static_cast<float>(options_.least);
  const auto most = static_cast<float>(options_.buckets);
  double sum = 0;
  for (const float size : sizes) {
    if (!(size >= least && size <= most && size == std::floor(size))) return false;
    sum += static_cast<double>(size);
  }
  if (!table_sizes_.empty() &&
      !std::ranges::equal(sizes, std::vector<float>(table_sizes_.begin(), table_sizes_.end()))) {
    return false;
  }
  return sizes.size() == clusters() && sum == static_cast<double>(options_.buckets);
}

Contract ClusterQuantiser::contract(std::size_t largest) const {
  Contract contract{.input = Contract::Input::delta, .grain = Contract::Grain::segment};
  if (goes_raw(largest)) return contract;
  if (!options_.shared) contract.chance = Contract::Chance::own;  // centres are found from a random sample
  // The m values of a bucket have one sign, so replacing them by their mean leaves |v|^2 - |v|_1^2 / m <= (1 - 1/m)
  // |v|^2. Centres give no bound, since they may fit the values of an earlier step. Merged means give none either,
  // since they may come from another rank.
  const bool own_means = hashed() && !options_.shared;
  contract.kind = own_means ? Contract::Kind::contraction : Contract::Kind::none;
  contract.delta = own_means ? 1 / static_cast<double>(largest) : 0;
  if (!own_means) contract.omega = std::numeric_limits<double>::infinity();
  return contract;
}

}  // namespace sotto
