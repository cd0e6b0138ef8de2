#include "sotto/codec/quantise/quantile.h"

#include <bit>
#include <cmath>

#include "sotto/codec/quantise/packed_symbols.h"
#include "sotto/codec/shared_work.h"
#include "sotto/kernels/bits.h"
#include "sotto/kernels/element.h"

namespace sotto {
namespace {

kernels::Extremes extremes_of(ThreadPool& pool, std::span<const float> values) {
  kernels::Extremes all;
  join_in_order<kernels::Extremes>(
      pool, values.size(), task_size(values.size(), pool.grain()),
      [&](std::size_t begin, std::size_t end) { return kernels::extremes(values.subspan(begin, end - begin)); },
      [&](std::size_t, const kernels::Extremes& some) { all = join(all, some); });
  return all;
}

// The middle of two magnitudes.
float middle(std::uint32_t low, std::uint32_t high) {
  const auto from = std::bit_cast<float>(low);
  return from + (std::bit_cast<float>(high) - from) * 0.5F;
}

// The bins found so far: their splits (kernels/bins.h) and values, in order.
struct Found {
  explicit Found(std::span<std::byte> bytes) : side(bytes) {}
  std::array<std::uint32_t, kernels::most_bins> splits{};
  std::size_t count = 0;
  std::span<std::byte> side;

  void add(std::uint32_t split, float value) {
    kernels::store(side.data(), count, value);
    splits[count++] = split;
  }
};

// Adds up to `most` bins of one sign; `keys` are a sorted sample of its values. The first key of each equal share
// begins a bin. If it equals the key before, the next larger key begins the bin.
void add_side(std::span<const std::uint32_t> keys, std::uint32_t sign, const kernels::Extremes::Side& side,
              std::size_t most, Found& found) {
  const auto value = [sign](float magnitude) { return sign != 0 ? -magnitude : magnitude; };
  std::uint32_t split = sign + 1;
  std::uint32_t low = side.least;  // smallest magnitude of the current bin
  std::size_t first = 0;
  for (std::size_t j = 1; j < most && !keys.empty(); ++j) {
    std::size_t next = j * keys.size() / most;
    if (next <= first) continue;
    if (keys[next] == keys[next - 1]) {
      next = static_cast<std::size_t>(
          std::upper_bound(keys.begin() + static_cast<std::ptrdiff_t>(next), keys.end(), keys[next]) - keys.begin());
    }
    if (next == keys.size()) break;
    const std::uint32_t last = keys[next - 1] - sign;  // of this bin; `begin` is of the next
    const std::uint32_t begin = keys[next] - sign;
    found.add(split, value(middle(low, last)));
    const auto between = std::bit_cast<std::uint32_t>(middle(last, begin));
    split = sign + (between > last ? between : begin);
    low = begin;
    first = next;
  }
  found.add(split, value(middle(low, side.most)));
}

}  // namespace

Quantile::Quantile(const QuantileOptions& options)
    : options_(options), width_(static_cast<unsigned>(std::bit_width(most_bins() - 1))) {}

std::size_t Quantile::side_bytes(std::size_t values) const { return std::min(values, most_bins() - 1) * sizeof(float); }

bool Quantile::find(ThreadPool& pool, std::span<const float> values, std::span<std::byte> side) {
  const kernels::Extremes extremes = extremes_of(pool, values);
  if (std::max(extremes.positive.most, extremes.negative.most) >= kernels::infinity_bits) return false;
  std::ranges::fill(side, std::byte{0});
  const auto keys = sample_.take(pool, values);
  const auto positive =
      static_cast<std::size_t>(std::ranges::lower_bound(keys, kernels::element::sign_mask) - keys.begin());
  const std::size_t all = keys.size();
  // Each sign has its share of the bins, and at least one if it has any value.
  const std::size_t bins = most_bins() - 1;
  std::size_t share = all > 0 ? (2 * bins * positive + all) / (2 * all) : bins / 2;
  if (extremes.positive.most > 0 && extremes.negative.most > 0) share = std::clamp<std::size_t>(share, 1, bins - 1);
  Found found(side);
  if (extremes.positive.most > 0) add_side(keys.first(positive), 0, extremes.positive, share, found);
  if (extremes.negative.most > 0)
    add_side(keys.subspan(positive), kernels::element::sign_mask, extremes.negative, bins - share, found);
  search_.set(std::span(found.splits).first(found.count), values.size());
  return true;
}

bool Quantile::encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) {
  if (!find(pool(), values.data, side)) return false;
  pool().run_stretches(values.data.size(), kernels::sum_chunk, [&](std::size_t begin, std::size_t end) {
    PackedSymbols{width_}.pack(begin, end, packed, [&](std::size_t from, std::span<std::uint16_t> bins) {
      search_.find(values.data.subspan(from, bins.size()), bins);
    });
  });
  return true;
}

void Quantile::check(const Quantised& in, std::size_t values) const {
  check_bins(in.side);
  const std::size_t count = BinValues(in.side).count();
  if (count == std::size_t{1} << width_) return;
  PackedSymbols{width_}.unpack(0, values, in.packed, [&](std::size_t, std::span<const std::uint16_t> bins) {
    if (*std::ranges::max_element(bins) >= count) throw WireError("quantile: a bin that has no value");
  });
}

void Quantile::add_decoded(const Quantised& in, float scale, std::span<float> out) const {
  BinValues terms(in.side);
  for (float& value : terms.values) value *= scale;
  PackedSymbols{width_}.unpack(0, out.size(), in.packed, [&](std::size_t from, std::span<const std::uint16_t> bins) {
    kernels::add_terms(bins, terms.values.data(), out.subspan(from, bins.size()));
  });
}

Contract Quantile::contract(std::size_t) const {
  return {.kind = Contract::Kind::none, .omega = INFINITY, .delta = 0, .grain = Contract::Grain::segment};
}

}  // namespace sotto
