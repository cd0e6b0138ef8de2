#include <algorithm>
#include <limits>
#include <stdexcept>

#include "sotto/codec/chain.h"
#include "sotto/core/bytes.h"
#include "sotto/kernels/vector.h"

namespace sotto {

void Chain::encode(const Bucket& bucket, const Key& key, std::span<const float>, std::span<const Range> parts,
                   std::span<Message> out) {
  if (out.size() != parts.size()) throw std::logic_error("Codec::encode: one message per part");
  if (parts.size() > std::numeric_limits<std::uint16_t>::max()) throw std::logic_error("Codec::encode: too many parts");
  if (bucket.values.size() != bucket.layout->size()) throw std::logic_error("Codec::encode: bucket and layout differ");
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
                .contract = contract_hash(sentence_, *bucket.layout, part)};

  reserve(plan);
  if (stages_.transform) apply_transform(bucket, streams, plan);
  IndexPlan index;
  std::span<const std::uint32_t> indices;
  if (stages_.select) {
    indices = indices_.room(plan.most).first(apply_select(bucket, streams, plan));
    index = plan_indices(indices, plan.atoms);
    if (index.code == IndexCode::bitmap) header.flags |= flag_bitmap;
    writer.put(static_cast<std::uint32_t>(index.bytes));
  }

  std::size_t side_bytes = 0;
  for (const Slot& slot : slots_) side_bytes += stages_.quantise->side_bytes(slot.values());
  ByteWriter side(writer.take(side_bytes));
  for (const Slot& slot : slots_) {
    const auto its_side = side.take(stages_.quantise->side_bytes(slot.values()));
    const auto its_packed = writer.take(stages_.quantise->packed_bytes(slot.values()));
    if (!stages_.quantise->encode(values_of(slot, bucket, streams), its_side, its_packed)) {
      throw_not_finite(bucket.layout->segments()[slot.piece.segment].name, key);
    }
  }
  if (stages_.select) write_indices(indices, index, writer.take(index.bytes));

  std::size_t size = writer.used();
  if (stages_.code) {
    if (const std::size_t coded = compress(body, size); coded > 0) {
      header.flags |= flag_coded;
      size = coded;
    }
  }
  out.finish(header, size);
}

void Chain::apply_transform(const Bucket& bucket, const Streams& streams, const Plan& plan) {
  const auto energies = energies_.room(plan.atoms);
  const auto rows = rows_.room(plan.rows);
  for (const Slot& slot : slots_) {
    const Range range = slot.piece.range;
    stages_.transform->forward(*bucket.layout, slot.piece, streams, bucket.values.subspan(range.begin, range.size()),
                               energies.subspan(slot.first, slot.atoms.count),
                               rows.subspan(slot.row, slot.atoms.values()));
  }
}

std::size_t Chain::apply_select(const Bucket& bucket, const Streams& streams, const Plan& plan) {
  groups_.clear();
  for (const Slot& slot : slots_) {
    const std::span<const float> energies =
        stages_.transform ? energies_.room(plan.atoms).subspan(slot.first, slot.atoms.count)
                          : bucket.values.subspan(slot.piece.range.begin, slot.piece.range.size());
    groups_.push_back({energies, slot.piece.segment, static_cast<std::uint32_t>(slot.first)});
  }
  const std::size_t selected = stages_.select->select(groups_, streams, indices_.room(plan.most), counts_,
                                                      scales_.room(stages_.select->scales() ? plan.most : 0));
  std::size_t sent = 0;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].selected = counts_[i];
    slots_[i].sent = sent;
    sent += counts_[i];
  }
  return selected;
}

// The rows of the slot's selected atoms, one after the other: in place where nothing was selected or scaled.
Values Chain::values_of(const Slot& slot, const Bucket& bucket, const Streams& streams) {
  const std::size_t width = slot.atoms.width;
  const std::span<const float> rows = stages_.transform
                                          ? rows_.room(slot.row + slot.atoms.values()).subspan(slot.row)
                                          : bucket.values.subspan(slot.piece.range.begin, slot.piece.range.size());
  kernels::Draws draws{
      streams.stream(Purpose::quantise, slot.piece.segment), static_cast<std::uint32_t>(slot.piece.first), {}};
  if (!stages_.select) return {rows, draws};

  const auto indices = indices_.room(slot.sent + slot.selected).subspan(slot.sent);
  const auto first = static_cast<std::uint32_t>(slot.first);
  const auto values = values_.room(slot.values());
  const auto numbers = numbers_.room(slot.values());
  for (std::size_t j = 0; j < indices.size(); ++j) {
    const std::size_t atom = indices[j] - first;
    for (std::size_t c = 0; c < width; ++c) {
      numbers[j * width + c] = static_cast<std::uint32_t>(atom * width + c);
      values[j * width + c] = rows[atom * width + c];
    }
  }
  if (stages_.select->scales()) {
    const auto scales = scales_.room(slot.sent + slot.selected).subspan(slot.sent);
    for (std::size_t j = 0; j < scales.size(); ++j) kernels::scale(scales[j], values.subspan(j * width, width));
  }
  draws.numbers = numbers;
  return {values, draws};
}

// Size of the coded body, which takes the place of the body; 0 when it would not be smaller.
std::size_t Chain::compress(std::span<std::byte> body, std::size_t size) {
  if (size <= length_bytes + 1) return 0;
  const auto coded = coded_.room(body.size()).first(size - length_bytes - 1);
  const auto coded_size = stages_.code->encode(body.first(size), coded);
  if (!coded_size) return 0;
  ByteWriter writer(body);
  writer.put(static_cast<std::uint32_t>(size));
  writer.put_bytes(coded.first(*coded_size));
  return writer.used();
}

}  // namespace sotto
