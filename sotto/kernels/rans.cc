#include "sotto/kernels/rans.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sotto/kernels/rans.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h:
#include <algorithm>
#include <array>
#include <bit>

#include "sotto/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sotto::kernels {
namespace HWY_NAMESPACE {

// Vectors have at most eight states: gathering more at once takes as much time per state.
using States = hn::CappedTag<std::uint32_t, 8>;
using SignedStates = hn::Rebind<std::int32_t, States>;
using Words = hn::Rebind<std::uint16_t, States>;
using Places = hn::Rebind<std::uint8_t, States>;
using State = hn::Vec<States>;
constexpr std::size_t together = hn::MaxLanes(States());
constexpr std::size_t vectors = rans_most_lanes / together;

// The places of words, for one set of lanes that read or write a word. read[lane] is which of the next words the lane
// gets. `written` has, for each place at the end of a vector, the lane whose word belongs there.
struct LanePlaces {
  std::array<std::uint8_t, together> read{}, written{};
};
constexpr auto lane_places() {
  std::array<LanePlaces, std::size_t{1} << together> places{};
  for (std::size_t set = 0; set < places.size(); ++set) {
    std::uint8_t next = 0;
    for (std::uint8_t lane = 0; lane < together; ++lane) {
      if ((set >> lane & 1) != 0) places[set].read[lane] = next++;
    }
    std::size_t end = together;
    for (std::uint8_t lane = together; lane > 0; --lane) {
      if ((set >> (lane - 1U) & 1) != 0) places[set].written[--end] = static_cast<std::uint8_t>(lane - 1U);
    }
  }
  return places;
}
constexpr auto places_of = lane_places();

template <class Mask>
HWY_INLINE std::size_t set_of(Mask mask) {
  std::uint8_t set[8];
  hn::StoreMaskBits(States(), mask, set);
  return set[0];
}
HWY_INLINE State rearranged(State state, const std::array<std::uint8_t, together>& places) {
  const auto indices = hn::PromoteTo(States(), hn::LoadU(Places(), places.data()));
  return hn::TableLookupLanes(state, hn::IndicesFromVec(States(), indices));
}

HWY_INLINE State set_state(std::uint32_t value) { return hn::Set(States(), value); }

template <bool joint>
HWY_INLINE State take(const RansSlots& table, State state, State& symbol) {
  const auto slot = hn::And(state, set_state((1U << table.precision) - 1));
  const auto high = hn::ShiftRightSame(state, static_cast<int>(table.precision));
  const auto entry = hn::GatherIndex(States(), table.slots.data(), hn::BitCast(SignedStates(), slot));
  if constexpr (joint) {
    symbol = hn::ShiftRight<24>(entry);
    const auto frequency = hn::Add(hn::And(hn::ShiftRight<12>(entry), set_state(0xFFFU)), set_state(1));
    return hn::Add(hn::Mul(frequency, high), hn::And(entry, set_state(0xFFFU)));
  }
  symbol = hn::ShiftRight<14>(entry);
  const auto frequency = hn::GatherIndex(States(), table.frequencies.data(), hn::BitCast(SignedStates(), symbol));
  return hn::Add(hn::Mul(frequency, high), hn::And(entry, set_state(0x3FFFU)));
}

// Decodes whole turns of all states while the words certainly suffice. Returns the number of symbols; advances `word`.
template <bool joint>
std::size_t decode_turns(const RansSlots& table, std::span<std::uint32_t> states, const std::byte*& word,
                         const std::byte* end, std::span<std::uint16_t> symbols) {
  State state[vectors];
  for (std::size_t v = 0; v < vectors; ++v) state[v] = hn::LoadU(States(), &states[v * together]);
  std::size_t i = 0;
  for (; i + rans_most_lanes <= symbols.size() && static_cast<std::size_t>(end - word) >= 2 * rans_most_lanes;
       i += rans_most_lanes) {
    for (std::size_t v = 0; v < vectors; ++v) {
      State symbol;
      const auto next = take<joint>(table, state[v], symbol);
      const auto wants = hn::Eq(hn::ShiftRight<16>(next), hn::Zero(States()));
      const std::size_t set = set_of(wants);
      const auto its = rearranged(hn::PromoteTo(States(), load_bytes(Words(), word)), places_of[set].read);
      state[v] = hn::IfThenElse(wants, hn::Or(hn::ShiftLeft<16>(next), its), next);
      word += sizeof(std::uint16_t) * static_cast<std::size_t>(std::popcount(set));
      hn::StoreU(hn::DemoteTo(Words(), hn::BitCast(SignedStates(), symbol)), Words(), &symbols[i + v * together]);
    }
  }
  for (std::size_t v = 0; v < vectors; ++v) hn::StoreU(state[v], States(), &states[v * together]);
  return i;
}

template <bool joint>
std::size_t decode(const RansSlots& table, std::span<std::uint32_t> states, std::span<const std::byte> words,
                   std::span<std::uint16_t> symbols) {
  const std::byte* word = words.data();
  std::size_t i = 0;
  if (states.size() == rans_most_lanes) {
    i = decode_turns<joint>(table, states, word, words.data() + words.size(), symbols);
  }
  // Near the end a state may need more words than there are. It then gets zeros, which `used` counts as words.
  auto used = static_cast<std::size_t>(word - words.data());
  for (; i < symbols.size() && used <= words.size(); ++i) {
    std::uint32_t& state = states[i & (states.size() - 1)];
    if (!rans_step::take<joint>(table, state, symbols[i])) continue;
    std::uint16_t low = 0;
    std::memcpy(&low, words.data() + used, std::min(sizeof(low), words.size() - used));
    state = state << 16 | low;
    used += sizeof(low);
  }
  return used;
}

std::size_t rans_decode(const RansSlots& table, std::span<std::uint32_t> states, std::span<const std::byte> words,
                        std::span<std::uint16_t> symbols) {
  return table.joint ? decode<true>(table, states, words, symbols) : decode<false>(table, states, words, symbols);
}

// The quotients x / f of whole numbers, rounded down. With 32 bits of x and at most 15 bits of f, truncating the
// quotient of doubles is exact.
template <class Half>
HWY_INLINE auto quotients(hn::Vec<Half> x, hn::Vec<Half> f) {
  using Signed = hn::Rebind<std::int32_t, Half>;
  using Doubles = hn::Rebind<double, Half>;
  const auto signed_x = hn::BitCast(Signed(), hn::Xor(x, hn::Set(Half(), 0x80000000U)));
  const auto wide_x = hn::Add(hn::PromoteTo(Doubles(), signed_x), hn::Set(Doubles(), 0x1p31));
  const auto wide_f = hn::PromoteTo(Doubles(), hn::BitCast(Signed(), f));
  return hn::BitCast(Half(), hn::DemoteTo(Signed(), hn::Div(wide_x, wide_f)));
}

// Encodes the symbols of whole turns of all states.
std::byte* encode_turns(std::span<const std::uint16_t> symbols, std::span<const std::uint32_t> ranges,
                        unsigned precision, std::span<std::uint32_t> states, std::byte* end) {
  using Half = hn::Half<States>;
  State state[vectors];
  for (std::size_t v = 0; v < vectors; ++v) state[v] = hn::LoadU(States(), &states[v * together]);
  for (std::size_t i = symbols.size(); i > 0; i -= rans_most_lanes) {
    for (std::size_t v = vectors; v-- > 0;) {
      const auto symbol = hn::PromoteTo(States(), hn::LoadU(Words(), &symbols[i - rans_most_lanes + v * together]));
      const auto range = hn::GatherIndex(States(), ranges.data(), hn::BitCast(SignedStates(), symbol));
      const auto frequency = hn::ShiftRight<16>(range);
      // If there is only one symbol, this is 2^32 - 1, and no state is above it.
      const auto limit = hn::Sub(hn::ShiftLeftSame(frequency, static_cast<int>(32 - precision)), set_state(1));
      const auto full = hn::Gt(state[v], limit);
      const std::size_t set = set_of(full);
      const auto words = rearranged(hn::And(state[v], set_state(0xFFFFU)), places_of[set].written);
      store_bytes(Words(), hn::DemoteTo(Words(), hn::BitCast(SignedStates(), words)),
                  end - together * sizeof(std::uint16_t));
      end -= sizeof(std::uint16_t) * static_cast<std::size_t>(std::popcount(set));
      const auto x = hn::IfThenElse(full, hn::ShiftRight<16>(state[v]), state[v]);
      const auto quotient =
          hn::Combine(States(), quotients<Half>(hn::UpperHalf(Half(), x), hn::UpperHalf(Half(), frequency)),
                      quotients<Half>(hn::LowerHalf(Half(), x), hn::LowerHalf(Half(), frequency)));
      const auto others = hn::Sub(set_state(1U << precision), frequency);
      state[v] = hn::Add(hn::Add(x, hn::And(range, set_state(0xFFFFU))), hn::Mul(quotient, others));
    }
  }
  for (std::size_t v = 0; v < vectors; ++v) hn::StoreU(state[v], States(), &states[v * together]);
  return end;
}

std::byte* rans_encode(std::span<const std::uint16_t> symbols, std::span<const std::uint32_t> ranges,
                       unsigned precision, std::span<std::uint32_t> states, std::byte* end) {
  const std::size_t turn = states.size();
  std::size_t i = symbols.size();
  for (; i > 0 && (i % turn != 0 || turn < rans_most_lanes); --i) {
    rans_step::put(ranges[symbols[i - 1]], precision, states[(i - 1) & (turn - 1)], end);
  }
  return i == 0 ? end : encode_turns(symbols.first(i), ranges, precision, states, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace sotto::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sotto::kernels {

HWY_EXPORT(rans_encode);
HWY_EXPORT(rans_decode);

std::byte* rans_encode(std::span<const std::uint16_t> symbols, std::span<const std::uint32_t> ranges,
                       unsigned precision, std::span<std::uint32_t> states, std::byte* end) {
  return HWY_DYNAMIC_DISPATCH(rans_encode)(symbols, ranges, precision, states, end);
}
std::size_t rans_decode(const RansSlots& table, std::span<std::uint32_t> states, std::span<const std::byte> words,
                        std::span<std::uint16_t> symbols) {
  return HWY_DYNAMIC_DISPATCH(rans_decode)(table, states, words, symbols);
}

RansSlots rans_slots(std::span<const std::uint32_t> frequencies, unsigned precision, std::span<std::uint32_t> slots) {
  const bool joint = precision <= 12 && frequencies.size() <= 256;
  std::size_t at = 0;
  for (std::uint32_t s = 0; s < frequencies.size(); ++s) {
    const std::uint32_t f = frequencies[s];
    const std::uint32_t first = joint ? s << 24 | (f - 1) << 12 : s << 14;
    for (std::uint32_t i = 0; i < f; ++i) slots[at + i] = first + i;
    at += f;
  }
  return {precision, joint, slots, frequencies};
}

void rans_ranges(std::span<const std::uint32_t> frequencies, std::span<std::uint32_t> ranges) {
  std::uint32_t start = 0;
  for (std::size_t s = 0; s < frequencies.size(); ++s) {
    ranges[s] = frequencies[s] << 16 | start;
    start += frequencies[s];
  }
}

}  // namespace sotto::kernels
#endif
