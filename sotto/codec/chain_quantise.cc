#include <algorithm>
#include <limits>

#include "sotto/codec/chain.h"
#include "sotto/codec/crc.h"
#include "sotto/codec/shared_work.h"

namespace sotto {
namespace {

constexpr std::size_t whole_units = std::numeric_limits<std::size_t>::max() / 2;

}  // namespace

Values Chain::values_of(const Unit& unit, const Bucket& bucket, const Streams& streams) {
  const Slot& slot = slots_[unit.slot];
  const ElementStream stream = streams.stream(Purpose::quantise, slot.piece.segment);
  const std::size_t end = unit.kept + unit.sent;
  if (stages_.within) {
    return {kept_values_.room(end).subspan(unit.kept), {stream, 0, kept_numbers_.room(end).subspan(unit.kept)}};
  }
  if (stages_.select) {
    return {values_.room(end).subspan(unit.kept), {stream, 0, numbers_.room(end).subspan(unit.kept)}};
  }
  const auto number = slot.atoms.first * slot.atoms.width + (unit.value - slot.value);
  const auto data =
      stages_.transform ? rows_.room(end).subspan(unit.value) : bucket.values.subspan(unit.value, unit.sent);
  return {data, {stream, static_cast<std::uint32_t>(number), {}}};
}

// Returns the CRC-32 of all symbols.
std::uint32_t Chain::quantise_units(const Bucket& bucket, const Streams& streams, std::span<std::byte> side,
                                    std::span<std::byte> packed) {
  cut_stretches(one_block_ ? whole_units : slice_);
  crcs_.resize(cuts_.size() - 1);
  const auto encode = [&](std::size_t stretch) {
    std::uint32_t crc = 0;
    visit_shares(stretch, [&](const Share& share) {
      const Values all = values_of(*share.unit, bucket, streams);
      const Range range = share.values;
      const Values values{all.data.subspan(range.begin, range.size()), all.draws.part(range.begin, range.size())};
      if (!quantise(values, side.subspan(share.side.begin, share.side.size()),
                    packed.subspan(share.packed.begin, share.packed.size()), crc)) {
        const Piece& piece = slots_[share.unit->slot].piece;
        throw_not_finite(bucket.layout->segments()[piece.segment].name, streams.key);
      }
    });
    crcs_[stretch] = crc;
  };
  JoinedCrc joined;
  if (one_block_) {  // one unit after the other, each of which is shared out
    for (std::size_t stretch = 0; stretch < crcs_.size(); ++stretch) encode(stretch);
    join_in_order<std::uint32_t>(
        *workers_, packed.size(), workers_->grain(),
        [&](std::size_t begin, std::size_t end) { return crc32(0, packed.subspan(begin, end - begin)); },
        [&](std::size_t begin, std::uint32_t crc) {
          joined.add(crc, std::min(workers_->grain(), packed.size() - begin));
        });
    return joined.value();
  }
  workers_->run(crcs_.size(), encode);
  const auto begin_of = [&](const Cut& cut) { return cut.packed + stages_.quantise->packed_bytes(cut.begin); };
  for (std::size_t stretch = 0; stretch < crcs_.size(); ++stretch) {
    joined.add(crcs_[stretch], begin_of(cuts_[stretch + 1]) - begin_of(cuts_[stretch]));
  }
  return joined.value();
}

// Slice by slice, each of which is summed while it is in the cache: `crc` is that of what stands before it, and then of
// these, too. (What is quantised at once is summed later.)
bool Chain::quantise(const Values& values, std::span<std::byte> side, std::span<std::byte> packed, std::uint32_t& crc) {
  Quantise& stage = *stages_.quantise;
  if (one_block_) return stage.encode(values, side, packed);
  const std::size_t count = values.data.size();
  for (std::size_t begin = 0; begin < count; begin += slice_) {
    const std::size_t size = std::min(slice_, count - begin);
    const auto bytes = packed.subspan(stage.packed_bytes(begin), stage.packed_bytes(size));
    const Values part{values.data.subspan(begin, size), values.draws.part(begin, size)};
    if (!stage.encode(part, side.subspan(stage.side_bytes(begin), stage.side_bytes(size)), bytes)) return false;
    crc = crc32(crc, bytes);
  }
  return true;
}

}  // namespace sotto
