#include "sotto/codec/quantise/qsgd.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "sotto/codec/quantise/side.h"
#include "sotto/kernels/bits.h"
#include "sotto/kernels/levels.h"
#include "sotto/kernels/reduce.h"

namespace sotto {
namespace {

constexpr std::size_t chunk = 2048;  // symbols between quantising and packing: whole bytes at any width

// The norm of a bucket; not finite just when a value is not.
float norm_of(std::span<const float> values, bool l2) {
  if (!l2) return std::bit_cast<float>(kernels::max_abs_bits(values));
  const double norm = std::sqrt(kernels::sum_squares(values));
  return std::isfinite(norm) ? static_cast<float>(std::min(norm, static_cast<double>(largest_float))) : INFINITY;
}

}  // namespace

Qsgd::Qsgd(const QsgdOptions& options)
    : options_(options),
      bits_(static_cast<unsigned>(options.bits)),
      bucket_(static_cast<std::size_t>(options.bucket)),
      top_((1U << bits_) - 1),
      l2_(options.norm == "l2") {}

std::size_t Qsgd::side_bytes(std::size_t values) const { return block_count(values, bucket_) * sizeof(float); }

bool Qsgd::encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) {
  std::array<std::uint16_t, chunk> symbols;
  const std::size_t count = values.data.size();
  float norm = 0;
  for (std::size_t begin = 0; begin < count; begin += chunk) {
    const std::size_t end = std::min(begin + chunk, count);
    // Runs of the chunk that lie in one bucket.
    for (std::size_t at = begin; at < end;) {
      const std::size_t bucket = at / bucket_;
      const std::size_t stop = std::min(end, (bucket + 1) * bucket_);
      if (at % bucket_ == 0) {
        norm = norm_of(values.data.subspan(at, std::min(bucket_, count - at)), l2_);
        if (!std::isfinite(norm)) return false;
        kernels::store(side.data(), bucket, norm);
      }
      kernels::stochastic_levels(values.data.subspan(at, stop - at), norm, top_, values.draws.part(at, stop - at),
                                 std::span(symbols).subspan(at - begin));
      at = stop;
    }
    kernels::pack_bits(std::span(symbols).first(end - begin), width(),
                       packed.subspan(begin / 8 * width(), kernels::packed_bytes(end - begin, width())));
  }
  return true;
}

void Qsgd::check(std::span<const std::byte> side, std::span<const std::byte>) const { check_norms(side, "qsgd"); }

void Qsgd::add_decoded(std::span<const std::byte> side, std::span<const std::byte> packed, float scale,
                       std::span<float> out) const {
  std::array<std::uint16_t, chunk> symbols;
  for (std::size_t begin = 0; begin < out.size(); begin += chunk) {
    const std::size_t end = std::min(begin + chunk, out.size());
    kernels::unpack_bits(packed.subspan(begin / 8 * width(), kernels::packed_bytes(end - begin, width())), width(),
                         std::span(symbols).first(end - begin));
    for (std::size_t at = begin; at < end;) {
      const std::size_t bucket = at / bucket_;
      const std::size_t stop = std::min(end, (bucket + 1) * bucket_);
      kernels::add_levels(std::span(symbols).subspan(at - begin, stop - at), kernels::load<float>(side.data(), bucket),
                          top_, scale, out.subspan(at, stop - at));
      at = stop;
    }
  }
}

Contract Qsgd::contract(std::size_t largest) const {
  // A level is a coin of variance at most 1/4, and at most its mean: with either norm, and n values a bucket,
  // E|C(x)-x|^2 <= (norm/S)^2 n/4 and <= (norm/S) |x|_1 <= sqrt(n)/S |x|^2. The paper has n/S^2 and sqrt(n)/S.
  const double n = static_cast<double>(std::min(largest, bucket_));
  const double top = top_;
  return {.kind = Contract::Kind::unbiased,
          .omega = std::min(n / (4 * top * top), std::sqrt(n) / top),
          .delta = 0,
          .input = Contract::Input::delta,
          .grain = Contract::Grain::block,
          .block = bucket_};
}

}  // namespace sotto
