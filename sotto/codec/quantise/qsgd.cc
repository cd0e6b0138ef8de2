#include "sotto/codec/quantise/qsgd.h"

#include "sotto/codec/shared_work.h"

namespace sotto {
namespace {

bool euclidean_norms(std::span<const float> values, std::size_t block, std::span<std::byte> side) {
  for (std::size_t b = 0; b * block < values.size(); ++b) {
    const auto part = values.subspan(b * block, std::min(block, values.size() - b * block));
    const double norm = std::sqrt(kernels::sum_squares(part));
    if (!std::isfinite(norm)) return false;
    kernels::store(side.data(), b, static_cast<float>(std::min(norm, static_cast<double>(largest_float))));
  }
  return true;
}

}  // namespace

Qsgd::Qsgd(const QsgdOptions& options)
    : options_(options),
      levels_{.blocks = {static_cast<std::size_t>(options.bucket)}, .bits = static_cast<unsigned>(options.bits)} {}

bool Qsgd::encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) {
  return options_.norm == "l2" ? levels_.encode(values, euclidean_norms, side, packed)
                               : levels_.encode(values, largest_magnitudes, side, packed);
}

void Qsgd::check(const Quantised& in, std::size_t) const { check_norms(in.side, "qsgd"); }

void Qsgd::add_decoded(const Quantised& in, float scale, std::span<float> out) const {
  levels_.add_decoded(in, scale, out);
}

Contract Qsgd::contract(std::size_t largest) const {
  // A level is a coin flip whose variance is at most 1/4 and at most its mean. With either norm, and n values per
  // bucket, E|C(x)-x|^2 <= (norm/S)^2 n/4 and <= (norm/S) |x|_1 <= sqrt(n)/S |x|^2. The paper has n/S^2 and sqrt(n)/S.
  const double n = static_cast<double>(std::min(largest, levels_.blocks.block));
  const double top = levels_.top();
  return {.kind = Contract::Kind::unbiased,
          .omega = std::min(n / (4 * top * top), std::sqrt(n) / top),
          .delta = 0,
          .input = Contract::Input::delta,
          .grain = Contract::Grain::block,
          .block = levels_.blocks.block,
          .chance = Contract::Chance::own};
}

namespace {

constexpr std::size_t head = sizeof(std::uint32_t);  // the bits; the norms follow

}  // namespace

LevelBlocks Adaptive::levels(std::span<const std::byte> side) const {
  return {.blocks = blocks_, .bits = kernels::load<std::uint32_t>(side.data(), 0)};
}

std::size_t Adaptive::packed_size(std::span<const std::byte> side, std::size_t values) const {
  const auto bits = kernels::load<std::uint32_t>(side.data(), 0);
  if (bits < 1 || bits > options_.bits)
    throw WireError("adaptive: a segment with a number of bits that it cannot have");
  return kernels::packed_bytes(values, bits + 1);
}

// `norms` is the sum of norm^2 over all values, `squares` the sum of value^2.
std::uint32_t Adaptive::bits_for(double norms, double squares) const {
  const double budget = options_.error * options_.error * squares;
  std::uint32_t bits = 1;
  for (; bits < options_.bits; ++bits) {
    const double top = (1U << bits) - 1;
    if (norms / (4 * top * top) <= budget) break;
  }
  return bits;
}

bool Adaptive::encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) {
  const auto data = values.data;
  const std::size_t block = blocks_.block;
  const auto norms = side.subspan(head);
  if (!write_norms(pool(), data, block, norms)) return false;
  const double squares = spread_of_chunks(pool(), data.size(), [&](std::size_t begin, std::size_t end) {
                           return kernels::spread_squares(data.subspan(begin, end - begin));
                         }).sum;
  double sum = 0;
  for (std::size_t b = 0; b * block < data.size(); ++b) {
    const double norm = kernels::load<float>(norms.data(), b);
    sum += norm * norm * static_cast<double>(std::min(block, data.size() - b * block));
  }
  kernels::store(side.data(), 0, bits_for(sum, squares));
  const LevelBlocks levels = this->levels(side);
  pool().run_stretches(data.size(), kernels::sum_chunk, [&](std::size_t begin, std::size_t end) {
    levels.write_symbols(values, begin, end, norms, packed);
  });
  return true;
}

void Adaptive::check(const Quantised& in, std::size_t values) const {
  check_norms(in.side.subspan(head), "adaptive");
  if (!kernels::tail_is_zero(in.packed, values * levels(in.side).width())) {
    throw WireError("adaptive: bits after the last symbol of a segment that are not zero");
  }
}

void Adaptive::add_decoded(const Quantised& in, float scale, std::span<float> out) const {
  const LevelBlocks levels = this->levels(in.side);
  pool().run_stretches(out.size(), kernels::sum_chunk, [&](std::size_t begin, std::size_t end) {
    levels.add_symbols({in.side.subspan(head), in.packed}, scale, begin, end, out);
  });
}

Contract Adaptive::contract(std::size_t largest) const {
  // As for qsgd. The budget is kept unless the maximum number of bits is too small for it.
  const double n = static_cast<double>(std::max<std::size_t>(std::min(largest, blocks_.block), 1));
  const auto omega = [n](double top) { return std::min(n / (4 * top * top), std::sqrt(n) / top); };
  const double most = (1U << options_.bits) - 1;
  return {.kind = Contract::Kind::unbiased,
          .omega = std::min(omega(1), std::max(options_.error * options_.error, omega(most))),
          .delta = 0,
          .input = Contract::Input::delta,
          .grain = Contract::Grain::segment,
          .chance = Contract::Chance::own};
}

}  // namespace sotto
