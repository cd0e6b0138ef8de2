#include <fmt/format.h>

#include "sotto/codec/chain.h"
#include "sotto/core/bytes.h"

namespace sotto {

// Lists the runs of symbols of all units, given their side information.
void ChainMessage::list_runs(std::span<const std::byte> side) {
  runs_.clear();
  for (std::size_t i = 0; i < units_.size(); ++i) {
    const Unit& unit = units_[i];
    const std::size_t first = runs_.size();
    const std::size_t its = parts_->side_bytes(unit.kept);
    if (unit.packed > 0 && parts_->whole != nullptr) {
      parts_->whole->list_runs(side.first(its), unit.kept, runs_);
    } else if (unit.packed > 0) {  // a code sees symbols that are packed in another way as bytes
      const unsigned width = parts_->packing.width;
      runs_.push_back(width > 0 ? SymbolRun{.width = width, .count = unit.kept} : SymbolRun{.count = unit.packed});
    }
    for (SymbolRun& run : std::span(runs_).subspan(first)) run.unit = i;
    side = side.subspan(its);
  }
}

// Returns the size of the coded body, which replaces the body, or 0 if it would not be smaller. The first `head` bytes
// are the seed, or the lengths of the index lists.
std::size_t Chain::compress(std::span<std::byte> body, std::size_t head, Range packed) {
  const bool apart = stages_.code->of_symbols();
  if (body.size() <= (apart ? 1 : length_bytes + 1)) return 0;
  const std::span<const std::byte> all = body;
  ByteWriter writer(coded_.room(body.size() - 1));
  std::optional<std::size_t> coded;
  if (apart) {
    if (all.size() - packed.size() >= body.size() - 1) return 0;
    writer.put_bytes(all.first(head));
    writer.put_bytes(all.subspan(packed.end));
    const auto side = all.subspan(head, packed.begin - head);
    writer.put_bytes(side);
    list_runs(side);
    coded = stages_.code->encode({all.subspan(packed.begin, packed.size()), runs_}, writer.rest());
  } else {
    writer.put(static_cast<std::uint32_t>(body.size()));
    runs_.assign(1, {.width = 8, .count = body.size()});
    coded = stages_.code->encode({all, runs_}, writer.rest());
  }
  if (!coded) return 0;
  writer.take(*coded);
  std::ranges::copy(coded_.room(writer.used()), body.begin());
  return writer.used();
}

std::span<const std::byte> ChainReader::decompress(std::span<const std::byte> body, const Plan& plan) {
  ByteReader reader(body);
  const auto size = reader.get<std::uint32_t>("coded body");
  if (size > plan.max_body) {
    throw WireError(fmt::format("a body of {} bytes, where {} are the most", size, plan.max_body));
  }
  const auto raw = coded_.room(plan.max_body).first(size);
  runs_.assign(1, {.width = 8, .count = size});
  stages_.code->decode(reader.rest(), {raw, runs_});
  return raw;
}

// REQUIRES the units of the message; their symbols have `packed` bytes.
std::span<const std::byte> ChainReader::decompress_symbols(std::span<const std::byte> coded,
                                                           std::span<const std::byte> side, std::size_t packed) {
  const auto raw = coded_.room(packed);
  list_runs(side);
  stages_.code->decode(coded, {raw, runs_});
  return raw;
}

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

std::int64_t ChainReader::add_shares(std::span<std::size_t> bytes) {
  require_open("MessageReader::add_shares");
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
