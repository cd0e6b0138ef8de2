#include "sotto/codec/index_codes.h"

#include <atomic>
#include <bit>
#include <cstring>

#include "sotto/kernels/element.h"

namespace sotto {
namespace {

// Writes the indices of the set bits in bytes [begin, end) of a bitmap to `indices`, from entry `place` on.
std::size_t read_bits(std::span<const std::byte> in, std::size_t begin, std::size_t end, std::size_t place,
                      std::span<std::uint32_t> indices) {
  const std::size_t first = place;
  for (std::size_t i = begin; i < end; ++i) {
    for (unsigned byte = std::to_integer<unsigned>(in[i]); byte != 0; byte &= byte - 1) {
      if (place >= indices.size()) throw_too_many(indices.size());
      indices[place++] = static_cast<std::uint32_t>(8 * i + static_cast<std::size_t>(std::countr_zero(byte)));
    }
  }
  return place - first;
}

}  // namespace

std::size_t bits_in(std::span<const std::byte> bytes) {
  std::size_t bits = 0;
  std::size_t i = 0;
  for (std::uint64_t word = 0; i + sizeof(word) <= bytes.size(); i += sizeof(word)) {
    std::memcpy(&word, &bytes[i], sizeof(word));
    bits += static_cast<std::size_t>(std::popcount(word));
  }
  for (; i < bytes.size(); ++i) bits += static_cast<std::size_t>(std::popcount(std::to_integer<unsigned>(bytes[i])));
  return bits;
}

void write_bitmap(ThreadPool& pool, std::span<const std::uint32_t> indices, std::span<std::byte> out) {
  pool.run_stretches(out.size(), index_grain(pool), [&](std::size_t begin, std::size_t end) {
    std::fill(&out[begin], &out[begin] + (end - begin), std::byte{0});
    auto at = std::ranges::lower_bound(indices, 8 * begin);
    while (at != indices.end() && *at < 8 * end) {
      if (*at % 8 == 0 && indices.end() - at >= 8 && at[7] == *at + 7) {  // a whole byte
        out[*at / 8] = std::byte{0xFF};
        at += 8;
      } else {
        out[*at / 8] |= static_cast<std::byte>(1U << (*at % 8));
        ++at;
      }
    }
  });
}

std::size_t read_bitmap(ThreadPool& pool, std::span<const std::byte> in, std::size_t atoms,
                        std::span<std::uint32_t> indices) {
  if (in.size() != bitmap_bytes(atoms)) {
    throw WireError(fmt::format("index bitmap of {} bytes for {} atoms", in.size(), atoms));
  }
  const unsigned after = atoms % 8 == 0 ? 0 : std::to_integer<unsigned>(in.back()) >> (atoms % 8);
  if (after != 0) {
    throw_beyond(atoms + static_cast<unsigned>(std::countr_zero(after)), atoms);
  }
  std::atomic<std::size_t> total = 0;
  fill_in_order(
      pool, in.size(), index_grain(pool),
      [&](std::size_t begin, std::size_t end) { return bits_in(in.subspan(begin, end - begin)); },
      [&](std::size_t begin, std::size_t end, std::size_t place) {
        total += read_bits(in, begin, end, place, indices);
      });
  return total;
}

namespace {

constexpr std::size_t max_gap_bytes = 5;

std::size_t read_gaps(std::span<const std::byte> in, std::size_t atoms, std::span<std::uint32_t> indices) {
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
    if (next + gap >= atoms) throw_beyond(next + gap, atoms);
    if (count == indices.size()) throw_too_many(indices.size());
    indices[count++] = static_cast<std::uint32_t>(next + gap);
    next += gap + 1;
  }
  return count;
}

// Where the gap that contains byte `at` begins. WireError if it is longer than a gap can be.
std::size_t begin_of_gap(std::span<const std::byte> in, std::size_t at) {
  const std::size_t least = at < max_gap_bytes ? 0 : at - max_gap_bytes;
  while (at > 0 && in[at - 1] >= std::byte{0x80}) {
    if (at-- == least) throw WireError("malformed index list");
  }
  return at;
}

// Each task reads the gaps that end in its bytes as if they were the first ones; then the offset of the earlier tasks
// is added. The WireError need not report the first mistake.
std::size_t read_gaps(ThreadPool& pool, std::span<const std::byte> in, std::size_t atoms,
                      std::span<std::uint32_t> indices) {
  struct Part {
    std::size_t begin = 0, place = 0;  // of the bytes and indices of the part
    std::uint64_t first = 0;           // the smallest index that the part may contain
  };
  std::array<Part, most_tasks + 1> parts;
  const std::size_t size = task_size(in.size(), index_grain(pool));
  pool.run_stretches(in.size(), size, [&](std::size_t begin, std::size_t end) {
    const auto ends =
        std::ranges::count_if(in.subspan(begin, end - begin), [](std::byte b) { return b < std::byte{0x80}; });
    parts[begin / size + 1] = {begin_of_gap(in, end), static_cast<std::size_t>(ends), 0};
  });
  const std::size_t tasks = (in.size() + size - 1) / size;
  for (std::size_t t = 0; t < tasks; ++t) parts[t + 1].place += parts[t].place;
  if (parts[tasks].place > indices.size()) throw_too_many(indices.size());
  if (parts[tasks].begin != in.size()) throw WireError("truncated index list");
  pool.run(tasks, [&](std::size_t t) {
    const auto its = indices.subspan(parts[t].place, parts[t + 1].place - parts[t].place);
    read_gaps(in.subspan(parts[t].begin, parts[t + 1].begin - parts[t].begin), atoms, its);
    parts[t + 1].first = its.empty() ? 0 : std::uint64_t{its.back()} + 1;
  });
  for (std::size_t t = 0; t < tasks; ++t) parts[t + 1].first += parts[t].first;
  if (parts[tasks].first > atoms) throw_beyond(parts[tasks].first - 1, atoms);
  pool.run(tasks, [&](std::size_t t) {
    const auto first = static_cast<std::uint32_t>(parts[t].first);
    for (std::uint32_t& index : indices.subspan(parts[t].place, parts[t + 1].place - parts[t].place)) index += first;
  });
  return parts[tasks].place;
}

std::size_t gap_bytes(std::span<const std::uint32_t> indices, std::size_t begin, std::size_t end) {
  std::size_t bytes = 0;
  for_gaps(indices, begin, end, [&](std::uint32_t gap) { bytes += kernels::element::gap_groups(gap); });
  return bytes;
}

void write_gaps(std::span<const std::uint32_t> indices, std::size_t begin, std::size_t end, std::byte* out) {
  for_gaps(indices, begin, end, [&](std::uint32_t gap) {
    for (; gap >= 0x80U; gap >>= 7) *out++ = static_cast<std::byte>((gap & 0x7FU) | 0x80U);
    *out++ = static_cast<std::byte>(gap);
  });
}

}  // namespace

