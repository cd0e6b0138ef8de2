#include <fmt/format.h>

#include <atomic>

#include "sotto/codec/chain.h"
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

void Chain::to_linear(const Bucket& bucket, float scale, const Key& key, std::span<std::byte> out) {
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
std::span<const float> Chain::linear_values(const Bucket& bucket, const Key& key) {
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

void Chain::from_linear(std::span<const std::byte> in, float scale, const Key& key, Bucket& out) {
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

void Chain::clear_chosen(const Key& key, Bucket& out) {
  if (parts_->linear() == nullptr)
    throw std::logic_error("Codec::clear_chosen: " + parts_->traits.text + " is not linear");
  if (stages_.transform || !stages_.select.chooses()) return;
  const Plan plan = this->plan(*out.layout, {0, out.layout->size()});
  reserve_message(plan);
  select_known(*out.layout, {key, out.index}, plan);
  clear_selected(out);
}

void Chain::add_mean_of_holders(std::span<const std::unique_ptr<MessageReader>> messages, Range part, Bucket& out) {
  if (messages.empty()) return;
  const Plan plan = this->plan(*out.layout, part);
  const auto sums = sums_.room(plan.rows);
  const auto holders = holders_.room(plan.atoms);
  std::ranges::fill(sums, 0.0F);
  std::ranges::fill(holders, 0U);
  indices_.room(plan.atoms);  // several messages together may hold more atoms than one
  atoms_.room(plan.atoms);
  values_.room(plan.rows);
  for (const auto& message : messages) {
    const float share = 1.0F / static_cast<float>(messages.size());  // so that no sum exceeds the largest value in it
    dynamic_cast<ChainReader&>(*message).add_to_sums(share, sums, holders);
  }
  take_means(*out.layout, messages.size());
  if (stages_.transform && too_large() != nullptr) throw WireError("means whose sums are too large for floats");
  for (const Slot& slot : slots_) add_rows(slot, 1, out);
}

void ChainReader::add_to_sums(float share, std::span<float> all_sums, std::span<std::uint32_t> holders) {
  require_open("Codec::add_mean_of_holders");
  if (!stages_.transform) decode_units(quantised_, 1);
  for (const Slot& slot : slots_) {
    const std::size_t width = slot.atoms.width;
    const auto values = values_.room(slot.value + slot.values()).subspan(slot.value);
    const auto indices = indices_.room(slot.selected_at + slot.selected).subspan(slot.selected_at);
    const auto sums = all_sums.subspan(slot.row, slot.atoms.values());
    for (std::size_t j = 0; j < indices.size(); ++j) {
      ++holders[indices[j]];
      float* const row = &sums[(indices[j] - slot.first) * width];
      for (std::size_t c = 0; c < width; ++c) row[c] += share * values[j * width + c];
    }
  }
}

// Marks every atom that a message holds as selected in the slots, and writes the means to values_.
void Chain::take_means(const Layout& layout, std::size_t messages) {
  std::size_t sent = 0;
  std::size_t value = 0;
  for (Slot& slot : slots_) {
    const std::size_t width = slot.atoms.width;
    const bool dense = stages_.select.is_dense(layout.segments()[slot.piece.segment]);
    const auto holders = holders_.room(slot.first + slot.atoms.count);
    const auto sums = sums_.room(slot.row + slot.atoms.values()).subspan(slot.row);
    const auto indices = indices_.room(slot.first + slot.atoms.count);
    const auto values = values_.room(slot.row + slot.atoms.values());
    slot.selected_at = sent;
    slot.value = value;
    for (std::size_t atom = slot.first; atom < slot.first + slot.atoms.count; ++atom) {
      if (holders[atom] == 0) continue;
      const float factor = dense ? 1.0F : static_cast<float>(messages) / static_cast<float>(holders[atom]);
      const float* const row = &sums[(atom - slot.first) * width];
      indices[sent++] = static_cast<std::uint32_t>(atom);
      for (std::size_t c = 0; c < width; ++c) values[value++] = factor * row[c];
    }
    slot.selected = sent - slot.selected_at;
  }
}

// Calls visit(unit, side) for all units with values, in order, until it returns false. During a call, merging_ holds
// this unit of each message, and `side` is the range of its side information. REQUIRES units whose sizes depend only on
// their numbers of values, as for MergedUnits.
template <class Visit>
bool Chain::visit_units_of(std::span<const std::unique_ptr<MessageReader>> messages, Visit visit) {
  const auto& units = dynamic_cast<const ChainReader&>(*messages.front()).units_;
  Range side;
  Range packed;
  for (const Unit& unit : units) {
    side = {side.end, side.end + parts_->side_bytes(unit.kept)};
    packed = {packed.end, packed.end + unit.packed};
    if (unit.kept == 0) continue;
    merging_.clear();
    for (const auto& message : messages) {
      const Quantised& all = dynamic_cast<const ChainReader&>(*message).quantised_;
      merging_.push_back(all.part(side, packed));
    }
    if (!visit(unit, side)) return false;
  }
  return true;
}

bool Chain::add_merged(std::span<const std::unique_ptr<MessageReader>> messages, float scale, Bucket& out) {
  if (messages.size() < 2) return false;
  for (const auto& message : messages) dynamic_cast<const ChainReader&>(*message).require_open("Codec::add_sum");
  const MergedUnits& quantise = *parts_->merged;
  if (!visit_units_of(messages, [&](const Unit& unit, Range) { return quantise.can_merge(merging_, unit.kept); })) {
    return false;
  }
  const auto merged = merged_.room(dynamic_cast<const ChainReader&>(*messages.front()).quantised_.side.size());
  const bool in_place = parts_->in_place();
  if (!in_place) {
    const Plan plan = this->plan(*out.layout, {0, out.layout->size()});
    std::ranges::fill(values_.room(plan.values), 0.0F);
  }
  visit_units_of(messages, [&](const Unit& unit, Range side) {
    const auto target = in_place ? out.values : values_.room(values_in_slots());
    quantise.add_merged(merging_, scale, merged.subspan(side.begin, side.size()),
                        target.subspan(unit.value, unit.kept));
    return true;
  });
  for (std::size_t i = 0; !in_place && i < slots_.size(); ++i) add_rows(slots_[i], 1, out);
  for (const auto& message : messages) dynamic_cast<ChainReader&>(*message).quantised_.side = merged;
  return true;
}

}  // namespace sotto
