#include "sotto/codec/quantise/clusters.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "sotto/codec/quantise/clusters.h"
#include "sotto/kernels/cast.h"

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

namespace {

constexpr std::size_t most_merged = 16;    // clusters: c <= 8
constexpr std::size_t most_counted = 252;  // messages whose number a byte holds
constexpr std::size_t at_once = 4;         // messages that are counted in one go; most_counted is a multiple

}  // namespace

// The numbers of a segment are the magnitudes of its centres. If the sizes of tables follow from the values, these
// sizes less `least` come after them. A rank proposes its clusters `retrain` times before it finds new ones. There is
// no Key here, so all samples are drawn with the same random numbers.
void ClusterQuantiser::propose(std::span<const float> values, std::uint64_t place, std::span<float> numbers) {
  std::ranges::fill(numbers, 0.0F);
  if (goes_raw(values.size())) return;
  reserve(place, values.size());
  Found& found = found_[place];
  if (!found.any() || found.step >= static_cast<std::uint64_t>(options_.retrain) ||
      (!hashed() && fit_badly(found.clusters.centres, values))) {
    if (training_.train(values, element_stream(0, Purpose::quantise, 0, 0, 0), found.clusters)) found.step = 0;
  }
  if (!found.any()) return;
  ++found.step;
  const auto least = static_cast<std::uint32_t>(options_.least);
  for (std::size_t k = 0; k < clusters(); ++k) {
    numbers[k] = std::abs(found.clusters.centres[k]);
    if (shares_out()) numbers[clusters() + k] = static_cast<float>(found.clusters.sizes[k] - least);
  }
}

// Makes clusters of the agreed numbers, the largest over all ranks. The magnitudes of the centres ascend from zero on
// either side, whatever these numbers are.
const Clusters& ClusterQuantiser::agreed_clusters(std::span<const float> numbers) {
  const std::size_t c = clusters() / 2;
  agreed_.centres.resize(clusters());
  float others = 0;
  float positive = 0;
  for (std::size_t j = 0; j < c; ++j) {
    others = std::max(others, numbers[c - 1 - j]);
    positive = std::max(positive, numbers[c + j]);
    agreed_.centres[c - 1 - j] = 0.0F - others;
    agreed_.centres[c + j] = positive;
  }
  agreed_.sizes = table_sizes_;
  if (!shares_out()) return agreed_;
  std::array<double, most_merged> weights;
  for (std::size_t k = 0; k < clusters(); ++k) weights[k] = std::max(numbers[clusters() + k], 0.0F);
  agreed_.sizes.resize(clusters());
  share_out(static_cast<std::size_t>(options_.buckets), static_cast<std::size_t>(options_.least),
            std::span(weights).first(clusters()), agreed_.sizes);
  return agreed_;
}

// Units can be merged if they have the same centres, or tables of the same sizes.
bool ClusterQuantiser::can_merge(std::span<const Quantised> units, std::size_t values) const {
  if (goes_raw(values)) return true;
  const auto facts = [&](const Quantised& unit) { return hashed() ? unit.side.first(sizes_bytes()) : unit.side; };
  return std::ranges::all_of(
      units, [&](const Quantised& unit) { return std::ranges::equal(facts(unit), facts(units.front())); });
}

// A bucket of the merged table gets the mean of those units' means that are not 0: a bucket without values has the mean
// 0.
void ClusterQuantiser::merge_tables(std::span<const Quantised> units, std::span<std::byte> merged) const {
  std::ranges::copy(units.front().side, merged.begin());
  if (!hashed()) return;
  const auto means = merged.subspan(sizes_bytes());
  for (std::size_t b = 0; b < static_cast<std::size_t>(options_.buckets); ++b) {
    double sum = 0;
    std::size_t count = 0;
    for (const Quantised& unit : units) {
      const auto mean = kernels::load<float>(unit.side.data() + sizes_bytes(), b);
      sum += static_cast<double>(mean);
      count += mean != 0 ? 1 : 0;
    }
    kernels::store(means.data(), b, count > 0 ? static_cast<float>(sum / static_cast<double>(count)) + 0.0F : 0.0F);
  }
}

void ClusterQuantiser::add_merged(std::span<const Quantised> units, float scale, std::span<std::byte> merged,
                                  std::span<float> out) const {
  if (goes_raw(out.size())) {
    for (const Quantised& unit : units) add_decoded(unit, scale, out);
    return;
  }
  merge_tables(units, merged);
  const auto tables = tables_of(read_sizes(merged));
  const auto floats = merged.subspan(sizes_bytes());  // aligned: side information begins in a separate buffer
  const std::span means(reinterpret_cast<const float*>(floats.data()), floats.size() / sizeof(float));
  pool().run_stretches(out.size(), PackedSymbols::task(pool()), [&](std::size_t begin, std::size_t end) {
    std::array<std::uint8_t, most_merged * PackedSymbols::block> room;
    for (; begin < end; begin += PackedSymbols::block) {
      const auto target = out.subspan(begin, std::min(PackedSymbols::block, end - begin));
      const auto counts = std::span(room).first(clusters() * target.size());
      for (std::size_t first = 0; first < units.size(); first += most_counted) {
        count(units.subspan(first, std::min(most_counted, units.size() - first)), begin, counts);
        if (hashed()) {
          kernels::add_counted_buckets(counts, begin, tables, means, scale, target);
        } else {
          kernels::add_counted_centres(counts, means, scale, target);
        }
      }
    }
  });
}

// counts[k n + i] = the number of units in which value begin + i has cluster k, for a block of n values.
void ClusterQuantiser::count(std::span<const Quantised> units, std::size_t begin,
                             std::span<std::uint8_t> counts) const {
  const std::size_t n = counts.size() / clusters();
  const bool as_packed = 8 % width_ == 0;  // no symbol crosses a byte
  const unsigned width = as_packed ? width_ : 8;
  std::array<std::array<std::byte, PackedSymbols::block>, at_once> unpacked;
  std::array<std::uint8_t, most_merged * PackedSymbols::block> room;
  const auto unordered = std::span(room).first(clusters() * (8 / width) * kernels::packed_bytes(n, width));
  std::ranges::fill(unordered, std::uint8_t{0});
  for (std::size_t first = 0; first < units.size(); first += at_once) {
    const auto some = units.subspan(first, std::min(at_once, units.size() - first));
    std::array<std::span<const std::byte>, at_once> rows;
    for (std::size_t r = 0; r < some.size(); ++r) {
      rows[r] = some[r].packed.subspan(begin / 8 * width_, kernels::packed_bytes(n, width_));
      if (as_packed) continue;
      const auto bytes = std::span(unpacked[r]).first(n);
      kernels::unpack_to_bytes(rows[r], width_, bytes);
      rows[r] = bytes;
    }
    kernels::count_symbols(std::span(rows).first(some.size()), width, unordered);
  }
  kernels::order_counts(unordered, width, clusters(), counts);
}

}  // namespace sotto
