#include "sotto/codec/quantise/terngrad.h"

#include "sotto/codec/shared_work.h"

namespace sotto {
namespace {

constexpr std::size_t trit_chunk = 6 * kernels::trit_group;  // values that are read twice while in the cache
constexpr unsigned top = 1;
// If the variance of values is a smaller share of their mean square than this, they are clipped by their root mean
// square. Clipped by their deviation, all of them would lose most of their magnitude.
constexpr double least_variance = 0.04;

}  // namespace

// Returns nothing if a value is not finite.
std::optional<float> TernGrad::scale_of(std::span<const float> values) const {
  kernels::Moments all;
  if (options_.clip == 0) {
    all.max_abs_bits = largest_magnitude(pool(), values);
  } else {
    join_in_order<kernels::Moments>(
        pool(), values.size(), kernels::sum_chunk,
        [&](std::size_t begin, std::size_t end) { return kernels::moments(values.subspan(begin, end - begin)); },
        [&](std::size_t, const kernels::Moments& chunk) {
          all.sum += chunk.sum;
          all.squares += chunk.squares;
          all.max_abs_bits = std::max(all.max_abs_bits, chunk.max_abs_bits);
        });
  }
  if (all.max_abs_bits >= kernels::infinity_bits) return std::nullopt;
  const auto most = std::bit_cast<float>(all.max_abs_bits);
  if (options_.clip == 0 || values.empty()) return most;
  const auto count = static_cast<double>(values.size());
  const double mean = all.sum / count;
  const double square = all.squares / count;
  const double variance = square - mean * mean;
  const bool alike = variance < least_variance * square;
  return static_cast<float>(std::min<double>(most, options_.clip * std::sqrt(alike ? square : variance)));
}

void TernGrad::propose(std::span<const float> values, std::uint64_t /*place*/, std::span<float> numbers) {
  numbers[0] = scale_of(values).value_or(0.0F);
}

bool TernGrad::encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) {
  const std::size_t count = values.data.size();
  if (count == 0) return true;
  float scale = 0;
  if (options_.shared) {
    if (largest_magnitude(pool(), values.data) >= kernels::infinity_bits) return false;
    scale = std::max(values.agreed[0], 0.0F);
  } else {
    const auto own = scale_of(values.data);
    if (!own) return false;
    scale = *own;
  }
  kernels::store(side.data(), 0, scale);
  const std::size_t grain = kernels::sum_chunk / packing().group * packing().group;
  pool().run_stretches(count, grain, [&](std::size_t begin, std::size_t end) {
    if (trits_) {
      write_trits(values, begin, end, side, packed);
    } else {
      levels_.write_symbols(values, begin, end, side, packed);
    }
  });
  return true;
}

// REQUIRES begin a multiple of kernels::trit_group.
void TernGrad::write_trits(const Values& values, std::size_t begin, std::size_t end, std::span<const std::byte> side,
                           std::span<std::byte> packed) const {
  std::array<std::uint16_t, trit_chunk> symbols;
  for (; begin < end; begin += trit_chunk) {
    const std::size_t count = std::min(trit_chunk, end - begin);
    const auto out = std::span(symbols).first(count);
    kernels::stochastic_levels(values.data.subspan(begin, count), levels_.blocks.norms(side, begin), top,
                               values.draws.part(begin, count), out);
    kernels::pack_trits(out, packed.subspan(kernels::trit_bytes(begin), kernels::trit_bytes(count)));
  }
}

void TernGrad::check(const Quantised& in, std::size_t values) const {
  check_norms(in.side, "terngrad");
  if (trits_ && !kernels::valid_trits(in.packed, values)) throw WireError("terngrad: a byte that is no five trits");
}

void TernGrad::add_decoded(const Quantised& in, float scale, std::span<float> out) const {
  if (!trits_) return levels_.add_decoded(in, scale, out);
  std::array<std::uint16_t, trit_chunk> symbols;
  for (std::size_t begin = 0; begin < out.size(); begin += trit_chunk) {
    const auto part = out.subspan(begin, std::min(trit_chunk, out.size() - begin));
    const auto some = std::span(symbols).first(part.size());
    kernels::unpack_trits(in.packed.subspan(kernels::trit_bytes(begin), kernels::trit_bytes(part.size())), some);
    kernels::add_levels(some, levels_.blocks.norms(in.side, begin), top, scale, part);
  }
}

Contract TernGrad::contract(std::size_t largest) const {
  const double n = static_cast<double>(std::max<std::size_t>(largest, 1));
  const double levels = levels_.top();  // S
  if (options_.clip != 0) {
    // Let y be x after clipping. Rounding to S levels up to s has a variance of at most (s |y|_1 - |y|^2) / S, so
    // E|C(x)-x|^2 <= |x|^2 - |y|^2 + (s |y|_1 - |y|^2) / S <= |x|^2 - (1 + 1/S) |y|^2 + c/S |x| |y|, as s is at most c
    // |x| / sqrt(n), where c = min(clip, sqrt(n)). The maximum is at |y| = c / (2 S + 2) |x|, or at |y| = |x|.
    const double c = std::min(options_.clip, std::sqrt(n));
    const double bound = c < 2 * (levels + 1) ? 1 + c * c / (4 * levels * (levels + 1)) : (c - 1) / levels;
    return {.kind = Contract::Kind::none,
            .omega = options_.shared ? INFINITY : bound,
            .delta = 0,
            .grain = Contract::Grain::segment,
            .chance = Contract::Chance::own};
  }
  // E|C(x)-x|^2 <= (s |x|_1 - |x|^2) / S, and at most (s / S)^2 / 4 for each value; s |x|_1 <= sqrt(n) |x|^2 if s is
  // the largest magnitude of x itself.
  const double bound = std::min(std::sqrt(n) / levels, n / (4 * levels * levels));
  return {.kind = Contract::Kind::unbiased,
          .omega = options_.shared ? INFINITY : bound,
          .delta = 0,
          .input = Contract::Input::delta,
          .grain = Contract::Grain::segment,
          .chance = Contract::Chance::own};
}

}  // namespace sotto
