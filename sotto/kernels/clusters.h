#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sotto/kernels/hash.h"

// Loops of quantise/clusters: which cluster a value belongs to, and sums in tables of buckets, one table per cluster.
namespace sotto::kernels {

// symbols[i] = the number of boundaries below values[i]; 0 for NaN. REQUIRES 2^w - 1 ascending boundaries, w = 1 .. 9.
void find_clusters(std::span<const float> values, std::span<const float> boundaries, std::span<std::uint16_t> symbols);

// The buckets of one cluster: numbers first .. first + size - 1 of the buckets of all clusters.
struct Table {
  std::uint32_t first = 0;
  std::uint32_t size = 0;

  // The bucket of value number i.
  std::size_t bucket(std::uint64_t i) const {
    return first + place_of(static_cast<std::uint32_t>(hash64(i) >> 32), size);
  }
};

struct BucketSum {
  double sum = 0;
  std::uint64_t count = 0;
};

// buckets[tables[symbols[j]].bucket(first + j)] += values[j], in order.
void add_to_buckets(std::span<const float> values, std::span<const std::uint16_t> symbols, std::size_t first,
                    std::span<const Table> tables, std::span<BucketSum> buckets);

// The same, but what values of one chunk add to a bucket waits, and is added to buckets[b].sum when a value of another
// chunk falls into it: waiting[b] has the sum so far, and as its count the number of its chunk, which is not 0.
void add_to_waiting(std::span<const float> values, std::span<const std::uint16_t> symbols, std::size_t first,
                    std::span<const Table> tables, std::uint64_t chunk, std::span<BucketSum> buckets,
                    std::span<BucketSum> waiting);

// out[j] += scale * buckets[tables[symbols[j]].bucket(first + j)]. `buckets` holds floats at any alignment.
void add_buckets(std::span<const std::uint16_t> symbols, std::size_t first, std::span<const Table> tables,
                 std::span<const std::byte> buckets, float scale, std::span<float> out);

// out[j] += scale * centres[symbols[j]]. `centres` holds floats at any alignment.
void add_centres(std::span<const std::uint16_t> symbols, std::span<const std::byte> centres, float scale,
                 std::span<float> out);

}  // namespace sotto::kernels
