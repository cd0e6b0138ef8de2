#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "sotto/codec/chain.h"
#include "sotto/codec/shared_work.h"
#include "sotto/core/bytes.h"
#include "sotto/kernels/reduce.h"
#include "sotto/kernels/vector.h"

namespace sotto {
namespace {

// Copies the selected rows, of one float each. Rows of consecutive indices are copied together: selections that leave
// out little have many such rows.
void gather_floats(std::span<const std::uint32_t> indices, std::uint32_t first, std::span<const float> rows,
                   std::span<float> out) {
  constexpr std::size_t run = 64;
  for (std::size_t i = 0; i < indices.size(); i += run) {
    const auto some = indices.subspan(i, std::min(run, indices.size() - i));
    if (some.back() - some.front() + std::size_t{1} == some.size()) {
      std::ranges::copy(rows.subspan(some.front() - first, some.size()), out.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      for (std::size_t j = 0; j < some.size(); ++j) out[i + j] = rows[some[j] - first];
    }
  }
}

}  // namespace

void Chain::reserve(const Plan& plan) {
  reserve_message(plan);
  crcs_.reserve(plan.values / parts_->stretch + 2);
  if (!stages_.select) return;
  reserve_selection(plan);
  if (stages_.within) stages_.within.reserve(plan.values, plan.units);
  numbers_.room(plan.values);
  if (stages_.within) kept_numbers_.room(plan.values);
  if (stages_.within.traits().scales) scales_.room(plan.values);
}

void Chain::propose(const Bucket& bucket, std::span<float> numbers) {
  const std::size_t each = parts_->agreed_count();
  const auto segments = bucket.layout->segments();
  if (numbers.size() != parts_->agreed_count(*bucket.layout)) {
    throw std::logic_error("Codec::propose: agreed_count() numbers");
  }
  if (numbers.empty()) return;
  if (parts_->pools) {
    const Plan plan = this->plan(*bucket.layout, {0, bucket.layout->size()});
    values_.room(plan.values);
    return parts_->agreed->propose(gather_pieces(bucket), place_of(bucket.index, 0), numbers);
  }
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const Range range = segments[i].range();
    parts_->agreed->propose(bucket.values.subspan(range.begin, range.size()), place_of(bucket.index, i),
                            numbers.subspan(i * each, each));
  }
}

void Chain::encode(const Bucket& bucket, const Key& key, std::span<const float> agreed, std::span<const Range> parts,
                   std::span<Message> out) {
  if (out.size() != parts.size()) throw std::logic_error("Codec::encode: one message per part");
  if (parts.size() > std::numeric_limits<std::uint16_t>::max()) throw std::logic_error("Codec::encode: too many parts");
  if (bucket.values.size() != bucket.layout->size()) throw std::logic_error("Codec::encode: bucket and layout differ");
  if (agreed.size() != parts_->agreed_count(*bucket.layout)) {
    throw std::logic_error("Codec::encode: agreed_count() numbers");
  }
  const auto odd = std::ranges::find_if(agreed, [](float number) { return !std::isfinite(number); });
  if (odd != agreed.end()) {
    const auto segment = static_cast<std::size_t>(odd - agreed.begin()) / parts_->agreed_count();
    throw_not_finite("what the ranks agreed on for " + bucket.layout->segments()[segment].name, key);
  }
  agreed_ = agreed;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    encode_part(bucket, key, parts[i], static_cast<std::uint16_t>(i), out[i]);
  }
}

