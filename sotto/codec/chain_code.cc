#include <fmt/format.h>

#include <algorithm>

#include "sotto/codec/chain_encoder.h"
#include "sotto/codec/opened_chain.h"
#include "sotto/core/bytes.h"
#include "sotto/core/error.h"

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
std::size_t ChainEncoder::compress(std::span<std::byte> body, std::size_t head, Range packed) {
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

std::span<const std::byte> OpenedChain::decompress(std::span<const std::byte> body, const Plan& plan) {
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
std::span<const std::byte> OpenedChain::decompress_symbols(std::span<const std::byte> coded,
                                                           std::span<const std::byte> side, std::size_t packed) {
  const auto raw = coded_.room(packed);
  list_runs(side);
  stages_.code->decode(coded, {raw, runs_});
  return raw;
}

}  // namespace sotto