void write_delta(ThreadPool& pool, std::span<const std::uint32_t> indices, std::span<std::byte> out) {
  fill_in_order(
      pool, indices.size(), index_grain(pool),
      [&](std::size_t begin, std::size_t end) { return gap_bytes(indices, begin, end); },
      [&](std::size_t begin, std::size_t end, std::size_t place) {
        write_gaps(indices, begin, end, out.data() + place);
      });
}

std::size_t read_delta(ThreadPool& pool, std::span<const std::byte> in, std::size_t atoms,
                       std::span<std::uint32_t> indices) {
  if (pool.threads() == 1 || in.size() <= index_grain(pool)) return read_gaps(in, atoms, indices);
  try {
    return read_gaps(pool, in, atoms, indices);
  } catch (const WireError&) {
    return read_gaps(in, atoms, indices);  // reports the first mistake
  }
}

namespace {

using kernels::element::longest_run;  // a word of this value skips as many atoms, and selects none after them
using Word = std::uint16_t;

Word word_at(std::span<const std::byte> in, std::size_t i) {
  Word word = 0;
  std::memcpy(&word, &in[i * sizeof(Word)], sizeof(Word));
  return word;
}

}  // namespace

void write_runs(ThreadPool& pool, std::span<const std::uint32_t> indices, std::span<std::byte> out) {
  fill_in_order(
      pool, indices.size(), index_grain(pool),
      [&](std::size_t begin, std::size_t end) {
        std::size_t words = 0;
        for_gaps(indices, begin, end, [&](std::uint32_t gap) { words += gap / longest_run + 1; });
        return words;
      },
      [&](std::size_t begin, std::size_t end, std::size_t place) {
        std::byte* to = out.data() + place * sizeof(Word);
        const auto put = [&](std::uint32_t run) {
          const auto word = static_cast<Word>(run);
          std::memcpy(to, &word, sizeof(Word));
          to += sizeof(Word);
        };
        for_gaps(indices, begin, end, [&](std::uint32_t gap) {
          for (; gap >= longest_run; gap -= longest_run) put(longest_run);
          put(gap);
        });
      });
}

std::size_t read_runs(ThreadPool& pool, std::span<const std::byte> in, std::size_t atoms,
                      std::span<std::uint32_t> indices) {
  const std::size_t words = in.size() / sizeof(Word);
  if (in.size() % sizeof(Word) != 0 || (words > 0 && word_at(in, words - 1) == longest_run)) {
    throw WireError("truncated index list");
  }
  const auto count = [&](std::size_t begin, std::size_t end) {
    std::size_t taken = 0;
    for (std::size_t i = begin; i < end; ++i) taken += word_at(in, i) == longest_run ? 0 : 1;
    return taken;
  };
  const auto read = [&](std::size_t begin, std::size_t end, std::size_t, std::span<std::uint32_t> its) {
    std::uint64_t next = 0;
    std::size_t taken = 0;
    for (std::size_t i = begin; i < end; ++i) {
      const Word run = word_at(in, i);
      next += run;
      if (run == longest_run) continue;
      its[taken++] = static_cast<std::uint32_t>(next++);
    }
    return next;
  };
  const IndicesRead all = read_in_parts(pool, words, indices, count, read);
  if (all.count > indices.size()) throw_too_many(indices.size());
  if (all.moved > atoms) throw_beyond(all.moved - 1, atoms);
  return all.count;
}

}  // namespace sotto
