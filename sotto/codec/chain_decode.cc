#include <fmt/format.h>

#include <bit>
#include <numeric>

#include "sotto/codec/chain.h"
#include "sotto/codec/shared_work.h"
#include "sotto/core/bytes.h"
#include "sotto/kernels/bits.h"
#include "sotto/kernels/reduce.h"
#include "sotto/kernels/vector.h"

namespace sotto {
namespace {

template <class T>
std::span<T> part_of(std::span<T> all, Range range) {
  return all.subspan(range.begin, range.size());
}

}  // namespace

Quantised ChainReader::read_body(std::span<const std::byte> body, const Header& header, const Layout& layout,
                                 const Plan& plan) {
  ByteReader reader(body);
  const bool is_shared = parts_->selection_is_shared();
  if (is_shared) {
    const auto seed = reader.get<std::uint64_t>("seed of what is selected");
    select_known(layout, {{.seed = seed, .step = header.step}, header.bucket}, plan);
  }
  const bool listed = stages_.select && !is_shared;
  const std::uint32_t index = listed ? reader.get<std::uint32_t>("length of the index list") : 0;
  const std::uint32_t within = stages_.within ? reader.get<std::uint32_t>("length of the second index list") : 0;
  if (std::uint64_t{index} + within > reader.left()) throw WireError("truncated index list");
  // The index lists are at the end of the body or, if only the symbols were coded, before everything else.
  const bool symbols_coded = (header.flags & flag_coded) != 0 && stages_.code->of_symbols();
  const std::size_t lists_bytes = std::size_t{index} + within;
  const auto lists = symbols_coded ? reader.take(lists_bytes, "index list") : reader.rest().last(lists_bytes);
  index_list_ = lists.last(index);
  within_list_ = lists.first(within);
  if (listed) read_selected(index_list_, index_flags.in(header.flags), plan);
  cut_units();
  if (stages_.within) read_selected_within(within_list_, within_flags.in(header.flags));

  std::size_t side_bytes = 0;
  for (const Unit& unit : units_) side_bytes += parts_->side_bytes(unit.kept);
  const std::size_t left = reader.left();
  const auto side = reader.take(side_bytes, "side information");
  const std::size_t packed = read_sizes(side);
  if (symbols_coded) return {side, decompress_symbols(reader.rest(), side, packed)};
  if (left != side_bytes + packed + within + index) {
    throw WireError(
        fmt::format("a body of {} bytes where {} make the message", left, side_bytes + packed + within + index));
  }
  return {side, reader.take(packed, "symbols")};
}

// Reads the size of each unit's symbols; returns the total in bytes.
std::size_t ChainReader::read_sizes(std::span<const std::byte> side) {
  std::size_t total = 0;
  for (Unit& unit : units_) {
    unit.packed = parts_->packed_bytes(unit.kept);
    if (parts_->whole != nullptr && unit.kept > 0) {
      const std::size_t bytes = parts_->side_bytes(unit.kept);
      const std::size_t size = parts_->whole->packed_size(side.first(bytes), unit.kept);
      side = side.subspan(bytes);
      if (size > unit.packed)
        throw WireError(fmt::format("{} bytes of symbols, where {} are the most", size, unit.packed));
      unit.packed = size;
    }
    total += unit.packed;
  }
  return total;
}

void ChainReader::read_selected(std::span<const std::byte> index, IndexCode code, const Plan& plan) {
  const auto room = room_for_blocks(plan);
  const auto taken = room.first(read_indices(pool_, index, code, plan.blocks, room));
  auto next = taken.begin();
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    const auto begin = next;
    next = std::lower_bound(begin, taken.end(), slot.first_block + slot.blocks);
    slot.taken = static_cast<std::size_t>(next - begin);
    if (slot.taken > limits_[i]) {
      throw WireError(fmt::format("{} atoms selected of a segment, where {} are the most", slot.taken, limits_[i]));
    }
  }
  spread_blocks(taken, plan);
}

