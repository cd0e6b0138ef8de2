#include "sotto/codec/chain.h"
#include "sotto/codec/shared_work.h"
#include "sotto/kernels/reduce.h"

namespace sotto {

std::span<const std::uint32_t> Chain::apply_select(const Bucket& bucket, const Streams& streams, const Plan& plan) {
  groups_.clear();
  for (const Slot& slot : slots_) {
    const Range range = slot.piece.range;
    const auto energies = !stages_.transform      ? bucket.values.subspan(range.begin, range.size())
                          : slot.atoms.width == 1 ? rows_.room(plan.rows).subspan(slot.row, slot.atoms.count)
                                                  : energies_.room(plan.atoms).subspan(slot.first, slot.atoms.count);
    groups_.push_back(group_of(*bucket.layout, slot, energies));
  }
  require_finite(*stages_.select, bucket, streams.key);
  return select(streams, plan);
}

// A blind selection may leave out values that are not finite, so they are checked here.
void Chain::require_finite(const Select& select, const Bucket& bucket, const Key& key) const {
  if (!select.traits().blind) return;
  for (const Group& group : groups_) {
    if (largest_magnitude(pool_, group.energies) < kernels::infinity_bits) continue;
    throw_not_finite(group.segment, bucket, key);
  }
}

// Repeats the selection of the sender, which does not depend on energies.
void ChainMessage::select_known(const Layout& layout, const Streams& streams, const Plan& plan) {
  groups_.clear();
  for (const Slot& slot : slots_) groups_.push_back(group_of(layout, slot, {}));
  select(streams, plan);
}

Group ChainMessage::group_of(const Layout& layout, const Slot& slot, std::span<const float> energies) const {
  const Segment& segment = layout.segments()[slot.piece.segment];
  return {energies,
          slot.piece.segment,
          segment.shape.size(),
          segment.numel(),
          static_cast<std::uint32_t>(slot.first_block),
          static_cast<std::uint32_t>(slot.atoms.first),
          slot.atoms.count,
          slot.atoms.chunk};
}

// Returns the numbers of the selected blocks of all groups; slots and indices_ then hold the selected atoms.
std::span<const std::uint32_t> ChainMessage::select(Streams streams, const Plan& plan) {
  if (stages_.select.traits().shared) streams.key.rank = 0;
  counts_.resize(slots_.size());
  const auto room = room_for_blocks(plan);
  const auto scales = scales_.room(stages_.select.traits().scales ? plan.most_blocks : 0);
  const auto taken = room.first(stages_.select.select(groups_, streams, room, counts_, scales));
  for (std::size_t i = 0; i < slots_.size(); ++i) slots_[i].taken = counts_[i];
  spread_blocks(taken, plan);
  return taken;
}

// Blocks of one atom share the room for atoms.
std::span<std::uint32_t> ChainMessage::room_for_blocks(const Plan& plan) {
  return (stages_.select.traits().block > 1 ? taken_ : indices_).room(plan.most_blocks);
}

// Lists the atoms of the blocks in `taken`. REQUIRES the number of taken blocks of each slot.
void ChainMessage::spread_blocks(std::span<const std::uint32_t> taken, const Plan& plan) {
  const std::size_t block = stages_.select.traits().block;
  const auto indices = indices_.room(plan.most);
  std::size_t taken_at = 0;
  std::size_t sent = 0;
  std::size_t value = 0;
  for (Slot& slot : slots_) {
    slot.taken_at = taken_at;
    slot.selected_at = sent;
    slot.value = value;
    const auto its = taken.subspan(taken_at, slot.taken);
    taken_at += slot.taken;
    const bool has_last = !its.empty() && its.back() + std::size_t{1} == slot.first_block + slot.blocks;
    slot.selected = slot.taken * block - (has_last ? slot.blocks * block - slot.atoms.count : 0);
    sent += slot.selected;
    value += slot.values();
    if (block == 1) continue;  // blocks are atoms, already in place
    pool_.run_stretches(its.size(), scattered_grain(pool_), [&](std::size_t begin, std::size_t end) {
      std::size_t at = slot.selected_at + begin * block;
      for (std::size_t j = begin; j < end; ++j) {
        const std::size_t first = (its[j] - slot.first_block) * block;
        const std::size_t last = std::min(first + block, slot.atoms.count);
        for (std::size_t atom = first; atom < last; ++atom)
          indices[at++] = static_cast<std::uint32_t>(slot.first + atom);
      }
    });
  }
}

}  // namespace sotto
