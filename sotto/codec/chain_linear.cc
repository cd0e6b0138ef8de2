#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "sotto/codec/chain.h"
#include "sotto/core/error.h"
#include "sotto/kernels/reduce.h"

namespace sotto {

const LinearForm* Chain::linear() const {
  return stages_.transform || stages_.select || stages_.code ? nullptr : stages_.quantise->linear();
}

std::optional<DType> Chain::linear_type() const {
  return linear() != nullptr ? std::optional(linear()->type()) : std::nullopt;
}

std::size_t Chain::linear_count(const Layout& layout) const { return linear() != nullptr ? layout.size() : 0; }

void Chain::to_linear(const Bucket& bucket, float scale, const Key& key, std::span<std::byte> out) {
  const LinearForm* form = linear();
  if (form == nullptr) throw std::logic_error("Codec::to_linear: " + sentence_ + " is not linear");
  if (form->write(bucket.values, scale, out)) return;
  for (const Segment& segment : bucket.layout->segments()) {
    const Range range = segment.range();
    const auto values = bucket.values.subspan(range.begin, range.size());
    if (form->write(values, scale, out.first(range.size() * size_of(form->type())))) continue;
    if (!kernels::all_finite(values)) throw_not_finite(segment.name, key);
    throw NumericError(fmt::format("{} does not fit {} at step {} on rank {}: use bf16, or gather the messages",
                                   segment.name, name_of(form->type()), key.step, key.rank));
  }
  throw std::logic_error("Codec::to_linear: padding is not zero");
}

void Chain::from_linear(std::span<const std::byte> in, float scale, Bucket& out) const {
  if (linear() == nullptr) throw std::logic_error("Codec::from_linear: " + sentence_ + " is not linear");
  std::fill(out.values.begin(), out.values.end(), 0.0F);
  linear()->add(in, scale, out.values);
  out.layout->clear_padding(out.values);
}

}  // namespace sotto