void ChainReader::read_selected_within(std::span<const std::byte> index, IndexCode code) {
  const std::size_t count = values_in_slots();
  const auto room = within_.room(count);
  const auto within = room.first(read_indices(pool_, index, code, count, room));
  auto next = within.begin();
  for (Unit& unit : units_) {
    const auto begin = next;
    next = std::lower_bound(begin, within.end(), unit.value + unit.count);
    unit.kept_at = static_cast<std::size_t>(begin - within.begin());
    unit.kept = static_cast<std::size_t>(next - begin);
  }
}

void ChainReader::require_open(const char* caller) const {
  if (!is_open_) throw std::logic_error(fmt::format("{}: no message is open", caller));
}

void ChainReader::open(const MessageView& message, const Layout& layout, Range part) {
  is_open_ = false;
  const Header& header = message.header();
  const Plan plan = this->plan(layout, part);
  if (header.elements != part.size() || header.contract != contract_hash(parts_->traits.text, layout, part)) {
    throw WireError(
        fmt::format("message of rank {} was made by another codec or for another layout or part: {} elements, "
                    "contract {:08x}; here `{}` with {} elements",
                    header.origin, header.elements, header.contract, parts_->traits.text, part.size()));
  }
  const unsigned allowed = (stages_.select && !parts_->selection_is_shared() ? index_flags.all() : 0U) |
                           (stages_.within ? within_flags.all() : 0U) | (stages_.code ? flag_coded : 0U);
  if ((header.flags & ~allowed) != 0) throw WireError(fmt::format("message with unknown flags {:02x}", header.flags));

  reserve_message(plan);
  header_ = header;
  runs_.clear();
  const bool whole_coded = (header.flags & flag_coded) != 0 && !stages_.code->of_symbols();
  const auto body = whole_coded ? decompress(message.body(), plan) : message.body();
  quantised_ = read_body(body, header, layout, plan);
  if (parts_->whole == nullptr) cut_stretches(parts_->slice);
  visit_all_unit_parts([&](const UnitPart& some) {
    const Quantised its = quantised_.part(some.side, some.packed);
    if (!kernels::tail_is_zero(its.packed, some.values.size() * parts_->packing.width)) {
      throw WireError("bits after the last symbol of a segment that are not zero");
    }
    stages_.quantise->check(its, some.values.size());
  });
  if (stages_.transform) {
    decode_units(quantised_, 1);
    if (too_large() != nullptr) throw WireError("values whose sums are too large for floats");
  }
  is_open_ = true;
}

void ChainReader::add_to(Bucket& out, float scale) {
  require_open("MessageReader::add_to");
  if (out.values.size() != out.layout->size())
    throw std::logic_error("MessageReader::add_to: bucket and layout differ");
  if (parts_->in_place()) {
    visit_all_unit_parts([&](const UnitPart& some) {
      stages_.quantise->add_decoded(quantised_.part(some.side, some.packed), scale,
                                    part_of(out.values.subspan(some.unit->value), some.values));
    });
    return;
  }
  if (!stages_.transform) decode_units(quantised_, scale);
  for (const Slot& slot : slots_) add_rows(slot, scale, out);
}

void ChainReader::clear_chosen(Bucket& out) {
  require_open("MessageReader::clear_chosen");
  if (out.values.size() != out.layout->size())
    throw std::logic_error("MessageReader::clear_chosen: bucket and layout differ");
  if (stages_.transform || !stages_.select.chooses()) return;  // only rows have a second selection
  clear_selected(out);
}

void ChainMessage::clear_selected(Bucket& out) {
  for (const Slot& slot : slots_) {
    if (stages_.select.is_dense(out.layout->segments()[slot.piece.segment])) continue;
    const auto indices = indices_.room(slot.selected_at + slot.selected).subspan(slot.selected_at);
    const auto target = out.values.subspan(slot.piece.range.begin, slot.piece.range.size());
    kernels::scatter_fill(0, indices, static_cast<std::uint32_t>(slot.first), target);
  }
}

