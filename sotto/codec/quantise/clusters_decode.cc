#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "sotto/codec/quantise/cluster_tables.h"
#include "sotto/codec/quantise/clusters.h"
#include "sotto/core/error.h"
#include "sotto/kernels/bits.h"
#include "sotto/kernels/cast.h"
#include "sotto/kernels/cluster_counts.h"
#include "sotto/kernels/load.h"

namespace sotto {
namespace {

// Whether a mean or centre has the sign of its side, or is +0.
bool is_of_side(float value, bool positive) {
  if (std::bit_cast<std::uint32_t>(value) == 0) return true;
  return std::isfinite(value) && (positive ? value > 0 : value < 0);
}

}  // namespace

std::array<std::uint32_t, most_clusters> ClusterQuantiser::read_sizes(std::span<const std::byte> side) const {
  std::array<std::uint32_t, most_clusters> sizes{};
  for (std::size_t k = 0; k < sizes_bytes() / size_bytes(); ++k) {
    sizes[k] = has_many_buckets() ? kernels::load<std::uint32_t>(side.data(), k)
                                  : kernels::load<std::uint16_t>(side.data(), k);
  }
  return sizes;
}

void ClusterQuantiser::check_tables(std::span<const std::byte> side) const {
  const auto sizes = read_sizes(side);
  if (!table_sizes_.empty() && !std::ranges::equal(table_sizes_, std::span(sizes).first(clusters()))) {
    throw WireError("clusters: tables of other sizes than this codec has");
  }
  const auto means = side.subspan(sizes_bytes());
  std::size_t bucket = 0;
  for (std::size_t k = 0; k < clusters(); ++k) {
    const std::size_t end = bucket + std::size_t{sizes[k]};
    if (sizes[k] < options_.least || end > static_cast<std::size_t>(options_.buckets)) {
      throw WireError(fmt::format("clusters: a table of {} buckets, where each has {} or more, and all have {}",
                                  sizes[k], options_.least, options_.buckets));
    }
    for (; bucket < end; ++bucket) {
      if (!is_of_side(kernels::load<float>(means.data(), bucket), k >= clusters() / 2)) {
        throw WireError("clusters: the mean of a bucket is not finite, or not of its cluster's side");
      }
    }
  }
  if (bucket != static_cast<std::size_t>(options_.buckets)) {
    throw WireError(fmt::format("clusters: tables of {} buckets, where all have {}", bucket, options_.buckets));
  }
}

bool ClusterQuantiser::are_centres(std::span<const std::byte> centres) {
  const std::size_t count = centres.size() / sizeof(float);
  for (std::size_t k = 0; k < count; ++k) {
    const auto centre = kernels::load<float>(centres.data(), k);
    if (!is_of_side(centre, k >= count / 2)) return false;
    if (k > 0 && centre < kernels::load<float>(centres.data(), k - 1)) return false;
  }
  return true;
}

void ClusterQuantiser::check(const Quantised& in, std::size_t values) const {
  if (goes_raw(values)) {
    if (!kernels::all_finite_f32(in.packed)) throw WireError("clusters: a value that is not finite");
    return;
  }
  if (!kernels::tail_is_zero(in.packed, values * width_)) {
    throw WireError("clusters: bits after the last symbol of a segment that are not zero");
  }
  if (hashed()) {
    check_tables(in.side);
  } else if (!are_centres(in.side)) {
    throw WireError("clusters: centres that do not ascend, or are not finite, or not of their side");
  }
  if (clusters() == std::size_t{1} << width_) return;
  pool().run_stretches(values, PackedSymbols::task(pool()), [&](std::size_t begin, std::size_t end) {
    const auto some = in.packed.subspan(begin / 8 * width_, kernels::packed_bytes(end - begin, width_));
    std::size_t largest = 0;
    if (width_ <= 8) {
      largest = kernels::largest_symbol(some, width_, end - begin);
    } else {
      symbols().unpack(begin, end, in.packed, [&](std::size_t, std::span<const std::uint16_t> all) {
        largest = std::max<std::size_t>(largest, *std::ranges::max_element(all));
      });
    }
    if (largest >= clusters()) throw WireError(fmt::format("cluster {} of {}", largest, clusters()));
  });
}

void ClusterQuantiser::add_decoded(const Quantised& in, float scale, std::span<float> out) const {
  if (goes_raw(out.size())) return kernels::add_f32(in.packed, scale, out);
  const auto tables = tables_of(read_sizes(in.side));
  const auto means = in.side.subspan(sizes_bytes());
  const PackedSymbols all = symbols();
  pool().run_stretches(out.size(), PackedSymbols::task(pool()), [&](std::size_t begin, std::size_t end) {
    all.unpack(begin, end, in.packed, [&](std::size_t from, std::span<const std::uint16_t> symbols) {
      const auto target = out.subspan(from, symbols.size());
      if (hashed()) {
        kernels::add_buckets(symbols, from, tables, means, scale, target);
      } else {
        kernels::add_centres(symbols, means, scale, target);
      }
    });
  });
}

}  // namespace sotto