void Chain::encode_part(const Bucket& bucket, const Key& key, Range part, std::uint16_t number, Message& out) {
  const Plan plan = this->plan(*bucket.layout, part);
  const Streams streams{key, bucket.index};
  const std::span<std::byte> body = out.begin(plan.max_body);
  ByteWriter writer(body);
  Header header{.generation = key.generation,
                .origin = key.rank,
                .step = key.step,
                .bucket = bucket.index,
                .part = number,
                .elements = static_cast<std::uint32_t>(part.size()),
                .contract = contract_hash(parts_->traits.text, *bucket.layout, part)};

  reserve(plan);
  for (const Slot& slot : slots_) stages_.quantise->reserve(place_of(slot, streams), plan.largest);
  IndexPlan index;
  IndexPlan within;
  std::span<const std::uint32_t> indices;
  std::span<const std::uint32_t> indices_within;
  if (stages_.transform) apply_transform(bucket, streams, plan);
  if (stages_.select) {
    indices = apply_select(bucket, streams, plan);
    takes_all_ = may_take_all() && indices.size() == plan.blocks;
    if (!takes_all_) gather_rows(bucket, streams);
  } else if (parts_->pools) {
    gather_pieces(bucket);
  }
  if (parts_->selection_is_shared()) {
    writer.put(key.seed);
  } else if (stages_.select) {
    index = plan_indices(pool_, indices, plan.blocks);
    header.flags |= index_flags.of(index.code);
    writer.put(static_cast<std::uint32_t>(index.bytes));
  }
  cut_units();
  if (stages_.within) {
    indices_within = apply_select_within(bucket, streams);
    within = plan_indices(pool_, indices_within, values_in_slots());
    header.flags |= within_flags.of(within.code);
    writer.put(static_cast<std::uint32_t>(within.bytes));
  }

  const std::size_t head = writer.used();
  std::size_t side_bytes = 0;
  std::size_t packed_bytes = 0;
  for (Unit& unit : units_) {
    unit.packed = parts_->packed_bytes(unit.kept);
    side_bytes += parts_->side_bytes(unit.kept);
    packed_bytes += unit.packed;
  }
  const auto side = writer.take(side_bytes);
  SummedBytes packed = quantise_units(bucket, streams, side, writer.rest().first(packed_bytes));
  if (stages_.transform) require_readable({side, writer.rest().first(packed.range.size())}, bucket, key);
  packed.range = {writer.used(), writer.used() + packed.range.size()};
  writer.take(packed.range.size());
  if (stages_.within) write_indices(pool_, indices_within, within, writer.take(within.bytes));
  if (index.bytes > 0) write_indices(pool_, indices, index, writer.take(index.bytes));

  std::size_t size = writer.used();
  if (stages_.code) {
    if (const std::size_t coded = compress(body.first(size), head, packed.range); coded > 0) {
      header.flags |= flag_coded;
      size = coded;
      packed = {};
    }
  }
  out.finish(header, size, packed);
}

// Readers refuse rows whose sums may be too large. Quantising, or scaling the floats within rows, may enlarge the rows.
// If they are near the limit, this function decodes them and checks them as a reader does.
void Chain::require_readable(const Quantised& written, const Bucket& bucket, const Key& key) {
  constexpr double margin = 0x1p48;
  bool near = false;
  for (const Slot& slot : slots_) {
    const auto all = stages_.select ? values_.room(slot.value + slot.values()) : rows_.room(slot.value + slot.values());
    near = near || !(bound_of_sums(slot, all.subspan(slot.value)) * margin <= std::numeric_limits<float>::max());
  }
  if (stages_.within.traits().scales && !units_.empty()) {
    const std::size_t kept = units_.back().kept_at + units_.back().kept;
    const float most = std::bit_cast<float>(kernels::max_abs_bits(kept_values_.room(kept)));
    near = near || static_cast<double>(kept) * most * most * margin > std::numeric_limits<float>::max();
  }
  if (!near) return;
  if (!parts_->whole) cut_stretches(parts_->slice);
  decode_units(written, 1);
  if (const Slot* slot = too_large()) {
    throw NumericError(fmt::format("{} has values whose sums are too large for floats{}",
                                   bucket.layout->segments()[slot->piece.segment].name, where(key)));
  }
}

void Chain::apply_transform(const Bucket& bucket, const Streams& streams, const Plan& plan) {
  const auto rows = rows_.room(plan.rows);
  const auto energies = energies_.room(plan.rows > plan.atoms ? plan.atoms : 0);
  const bool factors = stages_.transform->traits().factors;
  for (const Slot& slot : slots_) {
    const Range range = slot.piece.range;
    const auto its_rows = rows.subspan(slot.row, slot.atoms.values());
    stages_.transform->forward(*bucket.layout, slot.piece, streams, bucket.values.subspan(range.begin, range.size()),
                               slot.atoms.width == 1 ? its_rows : energies.subspan(slot.first, slot.atoms.count),
                               factors ? std::span<float>() : its_rows);
  }
  for (const Slot& slot : slots_) {
    if (!factors || stages_.select) break;
    write_factors(slot, bucket, streams, rows.subspan(slot.row, slot.atoms.values()));
  }
}

// Writes the rows of all selected atoms of a slot, or of all its atoms.
void Chain::write_factors(const Slot& slot, const Bucket& bucket, const Streams& streams, std::span<float> rows) {
  const Range range = slot.piece.range;
  stages_.transform->write_factors(*bucket.layout, slot.piece, streams,
                                   bucket.values.subspan(range.begin, range.size()), atoms_of(slot), rows);
}

// Whether the values are the bucket's own if all are selected, so that none need be moved.
bool Chain::may_take_all() const {
  const auto& select = stages_.select.traits();
  return !stages_.transform && !stages_.within && !parts_->pools && select.block == 1 && !select.scales;
}

