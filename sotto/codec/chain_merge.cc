#include <algorithm>

#include "sotto/codec/chain.h"

namespace sotto {

// Calls visit(unit, side) for all units with values, in order, until it returns false: merging_ then holds the unit of
// each message, and `side` is where its side information lies. REQUIRES units whose sizes depend on their values alone,
// as MergedUnits have them.
template <class Visit>
bool OpenedChain::visit_units_of(std::span<const std::unique_ptr<Opened>> messages, Visit visit) {
  const auto& units = dynamic_cast<const OpenedChain&>(*messages.front()).units_;
  Range side;
  Range packed;
  for (const Unit& unit : units) {
    side = {side.end, side.end + parts_->side_bytes(unit.kept)};
    packed = {packed.end, packed.end + unit.packed};
    if (unit.kept == 0) continue;
    merging_.clear();
    for (const auto& message : messages) {
      const Quantised& all = dynamic_cast<const OpenedChain&>(*message).quantised_;
      merging_.push_back(all.part(side, packed));
    }
    if (!visit(unit, side)) return false;
  }
  return true;
}

bool OpenedChain::add_merged(std::span<const std::unique_ptr<Opened>> messages, float scale, Bucket& out) {
  if (messages.size() < 2) return false;
  for (const auto& message : messages) dynamic_cast<const OpenedChain&>(*message).require_open("Codec::add_sum");
  const MergedUnits& quantise = *parts_->merged;
  if (!visit_units_of(messages, [&](const Unit& unit, Range) { return quantise.can_merge(merging_, unit.kept); })) {
    return false;
  }
  const auto merged = merged_.room(dynamic_cast<const OpenedChain&>(*messages.front()).quantised_.side.size());
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
  for (const auto& message : messages) dynamic_cast<OpenedChain&>(*message).quantised_.side = merged;
  return true;
}

}  // namespace sotto
