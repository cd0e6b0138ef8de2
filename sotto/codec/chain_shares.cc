#include "sotto/codec/opened_chain.h"

namespace sotto {
namespace {

// Shares bytes out by bits: the end of each share is rounded down to a whole byte.
class ByBits {
 public:
  std::size_t next(std::uint64_t bits) {
    const std::uint64_t before = bits_ / 8;
    bits_ += bits;
    return static_cast<std::size_t>(bits_ / 8 - before);
  }

 private:
  std::uint64_t bits_ = 0;
};

}  // namespace

std::int64_t OpenedChain::add_shares(std::span<std::size_t> bytes) {
  require_open("Opened::add_shares");
  std::size_t all = 0;
  const auto add = [&](const Slot& slot, std::size_t some) {
    bytes[slot.piece.segment] += some;
    all += some;
  };

  std::vector<std::size_t> coded(runs_.size());
  const bool symbols_coded = (header_.flags & flag_coded) != 0 && stages_.code->of_symbols();
  const bool told = symbols_coded && stages_.code->add_shares({quantised_.packed, runs_}, coded);
  std::vector<std::size_t> symbols(units_.size());
  for (std::size_t r = 0; told && r < runs_.size(); ++r) symbols[runs_[r].unit] += coded[r];
  for (std::size_t u = 0; u < units_.size(); ++u) {
    const Unit& unit = units_[u];
    if (!told) symbols[u] = unit.packed;
    if (!parts_->pools) {
      add(slots_[unit.slot], parts_->side_bytes(unit.kept) + symbols[u]);
      continue;
    }
    std::size_t values = 0, before = 0;
    for (const Slot& slot : slots_) {
      values += slot.values();
      const std::size_t until = symbols[u] * values / unit.kept;
      add(slot, until - before);
      before = until;
    }
  }

  if (!index_list_.empty()) {
    const Slot& last = slots_.back();
    const std::span taken((stages_.select.traits().block > 1 ? taken_ : indices_).data(), last.taken_at + last.taken);
    ByBits share;
    for (const Slot& slot : slots_) {
      const auto bits = index_bits(taken, {slot.taken_at, slot.taken_at + slot.taken}, slot.blocks,
                                   index_flags.in(header_.flags), index_list_);
      add(slot, share.next(bits));
    }
  }
  if (!within_list_.empty()) {
    const std::span kept(within_.data(), units_.back().kept_at + units_.back().kept);
    ByBits share;
    for (const Unit& unit : units_) {
      const auto bits = index_bits(kept, {unit.kept_at, unit.kept_at + unit.kept}, unit.count,
                                   within_flags.in(header_.flags), within_list_);
      add(slots_[unit.slot], share.next(bits));
    }
  }
  return static_cast<std::int64_t>(sizeof(Header) + header_.body_bytes) - static_cast<std::int64_t>(all);
}

}  // namespace sotto
