#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "sotto/codec/chain.h"
#include "sotto/core/bytes.h"
#include "sotto/core/error.h"
#include "sotto/kernels/vector.h"

namespace sotto {
namespace {

// What is left of the last byte behind `bits` bits must be zero.
void check_padding(std::span<const std::byte> packed, std::size_t bits) {
  if (bits % 8 != 0 && (packed.back() >> (bits % 8)) != std::byte{0}) {
    throw WireError("bits behind the last symbol of a segment that are not zero");
  }
}

}  // namespace

std::span<const std::byte> Chain::decompress(std::span<const std::byte> body, const Plan& plan) const {
  ByteReader reader(body);
  const auto size = reader.get<std::uint32_t>("coded body");
  if (size > plan.max_body) {
    throw WireError(fmt::format("a body of {} bytes, where {} are the most", size, plan.max_body));
  }
  const auto raw = coded_.room(plan.max_body).first(size);
  stages_.code->decode(reader.rest(), raw);
  return raw;
}

Chain::Sections Chain::read_body(std::span<const std::byte> body, std::uint8_t flags, const Plan& plan) const {
  ByteReader reader(body);
  Sections sections;
  if (stages_.select) {
    const auto bytes = reader.get<std::uint32_t>("length of the index list");
    if (bytes > reader.left()) throw WireError("truncated index list");
    sections.index = reader.rest().last(bytes);
    const auto code = (flags & flag_bitmap) != 0 ? IndexCode::bitmap : IndexCode::delta;
    const auto room = indices_.room(plan.most);
    const auto indices = room.first(read_indices(sections.index, code, plan.atoms, room));
    auto next = indices.begin();
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      Slot& slot = slots_[i];
      const auto begin = next;
      next = std::lower_bound(begin, indices.end(), slot.first + slot.atoms.count);
      slot.sent = static_cast<std::size_t>(begin - indices.begin());
      slot.selected = static_cast<std::size_t>(next - begin);
      if (slot.selected > limits_[i]) {
        throw WireError(
            fmt::format("{} atoms selected of a segment, where {} are the most", slot.selected, limits_[i]));
      }
    }
  }
  std::size_t side = 0;
  std::size_t packed = 0;
  for (const Slot& slot : slots_) {
    side += stages_.quantise->side_bytes(slot.values());
    packed += stages_.quantise->packed_bytes(slot.values());
  }
  if (reader.left() != side + packed + sections.index.size()) {
    throw WireError(fmt::format("a body of {} bytes where {} make the message", reader.left(),
                                side + packed + sections.index.size()));
  }
  sections.side = reader.take(side, "side information");
  sections.packed = reader.take(packed, "symbols");
  return sections;
}

// Everything is checked; the slots are then those of this message.
Chain::Sections Chain::open(const MessageView& message, const Layout& layout, Range part) const {
  const Header& header = message.header();
  const Plan plan = this->plan(layout, part);
  if (header.elements != part.size() || header.contract != contract_hash(sentence_, layout, part)) {
    throw WireError(
        fmt::format("message of rank {} was made by another codec or for another layout or part: {} elements, "
                    "contract {:08x}; here `{}` with {} elements",
                    header.origin, header.elements, header.contract, sentence_, part.size()));
  }
  const unsigned allowed = (stages_.select ? flag_bitmap : 0U) | (stages_.code ? flag_coded : 0U);
  if ((header.flags & ~allowed) != 0) throw WireError(fmt::format("message with unknown flags {:02x}", header.flags));

  reserve(plan);
  const auto body = (header.flags & flag_coded) != 0 ? decompress(message.body(), plan) : message.body();
  const auto sections = read_body(body, header.flags, plan);
  auto side = sections.side;
  auto packed = sections.packed;
  for (const Slot& slot : slots_) {
    const auto its_side = side.first(stages_.quantise->side_bytes(slot.values()));
    const auto its_packed = packed.first(stages_.quantise->packed_bytes(slot.values()));
    side = side.subspan(its_side.size());
    packed = packed.subspan(its_packed.size());
    check_padding(its_packed, slot.values() * stages_.quantise->width());
    stages_.quantise->check(its_side, its_packed);
  }
  return sections;
}

void Chain::check(const MessageView& message, const Layout& layout, Range part) const { open(message, layout, part); }

void Chain::add_decoded(const MessageView& message, Range part, float scale, Bucket& out) const {
  if (out.values.size() != out.layout->size()) throw std::logic_error("Codec::add_decoded: bucket and layout differ");
  auto [side, packed, index] = open(message, *out.layout, part);
  for (const Slot& slot : slots_) {
    const auto its_side = side.first(stages_.quantise->side_bytes(slot.values()));
    const auto its_packed = packed.first(stages_.quantise->packed_bytes(slot.values()));
    side = side.subspan(its_side.size());
    packed = packed.subspan(its_packed.size());
    add_slot(slot, its_side, its_packed, scale, out);
  }
}

void Chain::add_slot(const Slot& slot, std::span<const std::byte> side, std::span<const std::byte> packed, float scale,
                     Bucket& out) const {
  const auto target = out.values.subspan(slot.piece.range.begin, slot.piece.range.size());
  if (!stages_.transform && !stages_.select) {
    stages_.quantise->add_decoded(side, packed, scale, target);
    return;
  }
  const auto values = values_.room(slot.values());
  std::fill(values.begin(), values.end(), 0.0F);
  const auto indices = indices_.room(slot.sent + slot.selected).subspan(slot.sent);
  const auto first = static_cast<std::uint32_t>(slot.first);
  if (!stages_.transform) {
    stages_.quantise->add_decoded(side, packed, scale, values);
    kernels::scatter_add(values, indices, first, target);
    return;
  }
  stages_.quantise->add_decoded(side, packed, 1, values);
  const auto numbers = numbers_.room(slot.selected);
  if (stages_.select) {
    std::transform(indices.begin(), indices.end(), numbers.begin(), [first](std::uint32_t i) { return i - first; });
  } else {
    std::iota(numbers.begin(), numbers.end(), 0U);
  }
  stages_.transform->add_inverse(*out.layout, slot.piece, numbers, values, scale, target);
}

}  // namespace sotto
