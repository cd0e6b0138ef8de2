#include <fmt/format.h>

#include "sotto/codec/chain.h"
#include "sotto/codec/shared_work.h"
#include "sotto/kernels/checksum.h"
#include "sotto/kernels/reduce.h"

namespace sotto {

std::optional<std::uint64_t> Chain::place_of(const Slot& slot, const Streams& streams) {
  if (slot.atoms.split > 0) return std::nullopt;
  return place_of(streams.bucket, slot.piece.segment);
}

Values Chain::values_of(const Unit& unit, const Bucket& bucket, const Streams& streams) {
  const Slot& slot = slots_[unit.slot];
  const ElementStream stream = streams.stream(Purpose::quantise, slot.piece.segment);
  const std::size_t end = unit.kept_at + unit.kept;
  const std::uint32_t step = streams.key.step;
  const auto place = place_of(slot, streams);
  if (stages_.within) {
    return {kept_values_.room(end).subspan(unit.kept_at),
            {stream, 0, kept_numbers_.room(end).subspan(unit.kept_at)},
            {},
            step,
            place};
  }
  const std::size_t at = unit.value - slot.value;
  const std::size_t number = slot.atoms.first * slot.atoms.width + at;
  if (stages_.select && takes_all_) {
    return {bucket.values.subspan(slot.piece.range.begin + at, unit.kept),
            {stream, static_cast<std::uint32_t>(number), {}},
            {},
            step,
            place};
  }
  if (stages_.select) {
    return {values_.room(end).subspan(unit.kept_at),
            {stream, 0, numbers_.room(end).subspan(unit.kept_at)},
            {},
            step,
            place};
  }
  const auto data = stages_.transform ? rows_.room(end).subspan(unit.value)
                    : parts_->pools   ? values_.room(end).subspan(unit.value)
                                      : bucket.values.subspan(unit.value, unit.kept);
  const std::size_t each = parts_->agreed_count();
  const auto agreed = each > 0 ? agreed_.subspan(parts_->pools ? 0 : slot.piece.segment * each, each) : agreed_;
  return {data, {stream, static_cast<std::uint32_t>(number), {}}, agreed, step, place};
}

// Returns the byte range and the CRC-32 of all symbols.
SummedBytes Chain::quantise_units(const Bucket& bucket, const Streams& streams, std::span<std::byte> side,
                                  std::span<std::byte> packed) {
  if (parts_->one_block) return quantise_one_by_one(bucket, streams, side, packed);
  cut_stretches(parts_->slice);
  crcs_.resize(cuts_.size() - 1);
  pool_.run(crcs_.size(), [&](std::size_t stretch) {
    std::uint32_t crc = 0;
    visit_unit_parts(stretch, [&](const UnitPart& some) {
      const Values values = values_of(*some.unit, bucket, streams).part(some.values.begin, some.values.size());
      if (!quantise(values, side.subspan(some.side.begin, some.side.size()),
                    packed.subspan(some.packed.begin, some.packed.size()), crc)) {
        throw_not_finite(*some.unit, bucket, streams.key);
      }
    });
    crcs_[stretch] = crc;
  });
  kernels::JoinedCrc joined;
  const auto begin_of = [&](const StretchStart& cut) { return cut.packed + parts_->packed_bytes(cut.begin); };
  for (std::size_t stretch = 0; stretch < crcs_.size(); ++stretch) {
    joined.add(crcs_[stretch], begin_of(cuts_[stretch + 1]) - begin_of(cuts_[stretch]));
  }
  return {{0, packed.size()}, joined.value()};
}

// Quantises one unit after the other; the quantiser divides each unit's work. If units are wholes, their symbols may
// need fewer bytes than reserved.
SummedBytes Chain::quantise_one_by_one(const Bucket& bucket, const Streams& streams, std::span<std::byte> side,
                                       std::span<std::byte> packed) {
  Quantise& stage = *stages_.quantise;
  std::size_t used = 0;
  for (Unit& unit : units_) {
    if (unit.kept == 0) continue;
    const auto its_side = side.first(parts_->side_bytes(unit.kept));
    if (!stage.encode(values_of(unit, bucket, streams), its_side, packed.subspan(used, unit.packed))) {
      throw_not_finite(unit, bucket, streams.key);
    }
    if (parts_->whole != nullptr) unit.packed = parts_->whole->packed_size(its_side, unit.kept);
    used += unit.packed;
    side = side.subspan(its_side.size());
  }
  const auto written = packed.first(used);
  kernels::JoinedCrc joined;
  join_in_order<std::uint32_t>(
      pool_, used, pool_.grain(),
      [&](std::size_t begin, std::size_t end) { return kernels::crc32(0, written.subspan(begin, end - begin)); },
      [&](std::size_t begin, std::uint32_t crc) { joined.add(crc, std::min(pool_.grain(), used - begin)); });
  return {{0, used}, joined.value()};
}

void Chain::throw_not_finite(const Unit& unit, const Bucket& bucket, const Key& key) {
  std::size_t number = unit.slot;
  while (parts_->pools && number + 1 < slots_.size() &&
         kernels::all_finite(values_.room(values_in_slots()).subspan(slots_[number].value, slots_[number].values()))) {
    ++number;
  }
  throw_not_finite(slots_[number].piece.segment, bucket, key);
}

// A transform adds values up, and an unbiased selection divides them by probabilities, so finite values may exceed the
// range of floats.
void Chain::throw_not_finite(std::size_t segment, const Bucket& bucket, const Key& key) {
  const Segment& one = bucket.layout->segments()[segment];
  if (!kernels::all_finite(bucket.values.subspan(one.offset, one.numel()))) throw_not_finite(one.name, key);
  throw NumericError(fmt::format("{} has values that this codec makes too large for floats{}", one.name, where(key)));
}

// Quantises slice by slice and adds each slice to the checksum while it is in the cache. `crc` covers the bytes before,
// and is updated.
bool Chain::quantise(const Values& values, std::span<std::byte> side, std::span<std::byte> packed, std::uint32_t& crc) {
  Quantise& stage = *stages_.quantise;
  const std::size_t count = values.data.size();
  for (std::size_t begin = 0; begin < count; begin += parts_->slice) {
    const std::size_t size = std::min(parts_->slice, count - begin);
    const auto bytes = packed.subspan(parts_->packed_bytes(begin), parts_->packed_bytes(size));
    if (!stage.encode(values.part(begin, size), side.subspan(parts_->side_bytes(begin), parts_->side_bytes(size)),
                      bytes))
      return false;
    crc = kernels::crc32(crc, bytes);
  }
  return true;
}

}  // namespace sotto