// Gathers and scales the rows of the selected atoms, and lists the number of each float within its segment.
void Chain::gather_rows(const Bucket& bucket, const Streams& streams) {
  const std::size_t block = stages_.select.traits().block;
  const std::size_t count = values_in_slots();
  const auto all_values = values_.room(count);
  const auto all_numbers = numbers_.room(count);
  for (const Slot& slot : slots_) {
    const std::size_t width = slot.atoms.width;
    const auto rows = stages_.transform ? rows_.room(slot.row + slot.atoms.values()).subspan(slot.row)
                                        : bucket.values.subspan(slot.piece.range.begin, slot.piece.range.size());
    const auto indices = indices_.room(slot.selected_at + slot.selected).subspan(slot.selected_at);
    const auto values = all_values.subspan(slot.value, slot.values());
    const auto numbers = all_numbers.subspan(slot.value, slot.values());
    const auto first = static_cast<std::uint32_t>(slot.first);
    const bool factors = stages_.transform && stages_.transform->traits().factors;
    if (factors) write_factors(slot, bucket, streams, values);
    const bool scaled = stages_.select.traits().scales;
    const auto scales = scales_.room(scaled ? slot.taken_at + slot.taken : 0).subspan(scaled ? slot.taken_at : 0);
    const std::size_t scaled_floats = slot.atoms.split > 0 ? slot.atoms.split : width;
    pool_.run_stretches(indices.size(), scattered_grain(pool_), [&](std::size_t begin, std::size_t end) {
      if (width == 1 && !factors) {
        const auto some = indices.subspan(begin, end - begin);
        gather_floats(some, first, rows, values.subspan(begin));
        const auto before = static_cast<std::uint32_t>(slot.atoms.first) - first;
        std::ranges::transform(some, &numbers[begin], [before](std::uint32_t index) { return before + index; });
      }
      for (std::size_t j = begin; (width > 1 || factors) && j < end; ++j) {
        const std::size_t atom = indices[j] - first;
        for (std::size_t c = 0; c < width; ++c) {
          numbers[j * width + c] = static_cast<std::uint32_t>((slot.atoms.first + atom) * width + c);
          if (!factors) values[j * width + c] = rows[atom * width + c];
        }
      }
      for (std::size_t j = begin; scaled && j < end; ++j) {
        kernels::scale(scales[j / block], values.subspan(j * width, scaled_floats));
      }
    });
  }
}

// Copies all pieces one after the other, without the padding between them.
std::span<const float> Chain::gather_pieces(const Bucket& bucket) {
  const auto values = values_.room(values_in_slots());
  for (const Slot& slot : slots_) {
    const Range range = slot.piece.range;
    std::ranges::copy(bucket.values.subspan(range.begin, range.size()), values.subspan(slot.value).begin());
  }
  return values;
}

// The second selection: every unit is a group. The floats that it keeps are moved together.
std::span<const std::uint32_t> Chain::apply_select_within(const Bucket& bucket, const Streams& streams) {
  const std::size_t count = values_in_slots();
  const auto values = values_.room(count);
  const auto numbers = numbers_.room(count);
  groups_.clear();
  for (const Unit& unit : units_) {
    const std::size_t number = slots_[unit.slot].piece.segment;
    const Segment& segment = bucket.layout->segments()[number];
    groups_.push_back({values.subspan(unit.value, unit.count), number, segment.shape.size(), segment.numel(),
                       static_cast<std::uint32_t>(unit.value), unit.count > 0 ? numbers[unit.value] : 0, unit.count});
  }
  require_finite(*stages_.within, bucket, streams.key);
  counts_.resize(units_.size());
  Streams second = streams;
  if (stages_.within.traits().shared) second.key.rank = 0;
  second.selection = Purpose::select_within;
  const auto scales = scales_.room(stages_.within.traits().scales ? count : 0);
  const std::size_t total = stages_.within.select(groups_, second, within_.room(count), counts_, scales);

  const auto kept_values = kept_values_.room(total);
  const auto kept_numbers = kept_numbers_.room(total);
  const auto within = within_.room(count).first(total);
  for (std::size_t j = 0; j < total; ++j) {
    kept_values[j] = values[within[j]] * (scales.empty() ? 1.0F : scales[j]);
    kept_numbers[j] = numbers[within[j]];
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < units_.size(); ++i) {
    units_[i].kept_at = kept;
    units_[i].kept = counts_[i];
    kept += counts_[i];
  }
  return within;
}

}  // namespace sotto