// Decodes all units into values_, times `scale`.
void ChainMessage::decode_units(const Quantised& in, float scale) {
  const auto values = values_.room(values_in_slots());
  const auto decoded =
      stages_.within ? kept_values_.room(units_.empty() ? 0 : units_.back().kept_at + units_.back().kept) : values;
  visit_all_unit_parts([&](const UnitPart& some) {
    const auto its = part_of(decoded.subspan(some.unit->kept_at), some.values);
    std::ranges::fill(its, 0.0F);
    stages_.quantise->add_decoded(in.part(some.side, some.packed), scale, its);
  });
  if (!stages_.within) return;
  std::ranges::fill(values, 0.0F);
  kernels::scatter_add(decoded, within_.room(decoded.size()), 0, values);
}

// An upper bound on the elements that these rows represent. Each product gets a separate bound: the first factor may be
// large in one product, and the second factor in another. NaN if one factor is infinite and the other zero.
double ChainMessage::bound_of_sums(const Slot& slot, std::span<const float> rows) {
  const auto most = [](std::span<const float> values) {
    return static_cast<double>(std::bit_cast<float>(kernels::max_abs_bits(values)));
  };
  const std::size_t split = slot.atoms.split;
  if (split == 0) return static_cast<double>(rows.size()) * most(rows);
  double sum = 0;
  for (std::size_t begin = 0; begin < rows.size(); begin += slot.atoms.width) {
    sum += most(rows.subspan(begin, split)) * most(rows.subspan(begin + split, slot.atoms.width - split));
  }
  return static_cast<double>(slot.atoms.width) * sum;
}

// Finite rows may represent sums that are not finite; no encoder sends such rows. REQUIRES the decoded rows in values_.
const ChainMessage::Slot* ChainMessage::too_large() {
  for (const Slot& slot : slots_) {
    const auto rows = values_.room(slot.value + slot.values()).subspan(slot.value);
    if (!(bound_of_sums(slot, rows) <= std::numeric_limits<float>::max())) return &slot;
  }
  return nullptr;
}

// REQUIRES the decoded rows of the slot in values_, already multiplied by `scale` if they are elements.
void ChainMessage::add_rows(const Slot& slot, float scale, Bucket& out) {
  const auto target = out.values.subspan(slot.piece.range.begin, slot.piece.range.size());
  const auto values = values_.room(slot.value + slot.values()).subspan(slot.value);
  if (!stages_.transform && !stages_.select) return kernels::axpy(1, values, target);
  const auto indices = indices_.room(slot.selected_at + slot.selected).subspan(slot.selected_at);
  const auto first = static_cast<std::uint32_t>(slot.first);
  if (!stages_.transform) {
    pool_.run_stretches(indices.size(), scattered_grain(pool_), [&](std::size_t begin, std::size_t end) {
      kernels::scatter_add(values.subspan(begin, end - begin), indices.subspan(begin, end - begin), first, target);
    });
    return;
  }
  stages_.transform->add_inverse(*out.layout, slot.piece, atoms_of(slot), values, scale, target);
}

// The numbers, within their piece, of the selected atoms.
std::span<const std::uint32_t> ChainMessage::atoms_of(const Slot& slot) {
  const auto numbers = atoms_.room(slot.selected);
  if (stages_.select) {
    const auto indices = indices_.room(slot.selected_at + slot.selected).subspan(slot.selected_at);
    const auto first = static_cast<std::uint32_t>(slot.first);
    std::ranges::transform(indices, numbers.begin(), [first](std::uint32_t i) { return i - first; });
  } else {
    std::iota(numbers.begin(), numbers.end(), 0U);
  }
  return numbers;
}

}  // namespace sotto
