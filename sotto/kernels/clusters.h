#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sotto/kernels/sketch.h"

namespace sotto::kernels {

// Loops of quantise/clusters: which cluster a value belongs to, and sums in tables of buckets, one table per cluster.

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

// The same, but a bucket's values of one chunk are summed apart, in waiting[b].sum; waiting[b].count is the number of
// that chunk, which is not 0. The sum is added to buckets[b].sum when a value of another chunk falls into bucket b.
void add_to_waiting(std::span<const float> values, std::span<const std::uint16_t> symbols, std::size_t first,
                    std::span<const Table> tables, std::uint64_t chunk, std::span<BucketSum> buckets,
                    std::span<BucketSum> waiting);

// out[j] += scale * buckets[tables[symbols[j]].bucket(first + j)]. `buckets` holds floats at any alignment.
void add_buckets(std::span<const std::uint16_t> symbols, std::size_t first, std::span<const Table> tables,
                 std::span<const std::byte> buckets, float scale, std::span<float> out);

// out[j] += scale * centres[symbols[j]]. `centres` holds floats at any alignment.
void add_centres(std::span<const std::uint16_t> symbols, std::span<const std::byte> centres, float scale,
                 std::span<float> out);

// Loops that add up messages of quantise/clusters before they are decoded: how many of them have which cluster at each
// value.

// The reverse of pack_bits(), to bytes. REQUIRES width <= 8 and in.size() == packed_bytes(symbols.size(), width).
void unpack_to_bytes(std::span<const std::byte> in, unsigned width, std::span<std::byte> symbols);

// Counts packed symbols; a byte holds m = 8 / width of them. A row has n bytes. counts[(k m + j) n + b] grows by the
// number of rows in which symbol number j of byte b is k, for each k below counts.size() / (m n). Bits after the last
// symbol of a row count as symbols 0. REQUIRES rows of the same size, and a width of 1, 2, 4 or 8.
void count_symbols(std::span<const std::span<const std::byte>> rows, unsigned width, std::span<std::uint8_t> counts);

// Brings such counts into the order of the symbols: ordered[k n + i] is the number of rows in which symbol number i is
// k, where n is now the number of symbols in a row.
void order_counts(std::span<const std::uint8_t> counts, unsigned width, std::size_t clusters,
                  std::span<std::uint8_t> ordered);

// The largest of the packed symbols. REQUIRES width <= 8, in.size() == packed_bytes(symbols, width), and zero bits
// after the last symbol.
std::uint8_t largest_symbol(std::span<const std::byte> in, unsigned width, std::size_t symbols);

// out[j] += scale * (the sum over all k, in order, of counts[k n + j] * centres[k]), where n is the size of `out`.
void add_counted_centres(std::span<const std::uint8_t> counts, std::span<const float> centres, float scale,
                         std::span<float> out);

// The same, where the value of cluster k is buckets[tables[k].bucket(first + j)].
void add_counted_buckets(std::span<const std::uint8_t> counts, std::size_t first, std::span<const Table> tables,
                         std::span<const float> buckets, float scale, std::span<float> out);

}  // namespace sotto::kernels
