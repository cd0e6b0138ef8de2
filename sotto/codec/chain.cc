#include "sotto/codec/chain.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "sotto/codec/contract.h"
#include "sotto/core/bytes.h"
#include "sotto/core/error.h"
#include "sotto/kernels/reduce.h"
#include "sotto/kernels/vector.h"

namespace sotto {
namespace {

// Header flags.
constexpr std::uint8_t flag_bitmap = 1;  // indices are a bitmap
constexpr std::uint8_t flag_coded = 2;   // the body went through the code stage

constexpr std::size_t length_bytes = sizeof(std::uint32_t);  // in front of indices and of coded bodies

std::string joined_sentence(const Stages& stages) {
  std::string sentence;
  const auto append = [&](const Stage* stage) {
    if (stage == nullptr) return;
    if (!sentence.empty()) sentence += " | ";
    sentence += stage->sentence();
  };
  append(stages.transform.get());
  append(stages.select.get());
  append(stages.quantise.get());
  append(stages.code.get());
  return sentence;
}

[[noreturn]] void not_finite(std::string_view segment, const Key& key) {
  throw NumericError(fmt::format("{} is not finite at step {} on rank {}", segment, key.step, key.rank));
}

}  // namespace

Chain::Chain(Stages stages) : stages_(std::move(stages)), sentence_(joined_sentence(stages_)) {}

Contract Chain::contract(const Layout& layout) const {
  const std::size_t largest = plan(layout, {0, layout.size()}).largest;
  Contract contract{.linear = true, .input = Contract::Input::model};
  if (stages_.transform) contract = stages_.transform->contract(layout);
  if (stages_.select) {
    counts_.clear();
    for (const Slot& slot : slots_) counts_.push_back(slot.atoms.count);
    contract = compose(contract, stages_.select->contract(counts_));
  }
  const Contract quantise = stages_.quantise->contract(largest);
  // Without a stage before it the quantiser's own blocks are where parts may be cut.
  contract = stages_.transform || stages_.select ? compose(contract, quantise) : quantise;
  contract.linear = contract.linear && !stages_.code;
  return contract;
}

std::size_t Chain::max_bytes(const Layout& layout, Range part) const {
  return sizeof(Header) + plan(layout, part).max_body;
}

Chain::Plan Chain::plan(const Layout& layout, Range part) const {
  cut_pieces(layout, part, pieces_);
  Plan plan;
  slots_.clear();
  counts_.clear();
  for (const Piece& piece : pieces_) {
    const Atoms atoms = stages_.transform ? stages_.transform->atoms(layout, piece) : Atoms{piece.range.size(), 1};
    slots_.push_back({piece, atoms, plan.atoms, plan.rows, atoms.count, plan.atoms});
    counts_.push_back(atoms.count);
    plan.atoms += atoms.count;
    plan.rows += atoms.values();
  }
  limits_ = counts_;
  plan.most = stages_.select ? stages_.select->limits(counts_, limits_) : plan.atoms;

  // Pieces together cannot send more than `most` atoms, and each rounds up to whole bytes once.
  std::size_t packed = 0;
  std::size_t widest = 0;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const std::size_t values = limits_[i] * slots_[i].atoms.width;
    plan.max_body += stages_.quantise->side_bytes(values);
    packed += stages_.quantise->packed_bytes(values);
    widest = std::max(widest, slots_[i].atoms.width);
    plan.largest = std::max(plan.largest, values);
  }
  plan.max_body += std::min(packed, stages_.quantise->packed_bytes(plan.most * widest) + slots_.size());
  if (stages_.select) plan.max_body += length_bytes + max_index_bytes(plan.most, plan.atoms);
  if (std::max({plan.max_body, plan.atoms, part.size()}) > std::numeric_limits<std::uint32_t>::max()) {
    throw ConfigError(fmt::format("{} elements are too many for one message; use smaller buckets", part.size()));
  }
  return plan;
}

// What no message of this layout will exceed, however many atoms it selects.
void Chain::reserve(const Plan& plan) const {
  if (stages_.code) coded_.room(plan.max_body);
  if (!stages_.transform && !stages_.select) return;
  indices_.room(plan.most);
  values_.room(plan.largest);
  numbers_.room(plan.largest);
}

void Chain::encode(const Bucket& bucket, const Key& key, std::span<const float>, std::span<const Range> parts,
                   std::span<Message> out) {
  if (out.size() != parts.size()) throw std::logic_error("Codec::encode: one message per part");
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
      not_finite(bucket.layout->segments()[slot.piece.segment].name, key);
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

void Chain::add_decoded(const MessageView& message, Range part, float scale, Bucket& out) const {
  const Header& header = message.header();
  if (out.values.size() != out.layout->size()) throw std::logic_error("Codec::add_decoded: bucket and layout differ");
  const Plan plan = this->plan(*out.layout, part);
  if (header.elements != part.size() || header.contract != contract_hash(sentence_, *out.layout, part)) {
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
  // Twice through the pieces: everything is checked before anything is added.
  for (const bool add : {false, true}) {
    auto side = sections.side;
    auto packed = sections.packed;
    for (const Slot& slot : slots_) {
      const auto its_side = side.first(stages_.quantise->side_bytes(slot.values()));
      const auto its_packed = packed.first(stages_.quantise->packed_bytes(slot.values()));
      side = side.subspan(its_side.size());
      packed = packed.subspan(its_packed.size());
      if (add) {
        add_slot(slot, its_side, its_packed, scale, out);
      } else {
        stages_.quantise->check(its_side, its_packed);
      }
    }
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

const LinearForm* Chain::linear() const {
  return stages_.transform || stages_.select || stages_.code ? nullptr : stages_.quantise->linear();
}

std::optional<DType> Chain::linear_type() const {
  return linear() != nullptr ? std::optional(linear()->type()) : std::nullopt;
}

std::size_t Chain::linear_count(const Layout& layout) const { return linear() != nullptr ? layout.size() : 0; }

void Chain::to_linear(const Bucket& bucket, float scale, const Key& key, std::span<std::byte> out) {
  const LinearForm* form = linear();
  if (form == nullptr) throw std::logic_error("Codec::to_linear: " + sentence_ + " is not linear");
  if (form->write(bucket.values, scale, out)) return;
  for (const Segment& segment : bucket.layout->segments()) {
    const Range range = segment.range();
    const auto values = bucket.values.subspan(range.begin, range.size());
    if (form->write(values, scale, out.first(range.size() * size_of(form->type())))) continue;
    if (!kernels::all_finite(values)) not_finite(segment.name, key);
    throw NumericError(fmt::format("{} does not fit {} at step {} on rank {}: use bf16, or gather the messages",
                                   segment.name, name_of(form->type()), key.step, key.rank));
  }
  throw std::logic_error("Codec::to_linear: padding is not zero");
}

void Chain::from_linear(std::span<const std::byte> in, float scale, Bucket& out) const {
  if (linear() == nullptr) throw std::logic_error("Codec::from_linear: " + sentence_ + " is not linear");
  std::fill(out.values.begin(), out.values.end(), 0.0F);
  linear()->add(in, scale, out.values);
  out.layout->clear_padding(out.values);
}

}  // namespace sotto
