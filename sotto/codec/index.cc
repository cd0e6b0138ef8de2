#include "sotto/codec/index.h"

#include <algorithm>
#include <bit>

#include "sotto/codec/index_codes.h"
#include "sotto/codec/shared_work.h"
#include "sotto/kernels/element.h"
#include "sotto/kernels/select.h"

namespace sotto {
namespace {

// Bits of Rice's code with this shift.
std::uint64_t rice_bits(std::size_t count, unsigned shift, std::uint64_t quotients) {
  return std::uint64_t{count} * (shift + 1) + quotients;
}

std::size_t rice_bytes(std::size_t count, unsigned shift, std::uint64_t quotients) {
  return rice_head + (count * shift + 7) / 8 + (count + quotients + 7) / 8;
}

kernels::GapSizes gap_sizes(ThreadPool& pool, std::span<const std::uint32_t> indices, unsigned shift) {
  kernels::GapSizes all;
  join_in_order<kernels::GapSizes>(
      pool, indices.size(), index_grain(pool),
      [&](std::size_t begin, std::size_t end) {
        return kernels::gap_sizes(indices.subspan(begin, end - begin), begin == 0 ? 0 : indices[begin - 1] + 1, shift);
      },
      [&](std::size_t, const kernels::GapSizes& part) {
        all.more_groups += part.more_groups;
        all.long_runs += part.long_runs;
        for (std::size_t j = 0; j < all.quotients.size(); ++j) all.quotients[j] += part.quotients[j];
      });
  return all;
}

}  // namespace

IndexPlan plan_indices(ThreadPool& pool, std::span<const std::uint32_t> indices, std::size_t atoms) {
  const std::size_t count = indices.size();
  if (count == 0) return {};
  const std::size_t bitmap = bitmap_bytes(atoms);
  const std::uint64_t skipped = std::uint64_t{indices.back()} + 1 - count;
  // Returns the result of the search below without looking at the gaps. Per index, delta takes at least a byte, runs
  // take two, and Rice's code with remainders takes at least two bits; two bits per index are no fewer than the
  // bitmap's one per atom.
  if (2 * count >= atoms && bitmap < count && bitmap <= rice_bytes(count, 0, skipped)) {
    return {IndexCode::bitmap, bitmap, 0};
  }
  // The size of Rice's code first falls with the shift and then grows. For random gaps the best shift is the first with
  // 2^shift above ln((1 + sqrt 5) / 2) times the mean gap. The search starts there and continues as long as the size
  // falls.
  const auto about = static_cast<std::uint64_t>(0.4812 * static_cast<double>(skipped) / static_cast<double>(count));
  constexpr unsigned last = max_rice_shift - 2;
  unsigned shift = std::min(std::max(static_cast<unsigned>(std::bit_width(about)), 1U) - 1, last);
  kernels::GapSizes sizes;
  unsigned best = 0;
  for (;;) {
    sizes = gap_sizes(pool, indices, shift);
    for (unsigned j = best = 0; j < sizes.quotients.size(); ++j) {
      if (rice_bits(count, shift + j, sizes.quotients[j]) < rice_bits(count, shift + best, sizes.quotients[best])) {
        best = j;
      }
    }
    if (best == 0 && shift > 0) {
      --shift;
    } else if (best == 2 && shift < last) {
      ++shift;
    } else {
      break;
    }
  }
  IndexPlan plan{IndexCode::delta, count + static_cast<std::size_t>(sizes.more_groups), 0};
  for (const IndexPlan& other :
       {IndexPlan{IndexCode::bitmap, bitmap, 0},
        IndexPlan{IndexCode::runs, 2 * (count + static_cast<std::size_t>(sizes.long_runs)), 0},
        IndexPlan{IndexCode::rice, rice_bytes(count, shift + best, sizes.quotients[best]), shift + best}}) {
    if (other.bytes < plan.bytes) plan = other;
  }
  return plan;
}

std::size_t max_index_bytes(std::size_t count, std::size_t atoms) {
  // A gap of b + 1 bytes skips at least 128^b atoms, so there are at most atoms / 128^b such gaps.
  std::size_t delta = count;
  for (std::size_t skipped = 128; skipped <= atoms; skipped *= 128) delta += std::min(count, atoms / skipped);
  return std::min(delta, bitmap_bytes(atoms));
}

void write_indices(ThreadPool& pool, std::span<const std::uint32_t> indices, IndexPlan plan, std::span<std::byte> out) {
  switch (plan.code) {
    case IndexCode::delta: return write_delta(pool, indices, out);
    case IndexCode::bitmap: return write_bitmap(pool, indices, out);
    case IndexCode::rice: return write_rice(pool, indices, plan.shift, out);
    case IndexCode::runs: return write_runs(pool, indices, out);
  }
}

std::size_t read_indices(ThreadPool& pool, std::span<const std::byte> in, IndexCode code, std::size_t atoms,
                         std::span<std::uint32_t> indices) {
  switch (code) {
    case IndexCode::bitmap: return read_bitmap(pool, in, atoms, indices);
    case IndexCode::rice: return read_rice(pool, in, atoms, indices);
    case IndexCode::runs: return read_runs(pool, in, atoms, indices);
    case IndexCode::delta: break;
  }
  return read_delta(pool, in, atoms, indices);
}

std::uint64_t index_bits(std::span<const std::uint32_t> indices, Range some, std::size_t atoms, IndexCode code,
                         std::span<const std::byte> list) {
  if (code == IndexCode::bitmap) return atoms;
  const unsigned shift = code == IndexCode::rice ? std::to_integer<unsigned>(list.front()) : 0;
  std::uint64_t bits = 0;
  for_gaps(indices, some.begin, some.end, [&](std::uint32_t gap) {
    switch (code) {
      case IndexCode::delta: bits += std::uint64_t{8} * kernels::element::gap_groups(gap); break;
      case IndexCode::runs: bits += std::uint64_t{16} * (gap / kernels::element::longest_run + 1); break;
      default: bits += shift + 1 + (gap >> shift);
    }
  });
  return bits;
}

}  // namespace sotto
