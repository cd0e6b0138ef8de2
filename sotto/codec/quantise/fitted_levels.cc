#include "sotto/codec/quantise/fitted_levels.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "sotto/kernels/level_table.h"

namespace sotto {

void FittedLevels::reserve(std::optional<std::uint64_t> /*place*/, std::size_t values) {
  sample_.reserve(std::min(values, sample_size_));
}

bool FittedLevels::encode(const Values& values, std::span<std::byte> side, std::span<std::byte> packed) {
  const auto data = values.data;
  const auto norms = side.subspan(head());
  if (!write_norms(pool(), data, blocks_.block, norms)) return false;
  std::array<float, kernels::most_shares + 1> room;
  const auto levels = std::span(room).first(count());
  levels.front() = 0;
  levels.back() = 1;
  room[count()] = 2;  // the gap above the last level
  if (head() > 0) {
    sample_.take(data, blocks_.norms(norms, 0), std::min(data.size(), sample_size_), values.draws.stream);
    fit(sample_, levels);
    std::memcpy(side.data(), &room[1], head());
  }
  pool().run_stretches(data.size(), PackedSymbols::task(pool()), [&](std::size_t begin, std::size_t end) {
    PackedSymbols{width()}.pack(begin, end, packed, [&](std::size_t from, std::span<std::uint16_t> out) {
      kernels::random_shares(data.subspan(from, out.size()), blocks_.norms(norms, from),
                             std::span(room).first(count() + 1), values.draws.part(from, out.size()), out);
    });
  });
  return true;
}

void FittedLevels::check(const Quantised& in, std::size_t values) const {
  check_norms(in.side.subspan(head()), name_);
  float last = 0;
  for (std::size_t j = 0; j < count() - 2; ++j) {
    const auto level = kernels::load<float>(in.side.data(), j);
    if (std::signbit(level) || !(level >= last && level <= 1)) {
      throw WireError(std::string(name_) + ": levels that do not ascend from 0 to 1");
    }
    last = level;
  }
  if (!kernels::tail_is_zero(in.packed, values * width())) {
    throw WireError(std::string(name_) + ": bits after the last symbol of a segment that are not zero");
  }
}

void FittedLevels::add_decoded(const Quantised& in, float scale, std::span<float> out) const {
  std::array<float, 2 * kernels::most_shares> table;  // by symbol
  table[0] = 0;
  for (std::size_t j = 1; j < count(); ++j) {
    const float level = j + 1 < count() ? kernels::load<float>(in.side.data(), j - 1) : 1.0F;
    table[2 * j] = level;
    table[2 * j - 1] = -level;
  }
  table[2 * count() - 1] = -1;  // no encoder writes this symbol
  const auto norms = in.side.subspan(head());
  pool().run_stretches(out.size(), PackedSymbols::task(pool()), [&](std::size_t begin, std::size_t end) {
    PackedSymbols{width()}.unpack(begin, end, in.packed, [&](std::size_t from, std::span<const std::uint16_t> symbols) {
      kernels::add_from_table(symbols, blocks_.norms(norms, from), std::span(table).first(2 * count()), scale,
                              out.subspan(from, symbols.size()));
    });
  });
}

Contract FittedLevels::contract(std::size_t largest) const {
  // More levels never add variance, and those that are fitted to a sample may be of no use to the other values. This is
  // therefore the bound of a single level, as for terngrad: E |C(x)-x|^2 <= norm |x|_1 - |x|^2, at most norm^2 / 4 a
  // value.
  const double n = static_cast<double>(std::max<std::size_t>(std::min(largest, blocks_.block), 1));
  return {.kind = Contract::Kind::unbiased,
          .omega = std::min(std::sqrt(n), n / 4),
          .delta = 0,
          .input = Contract::Input::delta,
          .grain = Contract::Grain::segment,
          .chance = Contract::Chance::own};
}

}  // namespace sotto
