#include "sotto/codec/quantise/qsgd.h"

#include <algorithm>
#include <cmath>

namespace sotto {
namespace {

float euclidean_norm(std::span<const float> values) {
  const double norm = std::sqrt(kernels::sum_squares(values));
  return std::isfinite(norm) ? static_cast<float>(std::min(norm, static_cast<double>(largest_float))) : INFINITY;
}

}  // namespace

Qsgd::Qsgd(const QsgdOptions& options)
    : options_(options),
      levels_{.block = static_cast<std::size_t>(options.bucket), .bits = static_cast<unsigned>(options.bits)} {}

bool Qsgd::encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) {
  return options_.norm == "l2" ? levels_.encode(values, euclidean_norm, side, packed)
                               : levels_.encode(values, largest_magnitude, side, packed);
}

void Qsgd::check(std::span<const std::byte> side, std::span<const std::byte>) const { check_norms(side, "qsgd"); }

void Qsgd::add_decoded(std::span<const std::byte> side, std::span<const std::byte> packed, float scale,
                       std::span<float> out) const {
  levels_.add_decoded(side, packed, scale, out);
}

Contract Qsgd::contract(std::size_t largest) const {
  // A level is a coin of variance at most 1/4, and at most its mean: with either norm, and n values a bucket,
  // E|C(x)-x|^2 <= (norm/S)^2 n/4 and <= (norm/S) |x|_1 <= sqrt(n)/S |x|^2. The paper has n/S^2 and sqrt(n)/S.
  const double n = static_cast<double>(std::min(largest, levels_.block));
  const double top = levels_.top();
  return {.kind = Contract::Kind::unbiased,
          .omega = std::min(n / (4 * top * top), std::sqrt(n) / top),
          .delta = 0,
          .input = Contract::Input::delta,
          .grain = Contract::Grain::block,
          .block = levels_.block};
}

}  // namespace sotto
