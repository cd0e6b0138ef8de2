#include "sotto/codec/index.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>

#include "sotto/codec/shared_work.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

std::size_t bitmap_bytes(std::size_t atoms) { return (atoms + 7) / 8; }

std::size_t varint_bytes(std::uint32_t value) { return (static_cast<std::size_t>(std::bit_width(value | 1U)) + 6) / 7; }

[[noreturn]] void too_many(std::size_t most) {
  throw WireError(fmt::format("index list of more than the {} indices that this codec can select", most));
}

constexpr std::size_t max_gap_bytes = 5;

std::size_t read_delta(std::span<const std::byte> in, std::size_t atoms, std::span<std::uint32_t> indices) {
  std::size_t count = 0;
  std::uint64_t next = 0;  // the smallest index that may follow
  std::size_t i = 0;
  while (i < in.size()) {
    std::uint64_t gap = 0;
    unsigned shift = 0;
    for (;; shift += 7) {
      if (i == in.size()) throw WireError("truncated index list");
      if (shift > 7 * (max_gap_bytes - 1)) throw WireError("malformed index list: a gap of more than five bytes");
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

std::size_t bits_in(std::span<const std::byte> bytes) {
  std::size_t bits = 0;
  for (const std::byte byte : bytes) bits += static_cast<std::size_t>(std::popcount(std::to_integer<unsigned>(byte)));
  return bits;
}

// Of bytes [begin, end) of a bitmap: writes those from number `place` on.
std::size_t read_bits(std::span<const std::byte> in, std::size_t begin, std::size_t end, std::size_t place,
                      std::span<std::uint32_t> indices) {
  const std::size_t first = place;
  for (std::size_t i = begin; i < end; ++i) {
    for (unsigned byte = std::to_integer<unsigned>(in[i]); byte != 0; byte &= byte - 1) {
      if (place >= indices.size()) too_many(indices.size());
      indices[place++] = static_cast<std::uint32_t>(8 * i + static_cast<std::size_t>(std::countr_zero(byte)));
    }
  }
  return place - first;
}

// Bytes or indices of a task: they take longer than floats.
std::size_t index_grain(const Workers& workers) { return std::max<std::size_t>(workers.grain() / 4, 1); }

// Where the gap begins that byte `at` belongs to. WireError when it is longer than a gap can be.
std::size_t begin_of_gap(std::span<const std::byte> in, std::size_t at) {
  const std::size_t least = at < max_gap_bytes ? 0 : at - max_gap_bytes;
  while (at > 0 && in[at - 1] >= std::byte{0x80}) {
    if (at-- == least) throw WireError("malformed index list");
  }
  return at;
}

// Each task reads the gaps that end in its bytes, as if they were the first ones; then what the others have before it
// is added. WireError, not always that of the first mistake.
std::size_t read_delta(Workers& workers, std::span<const std::byte> in, std::size_t atoms,
                       std::span<std::uint32_t> indices) {
  struct Part {
    std::size_t begin = 0, place = 0;  // of its bytes and indices
    std::uint64_t first = 0;           // the smallest index that may be among them
  };
  std::array<Part, most_tasks + 1> parts;
  const std::size_t size = task_size(in.size(), index_grain(workers));
  workers.run_stretches(in.size(), size, [&](std::size_t begin, std::size_t end) {
    const auto ends =
        std::ranges::count_if(in.subspan(begin, end - begin), [](std::byte b) { return b < std::byte{0x80}; });
    parts[begin / size + 1] = {begin_of_gap(in, end), static_cast<std::size_t>(ends), 0};
  });
  const std::size_t tasks = (in.size() + size - 1) / size;
  for (std::size_t t = 0; t < tasks; ++t) parts[t + 1].place += parts[t].place;
  if (parts[tasks].place > indices.size()) too_many(indices.size());
  if (parts[tasks].begin != in.size()) throw WireError("truncated index list");
  workers.run(tasks, [&](std::size_t t) {
    const auto its = indices.subspan(parts[t].place, parts[t + 1].place - parts[t].place);
    read_delta(in.subspan(parts[t].begin, parts[t + 1].begin - parts[t].begin), atoms, its);
    parts[t + 1].first = its.empty() ? 0 : std::uint64_t{its.back()} + 1;
  });
  for (std::size_t t = 0; t < tasks; ++t) parts[t + 1].first += parts[t].first;
  if (parts[tasks].first > atoms) throw WireError(fmt::format("index {} of {} atoms", parts[tasks].first - 1, atoms));
  workers.run(tasks, [&](std::size_t t) {
    const auto first = static_cast<std::uint32_t>(parts[t].first);
    for (std::uint32_t& index : indices.subspan(parts[t].place, parts[t + 1].place - parts[t].place)) index += first;
  });
  return parts[tasks].place;
}

std::size_t read_bitmap(Workers& workers, std::span<const std::byte> in, std::size_t atoms,
                        std::span<std::uint32_t> indices) {
  if (in.size() != bitmap_bytes(atoms)) {
    throw WireError(fmt::format("index bitmap of {} bytes for {} atoms", in.size(), atoms));
  }
  const unsigned behind = atoms % 8 == 0 ? 0 : std::to_integer<unsigned>(in.back()) >> (atoms % 8);
  if (behind != 0) {
    throw WireError(
        fmt::format("index {} of {} atoms", atoms + static_cast<unsigned>(std::countr_zero(behind)), atoms));
  }
  std::atomic<std::size_t> total = 0;
  fill_in_order(
      workers, in.size(), index_grain(workers),
      [&](std::size_t begin, std::size_t end) { return bits_in(in.subspan(begin, end - begin)); },
      [&](std::size_t begin, std::size_t end, std::size_t place) {
        total += read_bits(in, begin, end, place, indices);
      });
  return total;
}

// The gaps in front of indices [begin, end), as write(gap).
template <class Write>
void for_gaps(std::span<const std::uint32_t> indices, std::size_t begin, std::size_t end, Write write) {
  std::uint32_t next = begin == 0 ? 0 : indices[begin - 1] + 1;
  for (std::size_t j = begin; j < end; ++j) {
    write(indices[j] - next);
    next = indices[j] + 1;
  }
}

std::size_t delta_bytes(std::span<const std::uint32_t> indices, std::size_t begin, std::size_t end) {
  std::size_t bytes = 0;
  for_gaps(indices, begin, end, [&](std::uint32_t gap) { bytes += varint_bytes(gap); });
  return bytes;
}

void write_delta(std::span<const std::uint32_t> indices, std::size_t begin, std::size_t end, std::byte* out) {
  for_gaps(indices, begin, end, [&](std::uint32_t gap) {
    for (; gap >= 0x80U; gap >>= 7) *out++ = static_cast<std::byte>((gap & 0x7FU) | 0x80U);
    *out++ = static_cast<std::byte>(gap);
  });
}

}  // namespace

IndexPlan plan_indices(Workers& workers, std::span<const std::uint32_t> indices, std::size_t atoms) {
  std::size_t delta = 0;
  join_in_order<std::size_t>(
      workers, indices.size(), index_grain(workers),
      [&](std::size_t begin, std::size_t end) { return delta_bytes(indices, begin, end); },
      [&](std::size_t, std::size_t bytes) { delta += bytes; });
  const std::size_t bitmap = bitmap_bytes(atoms);
  return delta <= bitmap ? IndexPlan{IndexCode::delta, delta} : IndexPlan{IndexCode::bitmap, bitmap};
}

std::size_t max_index_bytes(std::size_t count, std::size_t atoms) {
  // A gap of b + 1 bytes skips at least 128^b atoms, so there are at most atoms / 128^b of those.
  std::size_t delta = count;
  for (std::size_t skipped = 128; skipped <= atoms; skipped *= 128) delta += std::min(count, atoms / skipped);
  return std::min(delta, bitmap_bytes(atoms));
}

void write_indices(Workers& workers, std::span<const std::uint32_t> indices, IndexPlan plan, std::span<std::byte> out) {
  if (plan.code == IndexCode::bitmap) {
    workers.run_stretches(out.size(), index_grain(workers), [&](std::size_t begin, std::size_t end) {
      std::fill(&out[begin], &out[begin] + (end - begin), std::byte{0});
      for (auto at = std::ranges::lower_bound(indices, 8 * begin); at != indices.end() && *at < 8 * end; ++at) {
        out[*at / 8] |= static_cast<std::byte>(1U << (*at % 8));
      }
    });
    return;
  }
  fill_in_order(
      workers, indices.size(), index_grain(workers),
      [&](std::size_t begin, std::size_t end) { return delta_bytes(indices, begin, end); },
      [&](std::size_t begin, std::size_t end, std::size_t place) {
        write_delta(indices, begin, end, out.data() + place);
      });
}

std::size_t read_indices(Workers& workers, std::span<const std::byte> in, IndexCode code, std::size_t atoms,
                         std::span<std::uint32_t> indices) {
  if (code == IndexCode::bitmap) return read_bitmap(workers, in, atoms, indices);
  if (workers.threads() == 1 || in.size() <= index_grain(workers)) return read_delta(in, atoms, indices);
  try {
    return read_delta(workers, in, atoms, indices);
  } catch (const WireError&) {
    return read_delta(in, atoms, indices);  // says what is wrong first
  }
}

}  // namespace sotto
