#include "sotto/codec/quantise/sign.h"

#include <cmath>

#include "sotto/codec/quantise/side.h"
#include "sotto/codec/shared_work.h"
#include "sotto/kernels/bits.h"
#include "sotto/kernels/reduce.h"

namespace sotto {

std::size_t Sign::side_bytes(std::size_t values) const { return block_count(values, block_) * sizeof(float); }

Range Sign::block_range(std::size_t b, std::size_t count) const {
  return block_ == 0 ? Range{0, count} : Range{b * block_, std::min((b + 1) * block_, count)};
}

bool Sign::encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) {
  const std::size_t count = values.data.size();
  if (block_ == 0 && count > 0) {
    const auto pack = [&](std::size_t begin, std::size_t end) {
      const auto bits = packed.subspan(begin / 8, kernels::packed_bytes(end - begin, 1));
      return kernels::Spread{.sum = kernels::pack_signs(values.data.subspan(begin, end - begin), bits)};
    };
    const double sum = spread_of_chunks(pool(), count, pack).sum;
    kernels::store(side.data(), 0, static_cast<float>(sum / static_cast<double>(count)));
    return std::isfinite(sum);
  }
  const bool whole_bytes = block_ % 8 == 0;  // then a block's bits fill whole bytes, packed while it is summed
  if (!whole_bytes) kernels::pack_signs(values.data, packed);
  for (std::size_t b = 0; b < block_count(count, block_); ++b) {
    const Range range = block_range(b, count);
    const auto part = values.data.subspan(range.begin, range.size());
    const double sum =
        whole_bytes ? kernels::pack_signs(part, packed.subspan(range.begin / 8, kernels::packed_bytes(part.size(), 1)))
                    : kernels::sum_abs(part);
    if (!std::isfinite(sum)) return false;
    kernels::store(side.data(), b, static_cast<float>(sum / static_cast<double>(range.size())));
  }
  return true;
}

void Sign::check(const Quantised& in, std::size_t) const { check_norms(in.side, "sign"); }

void Sign::add_decoded(const Quantised& in, float scale, std::span<float> out) const {
  for (std::size_t b = 0; b < block_count(out.size(), block_); ++b) {
    const Range range = block_range(b, out.size());
    kernels::add_signs(in.packed, range.begin, scale * kernels::load<float>(in.side.data(), b),
                       out.subspan(range.begin, range.size()));
  }
}

Contract Sign::contract(std::size_t largest) const {
  // |C(x)-x|^2 = |x|^2 - |x|_1^2 / n for a block of n values; the worst case is a single non-zero value.
  const std::size_t n = std::max<std::size_t>(block_ == 0 ? largest : std::min(block_, largest), 1);
  return {.kind = Contract::Kind::contraction,
          .delta = 1 / static_cast<double>(n),
          .input = Contract::Input::delta,
          .grain = block_ == 0 ? Contract::Grain::segment : Contract::Grain::block,
          .block = std::max<std::size_t>(block_, 1)};
}

bool Signs::encode(const Values& values, std::span<std::byte> /*side*/, std::span<std::byte> packed) {
  return std::isfinite(kernels::pack_drawn_signs(values.data, values.draws, packed));
}

void Signs::add_decoded(const Quantised& in, float scale, std::span<float> out) const {
  kernels::add_signs(in.packed, 0, scale, out);
}

Contract Signs::contract(std::size_t /*largest*/) const {
  return {.kind = Contract::Kind::none, .omega = INFINITY, .delta = 0, .signs = true, .keeps_zeros = false};
}

}  // namespace sotto
