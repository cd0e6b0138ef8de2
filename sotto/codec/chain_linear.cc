#include <fmt/format.h>

#include <algorithm>
#include <atomic>
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
  const std::size_t size = size_of(form->type());
  std::atomic<bool> fits = true;
  workers_->run_stretches(bucket.values.size(), workers_->grain(), [&](std::size_t begin, std::size_t end) {
    const auto values = bucket.values.subspan(begin, end - begin);
    if (!form->write(values, scale, out.subspan(begin * size, values.size() * size))) fits = false;
  });
  if (fits) return;
  for (const Segment& segment : bucket.layout->segments()) {
    const Range range = segment.range();
    const auto values = bucket.values.subspan(range.begin, range.size());
    if (form->write(values, scale, out.first(range.size() * size))) continue;
    if (!kernels::all_finite(values)) throw_not_finite(segment.name, key);
    throw NumericError(fmt::format("{} does not fit {} at step {} on rank {}: use bf16, or gather the messages",
                                   segment.name, name_of(form->type()), key.step, key.rank));
  }
  throw std::logic_error("Codec::to_linear: padding is not zero");
}

void Chain::from_linear(std::span<const std::byte> in, float scale, Bucket& out) const {
  if (linear() == nullptr) throw std::logic_error("Codec::from_linear: " + sentence_ + " is not linear");
  const std::size_t size = size_of(linear()->type());
  workers_->run_stretches(out.values.size(), workers_->grain(), [&](std::size_t begin, std::size_t end) {
    const auto values = out.values.subspan(begin, end - begin);
    std::ranges::fill(values, 0.0F);
    linear()->add(in.subspan(begin * size, values.size() * size), scale, values);
  });
  out.layout->clear_padding(out.values);
}

}  // namespace sotto
