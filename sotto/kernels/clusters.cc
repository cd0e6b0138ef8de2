#include "sotto/kernels/clusters.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sotto/kernels/clusters.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h:
#include <algorithm>
#include <array>

#include "sotto/kernels/bits.h"
#include "sotto/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sotto::kernels {
namespace HWY_NAMESPACE {

// Binary search over the 2^w possible symbols.
void find_clusters(std::span<const float> values, std::span<const float> boundaries, std::span<std::uint16_t> symbols) {
  const auto most = static_cast<std::uint32_t>(boundaries.size() + 1) / 2;
  std::size_t i = 0;
  for (; i + lanes <= values.size(); i += lanes) {
    const VF value = load_floats(&values[i]);
    VI place = hn::Zero(I32());
    for (std::uint32_t half = most; half > 0; half /= 2) {
      const VI step = hn::Set(I32(), static_cast<std::int32_t>(half));
      const VI middle = hn::Add(place, hn::Sub(step, hn::Set(I32(), 1)));
      const VF boundary = hn::GatherIndex(F32(), boundaries.data(), middle);
      place = hn::Add(place, hn::IfThenElseZero(hn::RebindMask(I32(), hn::Gt(value, boundary)), step));
    }
    hn::StoreU(hn::DemoteTo(U16(), place), U16(), &symbols[i]);
  }
  for (; i < values.size(); ++i) {
    std::uint32_t place = 0;
    for (std::uint32_t half = most; half > 0; half /= 2) {
      if (values[i] > boundaries[place + half - 1]) place += half;
    }
    symbols[i] = static_cast<std::uint16_t>(place);
  }
}

// These loops are plain C++, written to become SIMD.

constexpr std::size_t chunk = 512;  // values

void unpack_to_bytes(std::span<const std::byte> in, unsigned width, std::span<std::byte> symbols) {
  std::array<std::uint16_t, chunk> wide;
  for (std::size_t i = 0; i < symbols.size(); i += chunk) {
    const auto some = std::span(wide).first(std::min(chunk, symbols.size() - i));
    kernels::unpack_bits(in.subspan(i / 8 * width, packed_bytes(some.size(), width)), width, some);
    std::byte* HWY_RESTRICT const out = &symbols[i];
    for (std::size_t j = 0; j < some.size(); ++j) out[j] = static_cast<std::byte>(wide[j]);
  }
}

std::uint8_t largest_symbol(std::span<const std::byte> in, unsigned width, std::size_t symbols) {
  std::uint8_t largest = 0;
  const auto largest_of = [](std::span<const std::byte> bytes, unsigned mask) {
    std::byte most{0};
    for (const std::byte byte : bytes) most = std::max(most, byte & static_cast<std::byte>(mask));
    return std::to_integer<std::uint8_t>(most);
  };
  if (8 % width == 0) {
    for (unsigned shift = 0; shift < 8; shift += width) {
      const unsigned mask = ((1U << width) - 1) << shift;
      largest = std::max(largest, static_cast<std::uint8_t>(largest_of(in, mask) >> shift));
    }
    return largest;
  }
  std::array<std::byte, chunk> room;
  for (std::size_t i = 0; i < symbols; i += chunk) {
    const auto some = std::span(room).first(std::min(chunk, symbols - i));
    unpack_to_bytes(in.subspan(i / 8 * width, packed_bytes(some.size(), width)), width, some);
    largest = std::max(largest, largest_of(some, 255));
  }
  return largest;
}

HWY_INLINE std::uint8_t is(std::uint8_t masked, std::uint8_t wanted) { return masked == wanted ? 1 : 0; }

void count_symbols(std::span<const std::span<const std::byte>> rows, unsigned width, std::span<std::uint8_t> counts) {
  const std::size_t n = rows[0].size();
  const unsigned each = 8 / width;
  const auto row = [&](std::size_t r) { return reinterpret_cast<const std::uint8_t*>(rows[r].data()); };
  for (std::size_t plane = 0; n > 0 && plane < counts.size() / n; ++plane) {
    const unsigned shift = plane % each * width;
    const auto mask = static_cast<std::uint8_t>(((1U << width) - 1) << shift);
    const auto wanted = static_cast<std::uint8_t>(plane / each << shift);
    std::uint8_t* HWY_RESTRICT const its = &counts[plane * n];
    std::size_t r = 0;
    for (; r + 4 <= rows.size(); r += 4) {
      const std::uint8_t* HWY_RESTRICT const a = row(r);
      const std::uint8_t* HWY_RESTRICT const b = row(r + 1);
      const std::uint8_t* HWY_RESTRICT const c = row(r + 2);
      const std::uint8_t* HWY_RESTRICT const d = row(r + 3);
      for (std::size_t i = 0; i < n; ++i) {
        its[i] = static_cast<std::uint8_t>(its[i] + is(a[i] & mask, wanted) + is(b[i] & mask, wanted) +
                                           is(c[i] & mask, wanted) + is(d[i] & mask, wanted));
      }
    }
    for (; r < rows.size(); ++r) {
      const std::uint8_t* HWY_RESTRICT const a = row(r);
      for (std::size_t i = 0; i < n; ++i) its[i] = static_cast<std::uint8_t>(its[i] + is(a[i] & mask, wanted));
    }
  }
}

template <std::size_t each>
void order_plane(const std::uint8_t* HWY_RESTRICT counts, std::size_t bytes, std::span<std::uint8_t> out) {
  std::uint8_t* HWY_RESTRICT const to = out.data();
  const std::size_t whole = out.size() / each;
  for (std::size_t b = 0; b < whole; ++b) {
    for (std::size_t j = 0; j < each; ++j) to[b * each + j] = counts[j * bytes + b];
  }
  for (std::size_t i = whole * each; i < out.size(); ++i) to[i] = counts[i % each * bytes + i / each];
}

void order_counts(std::span<const std::uint8_t> counts, unsigned width, std::size_t clusters,
                  std::span<std::uint8_t> ordered) {
  const std::size_t n = ordered.size() / clusters;
  const std::size_t bytes = packed_bytes(n, width);
  for (std::size_t k = 0; k < clusters; ++k) {
    const std::uint8_t* const from = counts.data() + k * (8 / width) * bytes;
    const auto to = ordered.subspan(k * n, n);
    switch (width) {
      case 1: order_plane<8>(from, bytes, to); break;
      case 2: order_plane<4>(from, bytes, to); break;
      case 4: order_plane<2>(from, bytes, to); break;
      default: order_plane<1>(from, bytes, to); break;
    }
  }
}

HWY_INLINE void finish(const float* HWY_RESTRICT sums, float scale, std::span<float> out) {
  for (std::size_t j = 0; j < out.size(); ++j) out[j] += scale * sums[j];
}

void add_counted_centres(std::span<const std::uint8_t> counts, std::span<const float> centres, float scale,
                         std::span<float> out) {
  const std::size_t n = out.size();
  std::array<float, chunk> sums;
  for (std::size_t from = 0; from < n; from += chunk) {
    const std::size_t some = std::min(chunk, n - from);
    std::fill_n(sums.begin(), some, 0.0F);
    for (std::size_t k = 0; k < counts.size() / n; ++k) {
      const auto centre = centres[k];
      const std::uint8_t* const its = &counts[k * n + from];
      for (std::size_t j = 0; j < some; ++j) sums[j] += static_cast<float>(its[j]) * centre;
    }
    finish(sums.data(), scale, out.subspan(from, some));
  }
}

// The upper halves of the products of 32 bits each.
HWY_INLINE VU upper_products(VU a, VU b) {
  const hn::Repartition<std::uint64_t, U32> pairs;
  const auto odd = [&](VU v) { return hn::BitCast(U32(), hn::ShiftRight<32>(hn::BitCast(pairs, v))); };
  const auto even_products = hn::ShiftRight<32>(hn::MulEven(a, b));
  const auto odd_products = hn::And(hn::MulEven(odd(a), odd(b)), hn::Set(pairs, 0xFFFFFFFF00000000ULL));
  return hn::BitCast(U32(), hn::Or(even_products, odd_products));
}

void add_counted_buckets(std::span<const std::uint8_t> counts, std::size_t first, std::span<const Table> tables,
                         std::span<const float> buckets, float scale, std::span<float> out) {
  const std::size_t n = out.size();
  std::array<float, chunk> sums;
  std::array<std::uint32_t, chunk> hashes;
  for (std::size_t from = 0; from < n; from += chunk) {
    const std::size_t some = std::min(chunk, n - from);
    std::fill_n(sums.begin(), some, 0.0F);
    for (std::size_t j = 0; j < some; ++j) hashes[j] = static_cast<std::uint32_t>(hash64(first + from + j) >> 32);
    for (std::size_t k = 0; k < counts.size() / n; ++k) {
      const Table table = tables[k];
      const std::uint8_t* const its = &counts[k * n + from];
      std::size_t j = 0;
      for (; j + lanes <= some; j += lanes) {
        const VU place = upper_products(hn::LoadU(U32(), &hashes[j]), set_bits(table.size));
        const VF mean = hn::GatherIndex(F32(), &buckets[table.first], hn::BitCast(I32(), place));
        const VF count = hn::ConvertTo(F32(), hn::PromoteTo(I32(), hn::LoadU(U8(), its + j)));
        hn::StoreU(hn::Add(hn::LoadU(F32(), &sums[j]), hn::Mul(count, mean)), F32(), &sums[j]);
      }
      for (; j < some; ++j) {
        sums[j] += static_cast<float>(its[j]) * buckets[table.first + place_of(hashes[j], table.size)];
      }
    }
    finish(sums.data(), scale, out.subspan(from, some));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace sotto::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sotto::kernels {

HWY_EXPORT(find_clusters);

void find_clusters(std::span<const float> values, std::span<const float> boundaries, std::span<std::uint16_t> symbols) {
  HWY_DYNAMIC_DISPATCH(find_clusters)(values, boundaries, symbols);
}

void add_to_buckets(std::span<const float> values, std::span<const std::uint16_t> symbols, std::size_t first,
                    std::span<const Table> tables, std::span<BucketSum> buckets) {
  for (std::size_t j = 0; j < values.size(); ++j) {
    BucketSum& bucket = buckets[tables[symbols[j]].bucket(first + j)];
    bucket.sum += static_cast<double>(values[j]);
    ++bucket.count;
  }
}

void add_to_waiting(std::span<const float> values, std::span<const std::uint16_t> symbols, std::size_t first,
                    std::span<const Table> tables, std::uint64_t chunk, std::span<BucketSum> buckets,
                    std::span<BucketSum> waiting) {
  for (std::size_t j = 0; j < values.size(); ++j) {
    const std::size_t b = tables[symbols[j]].bucket(first + j);
    if (waiting[b].count != chunk) {
      buckets[b].sum += waiting[b].sum;
      waiting[b] = {0, chunk};
    }
    waiting[b].sum += static_cast<double>(values[j]);
    ++buckets[b].count;
  }
}

void add_buckets(std::span<const std::uint16_t> symbols, std::size_t first, std::span<const Table> tables,
                 std::span<const std::byte> buckets, float scale, std::span<float> out) {
  for (std::size_t j = 0; j < out.size(); ++j) {
    out[j] += scale * load<float>(buckets.data(), tables[symbols[j]].bucket(first + j));
  }
}

void add_centres(std::span<const std::uint16_t> symbols, std::span<const std::byte> centres, float scale,
                 std::span<float> out) {
  for (std::size_t j = 0; j < out.size(); ++j) out[j] += scale * load<float>(centres.data(), symbols[j]);
}

HWY_EXPORT(unpack_to_bytes);
HWY_EXPORT(largest_symbol);
HWY_EXPORT(count_symbols);
HWY_EXPORT(order_counts);
HWY_EXPORT(add_counted_centres);
HWY_EXPORT(add_counted_buckets);

void unpack_to_bytes(std::span<const std::byte> in, unsigned width, std::span<std::byte> symbols) {
  HWY_DYNAMIC_DISPATCH(unpack_to_bytes)(in, width, symbols);
}
std::uint8_t largest_symbol(std::span<const std::byte> in, unsigned width, std::size_t symbols) {
  return HWY_DYNAMIC_DISPATCH(largest_symbol)(in, width, symbols);
}
void count_symbols(std::span<const std::span<const std::byte>> rows, unsigned width, std::span<std::uint8_t> counts) {
  HWY_DYNAMIC_DISPATCH(count_symbols)(rows, width, counts);
}
void order_counts(std::span<const std::uint8_t> counts, unsigned width, std::size_t clusters,
                  std::span<std::uint8_t> ordered) {
  HWY_DYNAMIC_DISPATCH(order_counts)(counts, width, clusters, ordered);
}
void add_counted_centres(std::span<const std::uint8_t> counts, std::span<const float> centres, float scale,
                         std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(add_counted_centres)(counts, centres, scale, out);
}
void add_counted_buckets(std::span<const std::uint8_t> counts, std::size_t first, std::span<const Table> tables,
                         std::span<const float> buckets, float scale, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(add_counted_buckets)(counts, first, tables, buckets, scale, out);
}

}  // namespace sotto::kernels
#endif
