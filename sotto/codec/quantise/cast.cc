#include "sotto/codec/quantise/cast.h"

#include <fmt/format.h>

#include "sotto/codec/quantise/side.h"
#include "sotto/kernels/cast.h"
#include "sotto/kernels/reduce.h"

namespace sotto {

bool Cast::encode(const Values& values, std::span<std::byte> /*side*/, std::span<std::byte> packed) {
  return write(values.data, 1, packed);
}

void Cast::check(const Quantised& in, std::size_t /*values*/) const {
  if (!kind_.all_finite(in.packed)) throw WireError(fmt::format("{}: a value that is not finite", name_of(kind_.type)));
}

void Cast::add_decoded(const Quantised& in, float scale, std::span<float> out) const {
  kind_.add(in.packed, scale, out);
}

bool Cast::write(std::span<const float> values, float scale, std::span<std::byte> out) const {
  constexpr std::size_t block = 4096;  // checked and converted while in the cache
  const std::size_t bytes = size_of(kind_.type);
  for (std::size_t begin = 0; begin < values.size(); begin += block) {
    const auto part = values.subspan(begin, std::min(block, values.size() - begin));
    if (!fits(kernels::max_abs_bits(part), scale, largest_float)) return false;
    kind_.convert(part, scale, out.subspan(begin * bytes, part.size() * bytes));
  }
  return true;
}

F32::F32(const NoOptions& /*options*/)
    : Cast({DType::f32,
            kernels::to_f32,
            kernels::add_f32,
            kernels::all_finite_f32,
            {.kind = Contract::Kind::exact, .linear = true, .input = Contract::Input::model}}) {}

// Rounding changes a value by at most 2^-9 of its magnitude, saturation by at most 2^-8. (Below 2^-126: at most
// 2^-134.)
BF16::BF16(const NoOptions& /*options*/)
    : Cast({DType::bf16,
            kernels::to_bf16,
            kernels::add_bf16,
            kernels::all_finite_bf16,
            {.kind = Contract::Kind::contraction,
             .delta = 1 - 0x1p-16,
             .linear = true,
             .input = Contract::Input::model}}) {}

}  // namespace sotto
