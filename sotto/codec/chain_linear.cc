#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>

#include "sotto/codec/chain.h"
#include "sotto/codec/does_not_fit.h"
#include "sotto/core/error.h"
#include "sotto/kernels/reduce.h"

namespace sotto {

// The values can be summed if they are cast and the earlier stages are the same on every rank.
const LinearForm* ChainParts::linear() const {
  const bool same_map = !stages.transform || stages.transform->traits().linear;
  const bool same_atoms = !stages.select || selection_is_shared();
  return same_map && same_atoms && !stages.within && !stages.code
             ? dynamic_cast<const LinearForm*>(stages.quantise.get())
             : nullptr;
}

// The padding is included if the cast is the first stage.
std::size_t ChainMessage::linear_count(const Layout& layout) {
  if (parts_->linear() == nullptr) return 0;
  return parts_->in_place() ? layout.size() : plan(layout, {0, layout.size()}).values;
}

void ChainEncoder::to_linear(const Bucket& bucket, float scale, const Key& key, std::span<std::byte> out) {
  const LinearForm* form = parts_->linear();
  if (form == nullptr) throw std::logic_error("Codec::to_linear: " + parts_->traits.text + " is not linear");
  const auto all = linear_values(bucket, key);
  const std::size_t size = size_of(form->type());
  std::atomic<bool> fits = true;
  pool_.run_stretches(all.size(), pool_.grain(), [&](std::size_t begin, std::size_t end) {
    const auto values = all.subspan(begin, end - begin);
    if (!form->write(values, scale, out.subspan(begin * size, values.size() * size))) fits = false;
  });
  if (fits) return;
  for (const Slot& slot : slots_) {
    const auto values = all.subspan(slot.value, slot.values());
    if (form->write(values, scale, out.first(values.size() * size))) continue;
    const std::string& name = bucket.layout->segments()[slot.piece.segment].name;
    if (!kernels::all_finite(values)) throw_not_finite(name, key);
    throw DoesNotFit(
        fmt::format("{} does not fit {}{}: use bf16, or gather the messages", name, name_of(form->type()), where(key)));
  }
  throw std::logic_error("Codec::to_linear: padding is not zero");
}

// Returns the floats to cast; afterwards the slots describe the whole bucket.
std::span<const float> ChainEncoder::linear_values(const Bucket& bucket, const Key& key) {
  const Streams streams{key, bucket.index};
  const Plan plan = this->plan(*bucket.layout, {0, bucket.layout->size()});
  if (parts_->in_place()) return bucket.values;
  reserve(plan);
  if (stages_.transform) apply_transform(bucket, streams, plan);
  if (!stages_.select) return rows_.room(plan.rows);
  apply_select(bucket, streams, plan);
  gather_rows(bucket, streams);
  const auto values = values_.room(plan.values);
  std::ranges::fill(values.subspan(values_in_slots()), 0.0F);  // pads the shorter blocks
  return values;
}

void OpenedChain::from_linear(std::span<const std::byte> in, float scale, const Key& key, Bucket& out) {
  if (parts_->linear() == nullptr)
    throw std::logic_error("Codec::from_linear: " + parts_->traits.text + " is not linear");
  const auto decode = [&](float factor, std::span<float> all) {
    const std::size_t size = size_of(parts_->linear()->type());
    pool_.run_stretches(all.size(), pool_.grain(), [&](std::size_t begin, std::size_t end) {
      const auto values = all.subspan(begin, end - begin);
      std::ranges::fill(values, 0.0F);
      parts_->linear()->add(in.subspan(begin * size, values.size() * size), factor, values);
    });
  };
  if (parts_->in_place()) {
    decode(scale, out.values);
    out.layout->clear_padding(out.values);
    return;
  }
  const Plan plan = this->plan(*out.layout, {0, out.layout->size()});
  reserve_message(plan);
  if (stages_.select) select_known(*out.layout, {key, out.index}, plan);
  decode(stages_.transform ? 1.0F : scale, values_.room(plan.values));
  std::ranges::fill(out.values, 0.0F);
  for (const Slot& slot : slots_) add_rows(slot, scale, out);
}

void OpenedChain::clear_chosen(const Key& key, Bucket& out) {
  if (parts_->linear() == nullptr)
    throw std::logic_error("Codec::clear_chosen: " + parts_->traits.text + " is not linear");
  if (stages_.transform || !stages_.select.chooses()) return;
  const Plan plan = this->plan(*out.layout, {0, out.layout->size()});
  reserve_message(plan);
  select_known(*out.layout, {key, out.index}, plan);
  clear_selected(out);
}

}  // namespace sotto
