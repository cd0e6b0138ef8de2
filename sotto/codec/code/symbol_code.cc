#include "sotto/codec/code/symbol_code.h"

#include "sotto/core/bytes.h"
#include "sotto/kernels/bits.h"

namespace sotto {
namespace {

constexpr std::size_t most_waves = 64;      // chunks at a time
constexpr std::size_t spare_bytes = 256;    // for a chunk with hardly any symbols
constexpr std::size_t wide_symbols = 2048;  // split or joined together
constexpr unsigned widest = 32;
constexpr unsigned kinds = 2;

// Splits the symbols of a run into their highest bits and the others. REQUIRES bytes of whole symbols.
void split(std::span<const std::byte> in, unsigned width, unsigned plain, std::span<std::uint16_t> high,
           std::span<std::byte> low) {
  std::array<std::uint32_t, wide_symbols> wide;
  for (std::size_t begin = 0; begin < high.size(); begin += wide_symbols) {
    const std::size_t count = std::min(wide_symbols, high.size() - begin);
    const auto some = std::span(wide).first(count);
    kernels::unpack_bits(in.subspan(kernels::packed_bytes(begin, width), kernels::packed_bytes(count, width)), width,
                         some);
    for (std::size_t i = 0; i < count; ++i) {
      high[begin + i] = static_cast<std::uint16_t>(some[i] >> plain);
      some[i] &= (1U << plain) - 1;
    }
    if (!low.empty()) {
      kernels::pack_bits(some, plain,
                         low.subspan(kernels::packed_bytes(begin, plain), kernels::packed_bytes(count, plain)));
    }
  }
}

void join(std::span<const std::uint16_t> high, std::span<const std::byte> low, unsigned width, unsigned plain,
          std::span<std::byte> out) {
  std::array<std::uint32_t, wide_symbols> wide;
  for (std::size_t begin = 0; begin < high.size(); begin += wide_symbols) {
    const std::size_t count = std::min(wide_symbols, high.size() - begin);
    const auto some = std::span(wide).first(count);
    kernels::unpack_bits(low.subspan(kernels::packed_bytes(begin, plain), kernels::packed_bytes(count, plain)), plain,
                         some);
    for (std::size_t i = 0; i < count; ++i) some[i] |= std::uint32_t{high[begin + i]} << plain;
    kernels::pack_bits(some, width,
                       out.subspan(kernels::packed_bytes(begin, width), kernels::packed_bytes(count, width)));
  }
}

}  // namespace

void SymbolCode::reserve(std::size_t symbols) {
  const auto slots = std::min<std::size_t>(static_cast<std::size_t>(pool().threads()), most_waves);
  room_ = std::max(room_, std::min(symbols, most_in_chunk));
  symbols_.room(slots * room_);
  coded_.room(slots * (2 * room_ + spare_bytes));
  counts_.room((slots + 1) * most_symbols);
  chunks_.reserve(symbols / stretch + 1);
}

SymbolCode::Slot SymbolCode::slot(std::size_t number) {
  const std::size_t bytes = 2 * room_ + spare_bytes;
  return {symbols_.room((number + 1) * room_).subspan(number * room_),
          coded_.room((number + 1) * bytes).subspan(number * bytes)};
}

// Calls visit(group) for each kind, and each width of that kind, among runs begin .. end, whose symbols start at `at`.
template <class Visit>
void SymbolCode::visit_groups_of(std::span<const SymbolRun> runs, std::size_t begin, std::size_t end, std::size_t at,
                                 Visit visit) {
  std::array<std::array<bool, widest + 1>, kinds> there{};
  for (const SymbolRun& run : runs.subspan(begin, end - begin)) there[run.kind][run.width] = true;
  for (unsigned kind = 0; kind < kinds; ++kind) {
    for (unsigned width = 1; width <= widest; ++width) {
      if (there[kind][width]) visit(Group{begin, end, at, kind, width});
    }
  }
}

// Calls visit(group) for all groups. They are formed from all runs together, or from the runs of one unit after the
// other.
template <class Visit>
void SymbolCode::visit_groups(std::span<const SymbolRun> runs, Visit visit) const {
  if (!traits_.one_model_a_unit) return visit_groups_of(runs, 0, runs.size(), 0, visit);
  std::size_t at = 0;
  for (std::size_t begin = 0; begin < runs.size();) {
    std::size_t end = begin;
    std::size_t bytes = 0;
    for (; end < runs.size() && runs[end].unit == runs[begin].unit; ++end) bytes += runs[end].bytes();
    visit_groups_of(runs, begin, end, at, visit);
    begin = end;
    at += bytes;
  }
}

// Calls visit(run, count, at, plain) for the chunk's part of each run: `count` symbols, whose bytes start at `at` and
// whose uncoded bits start at `plain`.
template <class Visit>
void SymbolCode::visit_pieces(std::span<const SymbolRun> runs, const Group& group, const Chunk& chunk, Visit visit) {
  std::size_t at = chunk.at;
  std::size_t plain = chunk.plain;
  std::size_t begin = chunk.begin;
  std::size_t left = chunk.symbols;
  for (std::size_t i = chunk.run; left > 0; ++i) {
    const SymbolRun& run = runs[i];
    if (group.has(run)) {
      const std::size_t count = std::min(left, run.count - begin);
      visit(i, count, at + kernels::packed_bytes(begin, run.width),
            plain + kernels::packed_bytes(begin, group.plain()));
      plain += kernels::packed_bytes(run.count, group.plain());
      left -= count;
      begin = 0;
    }
    at += run.bytes();
  }
}

std::size_t SymbolCode::cut_chunks(std::span<const SymbolRun> runs, const Group& group) {
  chunks_.clear();
  std::size_t at = group.at;
  std::size_t plain = 0;
  for (std::size_t i = group.begin; i < group.end; ++i) {
    const SymbolRun& run = runs[i];
    if (group.has(run)) {
      for (std::size_t begin = 0; begin < run.count; begin += stretch) {
        if (chunks_.empty() || chunks_.back().symbols >= stretch) chunks_.push_back({i, begin, at, plain, 0, 0});
        chunks_.back().symbols += std::min(stretch, run.count - begin);
      }
      plain += kernels::packed_bytes(run.count, group.plain());
    }
    at += run.bytes();
  }
  return plain;
}

// Calls task(chunk, slot number) on all threads, and join_chunk(chunk, slot number) in order.
template <class Task, class Join>
void SymbolCode::in_waves(Task task, Join join_chunk) {
  const auto slots = std::min<std::size_t>(static_cast<std::size_t>(pool().threads()), most_waves);
  for (std::size_t begin = 0; begin < chunks_.size(); begin += slots) {
    const std::size_t count = std::min(slots, chunks_.size() - begin);
    pool().run(count, [&](std::size_t i) { task(chunks_[begin + i], i); });
    for (std::size_t i = 0; i < count; ++i) join_chunk(chunks_[begin + i], i);
  }
}

// Reads the coded bits of a chunk's symbols; the other bits go to `low`, unless it is empty.
void SymbolCode::read_chunk(const SymbolRuns<const std::byte>& in, const Group& group, const Chunk& chunk,
                            std::span<std::uint16_t> symbols, std::span<std::byte> low) {
  const unsigned plain = group.plain();
  visit_pieces(in.runs, group, chunk, [&](std::size_t, std::size_t count, std::size_t at, std::size_t low_at) {
    const auto bytes = in.bytes.subspan(at, kernels::packed_bytes(count, group.width));
    const auto some = symbols.first(count);
    symbols = symbols.subspan(count);
    if (plain == 0) return kernels::unpack_bits(bytes, group.width, some);
    split(bytes, group.width, plain, some,
          low.empty() ? low : low.subspan(low_at, kernels::packed_bytes(count, plain)));
  });
}

// REQUIRES the chunks of the group.
std::optional<std::size_t> SymbolCode::count_and_write_model(const SymbolRuns<const std::byte>& in, const Group& group,
                                                             std::span<std::byte> out) {
  const auto counts = counts_.room(most_symbols).first(group.alphabet());
  const auto counts_of = [&](std::size_t number) {
    return counts_.room((number + 2) * most_symbols).subspan((number + 1) * most_symbols, group.alphabet());
  };
  std::ranges::fill(counts, 0U);
  if (traits_.wants_counts) {
    in_waves(
        [&](const Chunk& chunk, std::size_t number) {
          const auto symbols = slot(number).symbols.first(chunk.symbols);
          read_chunk(in, group, chunk, symbols, {});
          std::ranges::fill(counts_of(number), 0U);
          kernels::count_symbols(symbols, counts_of(number));
        },
        [&](const Chunk&, std::size_t number) {
          std::ranges::transform(counts, counts_of(number), counts.begin(), std::plus<>());
        });
  }
  return write_model(counts, out);
}

std::optional<std::size_t> SymbolCode::encode_group(const SymbolRuns<const std::byte>& in, const Group& group,
                                                    std::span<std::byte> out) {
  const std::size_t plain_bytes = cut_chunks(in.runs, group);
  const auto model = count_and_write_model(in, group, out);
  const std::size_t lengths_bytes = chunks_.size() * sizeof(std::uint32_t);
  if (!model || out.size() - *model < plain_bytes + lengths_bytes) return std::nullopt;
  const auto low = out.subspan(*model, plain_bytes);
  const auto lengths = out.subspan(*model + plain_bytes, lengths_bytes);

  std::size_t used = *model + plain_bytes + lengths_bytes;
  std::size_t done = 0;
  bool fits = true;
  std::array<std::optional<std::span<const std::byte>>, most_waves> coded;
  in_waves(
      [&](const Chunk& chunk, std::size_t number) {
        if (!fits) return;
        const Slot its = slot(number);
        const auto symbols = its.symbols.first(chunk.symbols);
        read_chunk(in, group, chunk, symbols, low);
        coded[number] = encode_chunk(symbols, group.alphabet(), its.coded);
      },
      [&](const Chunk&, std::size_t number) {
        fits = fits && coded[number] && coded[number]->size() <= out.size() - used;
        if (!fits) return;
        std::ranges::copy(*coded[number], out.begin() + static_cast<std::ptrdiff_t>(used));
        kernels::store(lengths.data(), done++, static_cast<std::uint32_t>(coded[number]->size()));
        used += coded[number]->size();
      });
  return fits ? std::optional(used) : std::nullopt;
}

std::optional<std::size_t> SymbolCode::encode(const SymbolRuns<const std::byte>& in, std::span<std::byte> out) {
  std::size_t used = 0;
  bool fits = true;
  visit_groups(in.runs, [&](const Group& group) {
    const auto size = fits ? encode_group(in, group, out.subspan(used)) : std::nullopt;
    fits = size.has_value();
    used += size.value_or(0);
  });
  return fits ? std::optional(used) : std::nullopt;
}

// Codes each chunk up to the end of each of its runs: a run gets the growth in bytes. A shorter beginning may take some
// bytes more than a longer one.
void SymbolCode::add_shares_of(const SymbolRuns<const std::byte>& in, const Group& group,
                               std::span<std::size_t> bytes) {
  std::array<std::byte, 4 * most_symbols> model;
  const bool alone = traits_.one_model_a_unit;
  const std::size_t plain_bytes = cut_chunks(in.runs, group);
  const std::size_t model_bytes = count_and_write_model(in, group, model).value();
  if (alone && !chunks_.empty())
    bytes[chunks_.front().run] += model_bytes + plain_bytes + chunks_.size() * sizeof(std::uint32_t);
  for (std::size_t i = group.begin; i < group.end && !alone; ++i) {
    if (group.has(in.runs[i])) bytes[i] += kernels::packed_bytes(in.runs[i].count, group.plain());
  }
  for (const Chunk& chunk : chunks_) {
    const Slot its = slot(0);
    const auto symbols = its.symbols.first(chunk.symbols);
    read_chunk(in, group, chunk, symbols, {});
    const auto size_of = [&](std::size_t count) {
      return encode_chunk(symbols.first(count), group.alphabet(), its.coded).value().size();
    };
    const std::size_t all = size_of(chunk.symbols);
    std::size_t before = alone ? 0 : std::min(size_of(0), all), count = 0;
    visit_pieces(in.runs, group, chunk, [&](std::size_t run, std::size_t some, std::size_t, std::size_t) {
      count += some;
      const std::size_t until = std::clamp(count < chunk.symbols ? size_of(count) : all, before, all);
      bytes[run] += until - before;
      before = until;
    });
  }
}

bool SymbolCode::add_shares(const SymbolRuns<const std::byte>& in, std::span<std::size_t> bytes) {
  visit_groups(in.runs, [&](const Group& group) { add_shares_of(in, group, bytes); });
  return true;
}

// Returns the number of coded bytes of the group.
std::size_t SymbolCode::decode_group(std::span<const std::byte> in, const Group& group,
                                     const SymbolRuns<std::byte>& out) {
  const std::size_t plain_bytes = cut_chunks(out.runs, group);
  ByteReader reader(in);
  reader.take(read_model(in, group.alphabet()), "model of symbols");
  const auto low = reader.take(plain_bytes, "bits of symbols");
  for (Chunk& chunk : chunks_) chunk.coded = reader.get<std::uint32_t>("length of a chunk");
  std::size_t total = 0;
  for (Chunk& chunk : chunks_) {
    const std::size_t size = chunk.coded;
    chunk.coded = total;
    total += size;
  }
  const auto all = reader.take(total, "chunks of symbols");
  const auto end_of = [&](const Chunk& chunk) { return &chunk == &chunks_.back() ? total : (&chunk + 1)->coded; };
  in_waves(
      [&](const Chunk& chunk, std::size_t number) {
        auto symbols = slot(number).symbols.first(chunk.symbols);
        decode_chunk(all.subspan(chunk.coded, end_of(chunk) - chunk.coded), group.alphabet(), symbols);
        const unsigned plain = group.plain();
        visit_pieces(out.runs, group, chunk, [&](std::size_t, std::size_t count, std::size_t at, std::size_t low_at) {
          const auto bytes = out.bytes.subspan(at, kernels::packed_bytes(count, group.width));
          const auto some = symbols.first(count);
          symbols = symbols.subspan(count);
          if (plain == 0) return kernels::pack_bits(some, group.width, bytes);
          const auto its_low = low.subspan(low_at, kernels::packed_bytes(count, plain));
          if (!kernels::tail_is_zero(its_low, count * plain)) {
            throw WireError("bits after the lower bits of symbols that are not zero");
          }
          join(some, its_low, group.width, plain, bytes);
        });
      },
      [](const Chunk&, std::size_t) {});
  return in.size() - reader.left();
}

void SymbolCode::decode(std::span<const std::byte> coded, const SymbolRuns<std::byte>& out) {
  std::size_t used = 0;
  visit_groups(out.runs, [&](const Group& group) { used += decode_group(coded.subspan(used), group, out); });
  if (used != coded.size()) {
    throw WireError(std::to_string(coded.size() - used) + " bytes after the last chunk of symbols");
  }
}

}  // namespace sotto
