#include "sotto/codec/quantise/qsgd.h"

#include <algorithm>
#include <cmath>

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

}  // namespace sotto
