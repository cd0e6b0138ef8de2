#include <cstring>

#include "sotto/codec/index_codes.h"
#include "sotto/kernels/element.h"

namespace sotto {
namespace {

using kernels::element::longest_run;  // skips this many atoms, and selects none after them
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
