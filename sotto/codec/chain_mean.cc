#include <algorithm>

#include "sotto/codec/chain.h"
#include "sotto/core/error.h"

namespace sotto {

void OpenedChain::add_mean_of_holders(std::span<const std::unique_ptr<Opened>> messages, Range part, Bucket& out) {
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
    const float share = 1.0F / static_cast<float>(messages.size());  // so that no sum exceeds the largest summand
    dynamic_cast<OpenedChain&>(*message).add_to_sums(share, sums, holders);
  }
  take_means(*out.layout, messages.size());
  if (stages_.transform && too_large() != nullptr) throw WireError("means whose sums are too large for floats");
  for (const Slot& slot : slots_) add_rows(slot, 1, out);
}

void OpenedChain::add_to_sums(float share, std::span<float> all_sums, std::span<std::uint32_t> holders) {
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
void OpenedChain::take_means(const Layout& layout, std::size_t messages) {
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

}  // namespace sotto
