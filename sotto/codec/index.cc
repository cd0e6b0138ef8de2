#include "sotto/codec/index.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "sotto/core/error.h"

namespace sotto {
namespace {

std::size_t bitmap_bytes(std::size_t atoms) { return (atoms + 7) / 8; }

std::size_t varint_bytes(std::uint32_t value) { return (static_cast<std::size_t>(std::bit_width(value | 1U)) + 6) / 7; }

[[noreturn]] void too_many(std::size_t most) {
  throw WireError(fmt::format("index list of more than the {} indices that this codec can select", most));
}

std::size_t read_delta(std::span<const std::byte> in, std::size_t atoms, std::span<std::uint32_t> indices) {
  std::size_t count = 0;
  std::uint64_t next = 0;  // the smallest index that may follow
  std::size_t i = 0;
  while (i < in.size()) {
    std::uint64_t gap = 0;
    unsigned shift = 0;
    for (;; shift += 7) {
      if (i == in.size()) throw WireError("truncated index list");
      if (shift > 28) throw WireError("malformed index list: a gap of more than five bytes");
      const auto byte = std::to_integer<std::uint64_t>(in[i++]);
      gap |= (byte & 0x7FU) << shift;
      if (byte < 0x80U) {
        if (byte == 0 && shift > 0) throw WireError("malformed index list: a gap with leading zeros");
        break;
      }
    }
    if (next + gap >= atoms) throw WireError(fmt::format("index {} of {} atoms", next + gap, atoms));
    if (count == indices.size()) too_many(indices.size());
    indices[count++] = static_cast<std::uint32_t>(next + gap);
    next += gap + 1;
  }
  return count;
}

std::size_t read_bitmap(std::span<const std::byte> in, std::size_t atoms, std::span<std::uint32_t> indices) {
  if (in.size() != bitmap_bytes(atoms)) {
    throw WireError(fmt::format("index bitmap of {} bytes for {} atoms", in.size(), atoms));
  }
  std::size_t count = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    for (unsigned byte = std::to_integer<unsigned>(in[i]); byte != 0; byte &= byte - 1) {
      const std::size_t index = 8 * i + static_cast<std::size_t>(std::countr_zero(byte));
      if (index >= atoms) throw WireError(fmt::format("index {} of {} atoms", index, atoms));
      if (count == indices.size()) too_many(indices.size());
      indices[count++] = static_cast<std::uint32_t>(index);
    }
  }
  return count;
}

}  // namespace

IndexPlan plan_indices(std::span<const std::uint32_t> indices, std::size_t atoms) {
  std::size_t delta = 0;
  std::uint32_t next = 0;
  for (const std::uint32_t index : indices) {
    delta += varint_bytes(index - next);
    next = index + 1;
  }
  const std::size_t bitmap = bitmap_bytes(atoms);
  return delta <= bitmap ? IndexPlan{IndexCode::delta, delta} : IndexPlan{IndexCode::bitmap, bitmap};
}

std::size_t max_index_bytes(std::size_t count, std::size_t atoms) {
  // A gap of b + 1 bytes skips at least 128^b atoms, so there are at most atoms / 128^b of those.
  std::size_t delta = count;
  for (std::size_t skipped = 128; skipped <= atoms; skipped *= 128) delta += std::min(count, atoms / skipped);
  return std::min(delta, bitmap_bytes(atoms));
}

void write_indices(std::span<const std::uint32_t> indices, IndexPlan plan, std::span<std::byte> out) {
  if (plan.code == IndexCode::bitmap) {
    std::memset(out.data(), 0, out.size());
    for (const std::uint32_t index : indices) out[index / 8] |= static_cast<std::byte>(1U << (index % 8));
    return;
  }
  std::size_t i = 0;
  std::uint32_t next = 0;
  for (const std::uint32_t index : indices) {
    std::uint32_t gap = index - next;
    for (; gap >= 0x80U; gap >>= 7) out[i++] = static_cast<std::byte>((gap & 0x7FU) | 0x80U);
    out[i++] = static_cast<std::byte>(gap);
    next = index + 1;
  }
}

std::size_t read_indices(std::span<const std::byte> in, IndexCode code, std::size_t atoms,
                         std::span<std::uint32_t> indices) {
  return code == IndexCode::delta ? read_delta(in, atoms, indices) : read_bitmap(in, atoms, indices);
}

}  // namespace sotto
